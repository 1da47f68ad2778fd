#include "tools/graphmill/pipeline_flags.h"

#include <filesystem>

#include "tools/common/output.h"

namespace gm {
namespace {

// pack-weights leaves no trace in a level, so the pipeline's own check of levels does not see that
// it is missing.
Result<> check_needs(const PipelineOptions& options) {
  std::vector<std::string> names = options.passes;
  if (names.empty()) {
    for (const Pass& pass : all_passes()) names.emplace_back(pass.name);
  }
  bool packed = false;
  for (const std::string& name : names) {
    if (options.skip.contains(name)) continue;
    if (name == "pack-weights") packed = true;
    if (name == "lower-regions" && !packed) {
      return err(Code::pass_level, {}, "run pack-weights before it",
                 "pass 'lower-regions' needs the weights' layouts, which 'pack-weights' chooses");
    }
    if (name == options.stop_after) break;
  }
  return {};
}

}  // namespace

void PipelineFlags::add(CLI::App& command) {
  command.add_option("--passes", passes, "run exactly these passes, in this order")
      ->type_name("A,B");
  command.add_option("--skip-pass", skip, "leave these passes out")->type_name("A,B");
  command
      .add_option("--stop-after", stop_after,
                  "run no pass behind this one, and write the text instead of a plan")
      ->type_name("PASS");
  command
      .add_option("--print-after", print_after,
                  "print the text to stderr after this pass, or after each that 'changed' it")
      ->type_name("PASS");
  command.add_option("--dump-dir", dump_dir, "write the text after each pass to DIR/NN.PASS.gm")
      ->type_name("DIR");
  command.add_flag("--list-passes", list, "list the passes and exit");
  command.add_flag("--time-passes", time, "print what each pass and its verifier took to stderr");
}

Result<PipelineOptions> PipelineFlags::options() const {
  PipelineOptions options;
  options.passes = name_list(passes);
  for (std::string& name : name_list(skip)) options.skip.insert(std::move(name));
  options.stop_after = stop_after;
  options.print_after = print_after;
  options.print = [](std::string_view text) { fmt::print(stderr, "{}", text); };
  GM_TRY(check_needs(options));
  if (dump_dir.empty()) return options;
  std::error_code fault;
  std::filesystem::create_directories(dump_dir, fault);
  if (fault) {
    return err(Code::file_write, Location::of_file(dump_dir),
               "give --dump-dir a folder that can be made and written to",
               "the folder cannot be made: {}", fault.message());
  }
  options.dump_dir = dump_dir;
  return options;
}

std::string pass_list_text() {
  std::vector<std::vector<std::string>> rows = {{"pass", "from", "to", "what it does"}};
  for (const Pass& pass : all_passes()) {
    rows.push_back({std::string(pass.name), std::string(to_string(pass.from)),
                    std::string(to_string(pass.to)), std::string(pass.doc)});
  }
  return table_text(rows);
}

std::string pass_times_text(const std::vector<PassTime>& times) {
  std::vector<std::vector<std::string>> rows = {{"pass", "run ms", "verify ms"}};
  for (const PassTime& time : times) {
    rows.push_back({time.pass, fmt::format("{:.1f}", static_cast<double>(time.run_us) / 1000),
                    fmt::format("{:.1f}", static_cast<double>(time.verify_us) / 1000)});
  }
  return table_text(rows, " rr");
}

}  // namespace gm
