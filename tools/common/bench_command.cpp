#include "tools/common/bench_command.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "plan/plan_file.h"
#include "tools/common/bench_limits.h"
#include "tools/common/bench_work.h"
#include "tools/common/open_instance.h"

namespace gm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kWarmSteps = 2;  // before the first that is timed

struct BenchFlags {
  std::string plan, mode = "decode";
  ExecutorFlags executor;  // always native: the limits are those of native code
  std::string weights;
  int64_t batch = 1, context = 128, tokens = 512, repeat = 0;
  CLI::Option* has_batch = nullptr;
  CLI::Option* has_context = nullptr;
  CLI::Option* has_tokens = nullptr;
  CLI::Option* has_repeat = nullptr;
  bool json = false, quiet = false;
};

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Decimal, as rates are.
std::string megabytes(int64_t bytes) {
  return fmt::format("{:.2f} MB", static_cast<double>(bytes) / 1e6);
}

// Of measured times. p95 is the least that 95 of 100 do not exceed.
struct Times {
  double median = 0, best = 0, p95 = 0;

  static Times of(std::vector<double> seconds) {
    std::ranges::sort(seconds);
    const size_t n = seconds.size();
    const auto p95 = static_cast<size_t>(std::ceil(0.95 * static_cast<double>(n))) - 1;
    return {(seconds[(n - 1) / 2] + seconds[n / 2]) / 2, seconds[0], seconds[p95]};
  }
  Json json() const { return {{"median", median * 1e3}, {"best", best * 1e3}, {"p95", p95 * 1e3}}; }
};

// The results: rows for people, fields for programs.
struct Report {
  std::vector<std::vector<std::string>> rows = {{"", "measured", "limit", "of the limit"}};
  Json fields = Json::object();

  void add(std::string name, std::string measured) {
    rows.push_back({std::move(name), std::move(measured), "", ""});
  }
  void add_rate(std::string name, double rate, double limit, std::string_view unit) {
    rows.push_back({std::move(name), fmt::format("{:.2f} {}", rate / 1e9, unit),
                    fmt::format("{:.2f} {}", limit / 1e9, unit),
                    fmt::format("{:.0f} %", 100 * rate / limit)});
  }
  void add_times(const std::string& name, const Times& times) {
    add(name + ", median", fmt::format("{:.2f} ms", times.median * 1e3));
    add(name + ", best", fmt::format("{:.2f} ms", times.best * 1e3));
    add(name + ", p95", fmt::format("{:.2f} ms", times.p95 * 1e3));
  }
};

// Sequences with slots and pages of their own, at equal lengths. Their tokens depend on nothing but
// their places, so equal runs do equal work.
class Sequences {
 public:
  Sequences(Instance& instance, int64_t count, int64_t pages_each)
      : instance_(&instance), count_(count), pages_each_(pages_each) {}

  // Sequence `index` alone: tokens [done, done + count) of its prompt.
  Result<> prefill(int64_t index, int64_t done, int64_t count) {
    Step step{.program = "mixed", .tokens = count, .seqs = 1, .rows = 1};
    for (int64_t i = done; i < done + count; ++i) {
      step.ids.push_back(
          static_cast<int32_t>((i * 7919 + index * 104729 + 1) % instance_->plan().model.vocab));
      step.pos.push_back(static_cast<int32_t>(i));
    }
    step.seq_start = {0, static_cast<int32_t>(count)};
    step.logit_row = {static_cast<int32_t>(count - 1)};
    place(step, index, done, done + count);
    return instance_->executor().run(step);
  }
  // The whole prompt, in pieces as large as the plan allows.
  Result<> prefill_all(int64_t index, int64_t tokens) {
    const int64_t most = instance_->plan().limits.max_tokens;
    for (int64_t done = 0; done < tokens; done += most)
      GM_TRY(prefill(index, done, std::min(most, tokens - done)));
    return {};
  }
  // One more token of each; seconds of the step alone.
  Result<double> decode(int64_t done, std::vector<int32_t>& ids) {
    Step step{.program = "decode", .tokens = count_, .seqs = count_, .rows = count_};
    step.ids = ids;
    for (int64_t i = 0; i < count_; ++i) {
      step.pos.push_back(static_cast<int32_t>(done));
      place(step, i, done, done + 1);
    }
    const Clock::time_point start = Clock::now();
    GM_TRY(instance_->executor().run(step));
    const double seconds = since(start);
    GM_ASSIGN(ids, next());
    return seconds;
  }
  // The likeliest tokens that the last step gave.
  Result<std::vector<int32_t>> next() const {
    const std::optional<TensorView> view = instance_->executor().output("next");
    if (!view) {
      return err(Code::step_program, {}, "compile the plan again with this version",
                 "a program has no output next");
    }
    const auto ids = view->i32();
    return std::vector<int32_t>(ids.begin(), ids.end());
  }

 private:
  void place(Step& step, int64_t index, int64_t done, int64_t tokens) const {
    const PlanLimits& limits = instance_->plan().limits;
    const int64_t columns = (limits.max_context + limits.page_tokens - 1) / limits.page_tokens;
    step.ctx.push_back(static_cast<int32_t>(done));
    step.slot.push_back(static_cast<int32_t>(index));
    for (int64_t page = 0; page < columns; ++page) {
      const bool used = page * limits.page_tokens < tokens;
      step.pages.push_back(used ? static_cast<int32_t>(index * pages_each_ + page) : -1);
    }
  }

  Instance* instance_;
  int64_t count_, pages_each_;
};

Result<> check_size(std::string_view flag, int64_t value, int64_t most, std::string_view limit,
                    std::string_view compile_flag, int64_t needed) {
  if (value < 1) {
    return err(Code::command_line, {}, "give a number of 1 or more", "{} cannot be {}", flag,
               value);
  }
  if (value <= most) return {};
  return err(Code::run_size, Location::of_path({}, std::string(flag)),
             most < 1 ? fmt::format("compile the plan with {} {} or more", compile_flag, needed)
                      : fmt::format("give 1 to {}, or compile the plan with {} {} or more", most,
                                    compile_flag, needed),
             "{} {} does not fit the plan, which allows {}", flag, value, limit);
}

// Defaults by the mode; an option that would have no effect is a mistake.
Result<> check_flags(BenchFlags& flags, const Plan& plan) {
  const bool decode = flags.mode == "decode";
  const auto refuse = [&](const CLI::Option* option, std::string_view name,
                          std::string_view modes) -> Result<> {
    if (option->count() == 0) return {};
    return err(Code::command_line, {}, fmt::format("leave {} out, or measure {}", name, modes),
               "{} has no meaning for {}", name, flags.mode);
  };
  if (!decode) GM_TRY(refuse(flags.has_batch, "--batch", "decode"));
  if (!decode) GM_TRY(refuse(flags.has_context, "--context", "decode"));
  if (decode) GM_TRY(refuse(flags.has_tokens, "--tokens", "prefill or start"));
  if (flags.has_repeat->count() == 0) flags.repeat = decode ? 32 : 3;
  const PlanLimits& limits = plan.limits;
  if (flags.has_tokens->count() == 0)
    flags.tokens = std::min<int64_t>(flags.mode == "start" ? 16 : 512, limits.max_context);
  constexpr int64_t kMostRepeats = 1'000'000;
  if (flags.repeat < 1 || flags.repeat > kMostRepeats) {
    return err(Code::command_line, {}, fmt::format("give a number from 1 to {}", kMostRepeats),
               "--repeat cannot be {}", flags.repeat);
  }
  const std::string context = fmt::format("{} tokens of a sequence", limits.max_context);
  if (!decode)
    return check_size("--tokens", flags.tokens, limits.max_context, context, "--max-context",
                      flags.tokens);
  GM_TRY(check_size("--batch", flags.batch, limits.max_seqs,
                    fmt::format("{} sequences in a step", limits.max_seqs), "--max-seqs",
                    flags.batch));
  const int64_t steps = flags.repeat + kWarmSteps;
  if (flags.has_context->count() == 0)
    flags.context = std::clamp<int64_t>(limits.max_context - steps, 1, 128);
  return check_size("--context", flags.context, limits.max_context - steps,
                    fmt::format("{}, of which the steps take {}", context, steps), "--max-context",
                    flags.context > INT64_MAX - steps ? INT64_MAX : flags.context + steps);
}

Result<> bench_decode(const BenchFlags& flags, Sequences& sequences, const Plan& plan,
                      MachineLimits& limits, Report& report) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < flags.batch; ++i) {
    GM_TRY(sequences.prefill_all(i, flags.context));
    GM_ASSIGN(const std::vector<int32_t> next, sequences.next());
    ids.push_back(next.at(0));
  }
  std::vector<double> seconds;
  for (int64_t i = 0; i < kWarmSteps + flags.repeat; ++i) {
    GM_ASSIGN(const double step, sequences.decode(flags.context + i, ids));
    if (i >= kWarmSteps) seconds.push_back(step);
  }
  const Times times = Times::of(std::move(seconds));
  GM_TRY(improve_limits(limits));
  // The step in the middle of those that were timed.
  GM_ASSIGN(const StepWork work,
            count_work(plan, "decode",
                       {.tokens = flags.batch,
                        .seqs = flags.batch,
                        .rows = flags.batch,
                        .context = flags.context + kWarmSteps + (flags.repeat - 1) / 2}));
  const double rate = static_cast<double>(work.bytes()) / times.median;
  report.add_times("step", times);
  report.add("tokens", fmt::format("{:.2f} /s", static_cast<double>(flags.batch) / times.median));
  report.add("bytes a step", megabytes(work.bytes()));
  report.add("  weights", megabytes(work.weight_bytes));
  report.add("  state", megabytes(work.state_bytes));
  report.add("  kv cache", megabytes(work.kv_bytes));
  report.add_rate("bytes / median", rate, limits.bytes_per_second, "GB/s");
  report.fields["decode"] = {
      {"batch", flags.batch},
      {"context", flags.context},
      {"steps", flags.repeat},
      {"step_ms", times.json()},
      {"tokens_per_second", static_cast<double>(flags.batch) / times.median},
      {"bytes",
       {{"weights", work.weight_bytes}, {"state", work.state_bytes}, {"kv", work.kv_bytes}}},
      {"bytes_per_second", rate},
      {"of_limit", rate / limits.bytes_per_second}};
  return {};
}

Result<> bench_prefill(const BenchFlags& flags, Sequences& sequences, const Plan& plan,
                       MachineLimits& limits, Report& report) {
  GM_TRY(sequences.prefill_all(0, std::min(flags.tokens, plan.limits.max_tokens)));  // warm
  std::vector<double> seconds;
  for (int64_t i = 0; i < flags.repeat; ++i) {
    const Clock::time_point start = Clock::now();
    GM_TRY(sequences.prefill_all(0, flags.tokens));
    seconds.push_back(since(start));
  }
  const Times times = Times::of(std::move(seconds));
  GM_TRY(improve_limits(limits));
  double multiply_adds = 0;
  for (int64_t done = 0; done < flags.tokens; done += plan.limits.max_tokens) {
    const int64_t count = std::min(plan.limits.max_tokens, flags.tokens - done);
    GM_ASSIGN(const StepWork work,
              count_work(plan, "mixed", {.tokens = count, .seqs = 1, .rows = 1, .context = done}));
    multiply_adds += work.multiply_adds;
  }
  const double rate = multiply_adds / times.median;
  const double tokens = static_cast<double>(flags.tokens) / times.median;
  report.add_times("prompt", times);
  report.add("tokens", fmt::format("{:.1f} /s", tokens));
  report.add("multiply-adds", fmt::format("{:.2f} G", multiply_adds / 1e9));
  report.add_rate("multiply-adds / median", rate, limits.multiply_adds_per_second, "G/s");
  report.fields["prefill"] = {{"tokens", flags.tokens},
                              {"prompts", flags.repeat},
                              {"prompt_ms", times.json()},
                              {"tokens_per_second", tokens},
                              {"multiply_adds", multiply_adds},
                              {"multiply_adds_per_second", rate},
                              {"of_limit", rate / limits.multiply_adds_per_second}};
  return {};
}

RunSizes sizes_for(int64_t sequences, int64_t pages_each) {
  RunSizes sizes;
  sizes.slots = sequences;
  sizes.pages = sequences * pages_each;
  return sizes;
}

Result<> bench_start(const BenchFlags& flags, int64_t pages_each, MachineLimits& limits,
                     Progress& progress, Report& report) {
  std::vector<double> read, open, first;
  int64_t weight_bytes = 0;
  for (int64_t i = 0; i < flags.repeat; ++i) {
    Clock::time_point start = Clock::now();
    GM_ASSIGN(Plan again, read_plan(flags.plan));
    read.push_back(since(start));
    const auto plan = std::make_shared<const Plan>(std::move(again));
    start = Clock::now();
    GM_ASSIGN(const std::unique_ptr<Instance> instance,
              open_instance(plan, flags.plan, flags.weights, sizes_for(1, pages_each),
                            flags.executor, progress));
    open.push_back(since(start));
    start = Clock::now();
    GM_TRY(Sequences(*instance, 1, pages_each).prefill_all(0, flags.tokens));
    first.push_back(since(start));
    for (const MemoryPart& part : instance->need().parts)
      if (part.name == "weights") weight_bytes = part.bytes;
  }
  GM_TRY(improve_limits(limits));
  const double first_open = open[0];
  const Times reads = Times::of(std::move(read)), opens = Times::of(std::move(open)),
              firsts = Times::of(std::move(first));
  const double rate = static_cast<double>(weight_bytes) / opens.median;
  report.add("plan read, median", fmt::format("{:.2f} ms", reads.median * 1e3));
  report.add("opened and bound, first", fmt::format("{:.2f} ms", first_open * 1e3));
  report.add_times("opened and bound", opens);
  report.add("weights", megabytes(weight_bytes));
  report.add_rate("weights / median", rate, limits.bytes_per_second, "GB/s");
  report.add(fmt::format("first token of {}, median", flags.tokens),
             fmt::format("{:.2f} ms", firsts.median * 1e3));
  report.fields["start"] = {
      {"tokens", flags.tokens},         {"starts", flags.repeat},
      {"plan_ms", reads.json()},        {"first_bind_ms", first_open * 1e3},
      {"bind_ms", opens.json()},        {"weight_bytes", weight_bytes},
      {"bytes_per_second", rate},       {"of_limit", rate / limits.bytes_per_second},
      {"first_token_ms", firsts.json()}};
  return {};
}

Result<Exit> bench(BenchFlags flags) {
  const std::vector<std::string> modes = {"decode", "prefill", "start"};
  GM_TRY(one_of("what `bench` measures", flags.mode, modes));
  GM_ASSIGN(Plan read, read_plan(flags.plan));
  const auto plan = std::make_shared<const Plan>(std::move(read));
  for (const char* name : {"decode", "mixed"}) {
    if (plan->find_program(name) != nullptr) continue;
    return err(Code::step_program, Location::of_file(flags.plan),
               "give a plan that was compiled from a whole model",
               "the plan has no program \"{}\", so there is nothing to measure", name);
  }
  GM_TRY(check_flags(flags, *plan));
  const int64_t page = plan->limits.page_tokens;
  const int64_t tokens =
      flags.mode == "decode" ? flags.context + kWarmSteps + flags.repeat : flags.tokens;
  const int64_t sequences_count = flags.mode == "decode" ? flags.batch : 1;
  const int64_t pages_each = (tokens + page - 1) / page;
  const RunSizes sizes = sizes_for(sequences_count, pages_each);

  Progress progress(flags.quiet);
  std::unique_ptr<Instance> instance;
  if (flags.mode != "start") {
    // Before the limits are measured: what is wrong with plan or weights is said at once.
    GM_ASSIGN(instance,
              open_instance(plan, flags.plan, flags.weights, sizes, flags.executor, progress));
  }
  RunSizes wanted = sizes;
  wanted.threads = flags.executor.threads;
  GM_ASSIGN(const RunSizes chosen, RunSizes::for_plan(*plan, wanted));
  const int vector_bits =
      plan->target == "cpu:v4" || plan->target_features.find("+avx512f") != std::string::npos ? 512
                                                                                              : 256;
  GM_ASSIGN(MachineLimits limits, measure_limits(chosen.threads, vector_bits));
  Report report;
  if (flags.mode == "start") {
    GM_TRY(bench_start(flags, pages_each, limits, progress, report));
  } else {
    Sequences sequences(*instance, sequences_count, pages_each);
    GM_TRY(flags.mode == "decode" ? bench_decode(flags, sequences, *plan, limits, report)
                                  : bench_prefill(flags, sequences, *plan, limits, report));
  }
  if (!flags.json) {
    print_text(fmt::format(
        "{} on {} thread{}: reads {:.2f} GB/s, {}-bit multiply-adds {:.2f} G/s\n", flags.mode,
        limits.threads, limits.threads == 1 ? "" : "s", limits.bytes_per_second / 1e9,
        limits.vector_bits, limits.multiply_adds_per_second / 1e9));
    print_text(table_text(report.rows, "lrrr"));
    return Exit::ok;
  }
  Json json = {{"schema", "graphmill.bench.v1"},
               {"mode", flags.mode},
               {"target", plan->target},
               {"dtype", plan->dtype},
               {"threads", limits.threads},
               {"limits",
                {{"bytes_per_second", limits.bytes_per_second},
                 {"read_bytes", limits.buffer_bytes},
                 {"multiply_adds_per_second", limits.multiply_adds_per_second},
                 {"vector_bits", limits.vector_bits}}}};
  json.update(report.fields);
  print_json(json);
  return Exit::ok;
}

}  // namespace

void add_bench(ProgramLine& program) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App& command =
      program.command("bench", "measure a plan beside what the machine can do",
                      "bench qwen.plan decode --weights qwen3.5-0.8b/ --context 512",
                      [flags] { return bench(*flags); });
  command.add_option("PLAN", flags->plan, "a plan file")->required();
  command.add_option("MODE", flags->mode, "decode, prefill or start")->capture_default_str();
  command.add_option("--weights", flags->weights, "the folder of the checkpoint")
      ->required()
      ->type_name("FOLDER");
  flags->has_batch = command.add_option("--batch", flags->batch, "decode: sequences in a step")
                         ->capture_default_str()
                         ->type_name("N");
  flags->has_context =
      command.add_option("--context", flags->context, "decode: tokens before the first step")
          ->capture_default_str()
          ->type_name("N");
  flags->has_tokens =
      command.add_option("--tokens", flags->tokens, "tokens of the prompt; prefill 512, start 16")
          ->type_name("N");
  flags->has_repeat =
      command
          .add_option("--repeat", flags->repeat,
                      "how often is measured: decode 32 steps, prefill 3 prompts, start 3 starts")
          ->type_name("N");
  command.add_option("--threads", flags->executor.threads, "0: as many as the machine has")
      ->capture_default_str()
      ->type_name("N");
  command
      .add_option("--memory-limit", flags->executor.memory_limit,
                  "refuse to use more memory than this (512M, 2G); without it, what is free")
      ->type_name("BYTES");
  command.add_flag("--json", flags->json, "print the measurements as JSON (docs/bench.md)");
  command.add_flag("--quiet", flags->quiet, "print nothing but results and errors");
}

}  // namespace gm
