#include "tools/common/check_command.h"

#include "plan/plan_file.h"
#include "tools/common/check.h"

namespace gm {

Result<Exit> check_with_goldens(std::shared_ptr<const Plan> plan, const std::string& file,
                                const std::string& folder, const ExecutorFlags& flags,
                                Progress& progress) {
  GM_TRY(require_check_outputs(*plan, file));
  GM_ASSIGN(const Goldens goldens, Goldens::open(folder));
  RunSizes sizes;
  sizes.slots = 1;
  sizes.rows = plan->limits.max_tokens;
  GM_ASSIGN(const std::unique_ptr<Instance> instance,
            open_instance(plan, file, folder, sizes, flags, progress));
  CheckTally tally([&](const std::string& line) {
    progress.end();
    print_text(line);
    std::fflush(stdout);
  });
  GM_TRY(check_cases(*instance, goldens, tally));
  if (plan->dtype == "bf16") {
    GM_TRY(check_layers(*instance, goldens, tally));
    if (goldens.layers().empty()) progress.line("layers: not compared, there is no layers.json");
  }
  print_text(fmt::format("{} passed, {} failed\n", tally.passed(), tally.failed()));
  return tally.failed() == 0 ? Exit::ok : Exit::check_difference;
}

void add_check_plan(ProgramLine& program) {
  struct Flags {
    std::string plan, goldens;
    ExecutorFlags executor;
    bool quiet = false;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App& command = program.command(
      "check", "compare a plan with the goldens of its model",
      "check tiny.plan --goldens tests/golden/dense-tiny", [flags]() -> Result<Exit> {
        GM_ASSIGN(Plan plan, read_plan(flags->plan));
        Progress progress(flags->quiet);
        return check_with_goldens(std::make_shared<const Plan>(std::move(plan)), flags->plan,
                                  flags->goldens, flags->executor, progress);
      });
  command.add_option("PLAN", flags->plan, "a plan that was compiled with --check-outputs")
      ->required();
  command.add_option("--goldens", flags->goldens, "the folder of the checkpoint and its goldens")
      ->required()
      ->type_name("FOLDER");
  flags->executor.add(command);
  command.add_flag("--quiet", flags->quiet, "print nothing but results and errors");
}

}  // namespace gm
