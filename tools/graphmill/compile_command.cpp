#include <chrono>
#include <filesystem>

#include "plan/plan_file.h"
#include "runtime/memory.h"
#include "tools/common/output.h"
#include "tools/graphmill/commands.h"
#include "tools/graphmill/inspect.h"
#include "tools/graphmill/model_input.h"
#include "tools/graphmill/module_text.h"
#include "tools/graphmill/pipeline_flags.h"

namespace gm {
namespace {

struct CompileFlags {
  std::string model, output, numerics = "match-storage";
  TargetFlags target;
  PipelineFlags pipeline;
  int64_t max_seqs = 8, max_context = 4096, max_tokens = 512;
  bool splat = false, check_outputs = false, dry_run = false, quiet = false;
};

int64_t weight_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const WeightBuffer& buffer : plan.weights) {
    int64_t count = size_bytes(buffer.dtype);
    for (int64_t extent : buffer.shape) count *= extent;
    bytes += count;
  }
  return bytes;
}

std::string kernels_text(const Plan& plan) {
  std::string text;
  for (const Json& program : plan.report["programs"]) {
    const std::string name = program["name"].get<std::string>();
    if (name != "decode" && name != "mixed") continue;
    text += fmt::format("{}: {} kernels a step, {} without fusion\n", name,
                        program["kernels"].get<int64_t>(), program["ops"].get<int64_t>());
  }
  return text;
}

std::string summary(const Plan& plan, const std::string& output, int64_t seconds_ms) {
  std::string text = kernels_text(plan);
  std::error_code fault;
  const auto size = std::filesystem::file_size(output, fault);
  text += fmt::format("weights: {} in {} buffers\n", bytes_text(weight_bytes(plan)),
                      plan.weights.size());
  text += fmt::format("wrote {} ({}), {} distinct kernels for {}, in {:.1f} s\n", output,
                      fault ? "unknown size" : bytes_text(static_cast<int64_t>(size)),
                      plan.kernels.size(), plan.target, static_cast<double>(seconds_ms) / 1000);
  return text;
}

// The sum that `run` checks before it allocates anything, when as many sequences run at a time as
// the plan allows.
Result<std::string> need_text(const Plan& plan) {
  GM_ASSIGN(const RunSizes sizes, RunSizes::for_plan(plan, {}));
  GM_ASSIGN(const MemoryNeed need, memory_need(plan, sizes));
  std::string text = kernels_text(plan);
  text += fmt::format("{} distinct kernels for {}\n", plan.kernels.size(), plan.target);
  text += fmt::format("a run needs {} at these limits\n", bytes_text(need.total));
  return text + memory_table(need, "");
}

// A graph alone lacks what a plan must know of a model: its vocabulary, limits and the ids that end
// a text.
Result<Exit> compile_text(const CompileFlags& flags, PipelineOptions options) {
  GM_ASSIGN(ModuleText text, read_module_text(flags.model));
  if (!text.kernels.empty()) {
    return err(Code::command_line, Location::of_file(flags.model),
               "use `graphmill opt` for kernels", "the file holds kernels, not a graph");
  }
  if (flags.target.fusion == "off") options.skip.insert("fuse");
  std::vector<PassTime> times;
  GM_ASSIGN(const Module module, run_pipeline(std::move(text.module), options, &times));
  if (flags.pipeline.time) fmt::print(stderr, "{}", pass_times_text(times));
  GM_TRY(write_text(flags.output, print_module(module)));
  if (!flags.quiet) {
    fmt::print(stderr,
               "no plan is made from a text, which has no model around it; wrote the text after "
               "the passes to {}\n",
               flags.output);
  }
  return Exit::ok;
}

Result<Exit> compile(const CompileFlags& flags) {
  if (flags.pipeline.list) {
    print_text(pass_list_text());
    return Exit::ok;
  }
  if (flags.model.empty() || (flags.output.empty() && !flags.dry_run)) {
    return err(Code::command_line, {}, "see `graphmill compile --help`", "{} is missing",
               flags.model.empty() ? "MODEL" : "-o PLAN");
  }
  const bool is_text = std::filesystem::path(flags.model).extension() == ".gm";
  if (flags.dry_run && (is_text || !flags.pipeline.stop_after.empty())) {
    return err(Code::command_line, {}, "leave --dry-run out",
               "--dry-run tells of a plan, but {} makes none", is_text ? "a text" : "--stop-after");
  }
  if (flags.numerics == "fused-f32") {
    return err(Code::command_line, {}, "use --numerics match-storage",
               "--numerics fused-f32 is not available yet");
  }
  const std::vector<std::string> numerics = {"match-storage", "fused-f32"};
  GM_TRY(one_of("--numerics", flags.numerics, numerics));
  const auto start = std::chrono::steady_clock::now();
  CompileOptions options;
  GM_TRY(flags.target.apply(options));
  GM_ASSIGN(options.pipeline, flags.pipeline.options());
  if (is_text) return compile_text(flags, options.pipeline);

  options.check_outputs = flags.check_outputs;
  options.max_seqs = flags.max_seqs;
  options.max_context = flags.max_context;
  options.max_tokens = flags.max_tokens;
  Progress progress(flags.quiet);
  options.progress = [&](std::string_view stage, int done, int total) {
    progress.update(stage, done, total);
  };
  GM_ASSIGN(const ImportedModel model, import_model(flags.model, flags.splat));
  GM_ASSIGN(const CompileResult result, compile_model(model, options));
  progress.end();
  if (flags.pipeline.time) {
    fmt::print(stderr, "{}", pass_times_text(result.times));
    if (result.plan)
      fmt::print(stderr, "native code: {:.1f} ms\n", static_cast<double>(result.native_us) / 1000);
  }
  if (flags.dry_run) {
    if (!result.plan) {
      return err(Code::command_line, {}, "leave out --passes and --skip-pass, or --dry-run",
                 "--dry-run tells of a plan, but the passes stopped before plan-memory");
    }
    GM_ASSIGN(const std::string text, need_text(*result.plan));
    print_text(text);
    return Exit::ok;
  }
  if (!result.plan) {
    GM_TRY(write_text(flags.output, print_module(result.module)));
    if (!flags.quiet)
      fmt::print(stderr, "no plan: the passes stopped before plan-memory; wrote the text to {}\n",
                 flags.output);
    return Exit::ok;
  }
  // A text was asked for, though nothing is missing for a plan.
  if (!flags.pipeline.stop_after.empty()) {
    GM_TRY(write_text(flags.output, print_module(result.module)));
    return Exit::ok;
  }
  if (flags.output == "-") {
    return err(Code::command_line, {}, "give -o a file, or --stop-after PASS for text",
               "a plan is not text, so it is not written to stdout");
  }
  GM_TRY(write_plan(*result.plan, flags.output));
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  if (!flags.quiet) fmt::print(stderr, "{}", summary(*result.plan, flags.output, took.count()));
  return Exit::ok;
}

}  // namespace

void add_compile(ProgramLine& program) {
  const auto flags = std::make_shared<CompileFlags>();
  CLI::App& command = program.command("compile", "compile a model to a plan",
                                      "compile qwen3.5-0.8b/ -o qwen.plan --max-context 8192",
                                      [flags] { return compile(*flags); });
  command.add_option("MODEL", flags->model,
                     "a checkpoint's folder, a .gm text, or with --splat a published size");
  command
      .add_option("-o,--output", flags->output,
                  "the plan to write; '-' for stdout where text is written")
      ->type_name("PLAN");
  flags->target.add(command);
  command.add_option("--numerics", flags->numerics, "match-storage: the same bits fused or not")
      ->capture_default_str();
  command.add_option("--max-context", flags->max_context, "tokens of one sequence at most")
      ->capture_default_str()
      ->type_name("N");
  command.add_option("--max-seqs", flags->max_seqs, "sequences in one step at most")
      ->capture_default_str()
      ->type_name("N");
  command
      .add_option("--max-tokens", flags->max_tokens,
                  "tokens in one step at most; longer prompts take several")
      ->capture_default_str()
      ->type_name("N");
  command.add_flag("--splat", flags->splat,
                   "compile without weights: MODEL may be a published size");
  command.add_flag("--check-outputs", flags->check_outputs,
                   "also what `check PLAN --goldens` needs: a program a layer, hidden states");
  command.add_flag("--dry-run", flags->dry_run,
                   "write nothing; print the kernels of a step and the memory of a run");
  flags->pipeline.add(command);
  command.add_flag("--quiet", flags->quiet, "print nothing but errors");
}

}  // namespace gm
