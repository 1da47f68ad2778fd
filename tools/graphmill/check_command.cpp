#include "tools/common/check_command.h"

#include <filesystem>

#include "plan/plan_file.h"
#include "tools/graphmill/commands.h"
#include "tools/graphmill/model_input.h"

namespace gm {
namespace {

struct CheckFlags {
  std::string what, goldens;
  TargetFlags target;
  ExecutorFlags executor;
  bool quiet = false;
};

// Large enough for every golden prompt and its continuation.
constexpr int64_t kContext = 512;

Result<Exit> check_folder(const CheckFlags& flags) {
  CompileOptions options{
      .check_outputs = true, .max_tokens = kContext, .max_seqs = 2, .max_context = kContext};
  GM_TRY(flags.target.apply(options));
  options.native = flags.executor.executor != "interpreter";
  Progress progress(flags.quiet);
  options.progress = [&](std::string_view stage, int done, int total) {
    progress.update(stage, done, total);
  };
  GM_ASSIGN(const ImportedModel model, import_model(flags.what, false));
  GM_ASSIGN(CompileResult result, compile_model(model, options));
  progress.end();
  GM_CHECK(result.plan.has_value(), "the whole pipeline has made no plan");
  // Through the file's form and back, so that what is checked is what a file would hold.
  GM_ASSIGN(const std::vector<std::byte> bytes, serialize_plan(*result.plan));
  const std::string file = "plan of " + flags.what;
  GM_ASSIGN(Plan plan, parse_plan(bytes, file));
  return check_with_goldens(std::make_shared<const Plan>(std::move(plan)), file, flags.what,
                            flags.executor, progress);
}

Result<Exit> check(const CLI::App& command, const CheckFlags& flags) {
  std::error_code ignored;
  if (std::filesystem::is_directory(flags.what, ignored)) {
    if (!flags.goldens.empty())
      return err(Code::command_line, {},
                 "leave --goldens away: a folder is checked against its own goldens",
                 "'{}' is a folder, not a plan", flags.what);
    return check_folder(flags);
  }
  for (const char* option : {"--target", "--dtype", "--fusion"}) {
    if (command.get_option(option)->count() > 0)
      return err(Code::command_line, {}, "give it to `compile`, or check a folder",
                 "a plan is compiled already: {} has no meaning", option);
  }
  GM_ASSIGN(Plan plan, read_plan(flags.what));
  if (flags.goldens.empty())
    return err(Code::command_line, {}, "add --goldens FOLDER",
               "a plan needs the folder of its checkpoint and goldens");
  Progress progress(flags.quiet);
  return check_with_goldens(std::make_shared<const Plan>(std::move(plan)), flags.what,
                            flags.goldens, flags.executor, progress);
}

}  // namespace

void add_check(ProgramLine& program) {
  const auto flags = std::make_shared<CheckFlags>();
  const auto self = std::make_shared<CLI::App*>(nullptr);
  CLI::App& command = program.command(
      "check", "compare a model, or a plan, with the goldens in a folder",
      "check tests/golden/dense-tiny --dtype f32", [flags, self] { return check(**self, *flags); });
  *self = &command;
  command
      .add_option("FOLDER", flags->what,
                  "a checkpoint with goldens, compiled in memory; or a plan, with --goldens")
      ->required();
  command
      .add_option("--goldens", flags->goldens,
                  "for a plan: the folder of its checkpoint and goldens")
      ->type_name("FOLDER");
  flags->target.add(command);
  flags->executor.add(command);
  command.add_flag("--quiet", flags->quiet, "print nothing but results and errors");
}

}  // namespace gm
