#include "codegen/tile/expand_math.h"
#include "tools/common/output.h"
#include "tools/graphmill/commands.h"
#include "tools/graphmill/module_text.h"
#include "tools/graphmill/pipeline_flags.h"

namespace gm {
namespace {

struct OptFlags {
  std::string file, output = "-";
  PipelineFlags pipeline;
  bool verify_only = false;
};

constexpr std::string_view kKernelPass = "expand-math";

// Kernels have no pipeline: they are verified, and their one pass is applied.
Result<Exit> opt_kernels(std::vector<Kernel> kernels, const OptFlags& flags) {
  for (const Kernel& kernel : kernels) GM_TRY(verify_kernel(kernel));
  for (const std::string& pass : name_list(flags.pipeline.passes)) {
    if (pass != kKernelPass) {
      return err(Code::pass_unknown, {}, fmt::format("the one pass on kernels is {}", kKernelPass),
                 "there is no pass '{}' on kernels", pass);
    }
    for (Kernel& kernel : kernels) {
      kernel = expand_math(kernel);
      GM_TRY(verify_kernel(kernel));
    }
  }
  if (flags.verify_only) return Exit::ok;
  std::string text;
  for (const Kernel& kernel : kernels) text += print_kernel(kernel);
  GM_TRY(write_text(flags.output, text));
  return Exit::ok;
}

Result<Exit> opt(const OptFlags& flags) {
  if (flags.pipeline.list) {
    print_text(pass_list_text());
    return Exit::ok;
  }
  if (flags.file.empty())
    return err(Code::command_line, {}, "see `graphmill opt --help`", "FILE is missing");
  GM_ASSIGN(ModuleText text, read_module_text(flags.file));
  if (!text.kernels.empty()) return opt_kernels(std::move(text.kernels), flags);
  if (auto sound = verify_module(text.module); !sound) {
    // A fault of regions is placed by the regions' names, not in the file.
    Diag fault = std::move(sound).error();
    if (fault.location.file == flags.file) return Error(std::move(fault));
    return Error(std::move(fault).note("in the text", Location::of_file(flags.file)));
  }
  Module module = std::move(text.module);
  if (flags.pipeline.chooses_passes()) {
    GM_ASSIGN(const PipelineOptions options, flags.pipeline.options());
    std::vector<PassTime> times;
    GM_ASSIGN(module, run_pipeline(std::move(module), options, &times));
    if (flags.pipeline.time) fmt::print(stderr, "{}", pass_times_text(times));
  }
  if (!flags.verify_only) GM_TRY(write_text(flags.output, print_module(module)));
  return Exit::ok;
}

}  // namespace

void add_opt(ProgramLine& program) {
  const auto flags = std::make_shared<OptFlags>();
  CLI::App& command = program.command(
      "opt", "run passes on an IR text, or only verify and print it",
      "opt model.gm --passes=pack-weights,form-regions,fuse", [flags] { return opt(*flags); });
  command.add_option("FILE", flags->file,
                     "graphs (each perhaps with its regions) or kernels; '-' for stdin");
  command.add_option("-o,--output", flags->output, "where the text goes; '-' for stdout")
      ->capture_default_str();
  command.add_flag("--verify-only", flags->verify_only, "print nothing, only say what is wrong");
  flags->pipeline.add(command);
}

}  // namespace gm
