#include <algorithm>
#include <cmath>

#include "runtime/generator.h"
#include "tools/common/check.h"

namespace gm {
namespace {

constexpr double kF32Bound = 1e-4;
constexpr double kBf16Factor = 1.25;  // of the reference's own error
constexpr double kRoutedCaseFactor =
    1.6;  // experts: one other choice of an expert moves a case, so only the mean is held to 1.25
constexpr int64_t kPromptRows = 64;  // the goldens hold the logits of so many last positions
constexpr int64_t kGreedyTokens = 24;
constexpr int64_t kGreedyRows[] = {0, 1, kGreedyTokens - 1};

struct PromptResult {
  std::vector<float> logits;               // of the last kPromptRows positions
  std::vector<std::vector<float>> hidden;  // of each layer, at the last position
};

// The architecture's name does not tell: one of them is published with and without experts.
bool has_experts(const Plan& plan) {
  return std::ranges::any_of(plan.weights, [](const WeightBuffer& weight) {
    return std::ranges::any_of(weight.parts, [](const WeightPart& part) {
      return part.tensor.find(".mlp.experts.") != std::string::npos;
    });
  });
}

// The prompt in as few steps as the plan allows.
Result<PromptResult> run_prompt(Instance& instance, const std::vector<int32_t>& prompt) {
  const Plan& plan = instance.plan();
  const auto tokens = static_cast<int64_t>(prompt.size());
  const int64_t wanted_from = std::max<int64_t>(0, tokens - kPromptRows);
  PromptResult result;
  for (int64_t done = 0; done < tokens;) {
    const int64_t count = std::min(tokens - done, plan.limits.max_tokens);
    Step step = one_sequence(instance, "mixed", done, count);
    step.ids.assign(prompt.begin() + done, prompt.begin() + done + count);
    const int64_t first = std::max(wanted_from - done, int64_t{0});
    if (first < count) {
      step.logit_row.clear();
      for (int64_t row = first; row < count; ++row)
        step.logit_row.push_back(static_cast<int32_t>(row));
      step.rows = count - first;
    }
    GM_TRY(instance.executor().run(step));
    const auto logits = instance.executor().output("logits");
    GM_CHECK(logits.has_value(), "mixed has no logits");
    if (first < count)
      result.logits.insert(result.logits.end(), logits->f32().begin(), logits->f32().end());
    done += count;
    if (done < tokens) continue;
    for (int64_t layer = 0; layer < plan.model.layers; ++layer) {
      const auto hidden = instance.executor().output(fmt::format("hidden.{}", layer));
      GM_CHECK(hidden.has_value(), "mixed has no hidden.{}", layer);
      const std::vector<float> all = hidden->to_f32();
      const int64_t width = std::min(plan.model.hidden, std::ssize(all));
      result.hidden.emplace_back(all.end() - width, all.end());
    }
  }
  return result;
}

Result<> check_f32(Instance& instance, const Goldens& goldens, const GoldenCase& golden,
                   const std::vector<int32_t>& prompt, const PromptResult& result,
                   double logits_error, CheckTally& tally) {
  const Plan& plan = instance.plan();
  GM_ASSIGN(const std::vector<float> hidden,
            goldens.floats(golden.name + ".hidden_f32", {plan.model.layers, plan.model.hidden}));
  double hidden_error = 0;
  for (int64_t layer = 0; layer < plan.model.layers; ++layer) {
    const std::span<const float> row(hidden.data() + layer * plan.model.hidden,
                                     static_cast<size_t>(plan.model.hidden));
    hidden_error =
        std::max(hidden_error, relative_error(result.hidden[static_cast<size_t>(layer)], row));
  }
  GM_ASSIGN(const std::vector<int32_t> greedy, goldens.integers(golden.name + ".greedy"));
  GM_ASSIGN(const std::vector<float> greedy_logits,
            goldens.floats(golden.name + ".greedy_logits_f32",
                           {std::ssize(kGreedyRows), plan.model.vocab}));
  GM_ASSIGN(Generator generator, Generator::create(instance, {.prefill_chunk = {},
                                                              .capture = Capture::sampled,
                                                              .tokenizer = nullptr,
                                                              .on_token = {}}));
  const Request request{.ids = prompt, .max_tokens = kGreedyTokens, .ignore_stop = true};
  GM_ASSIGN(const std::vector<Completion> completions, generator.run(std::span(&request, 1)));
  const Completion& completion = completions.front();
  size_t equal = 0;
  while (equal < std::min(greedy.size(), completion.ids.size()) &&
         greedy[equal] == completion.ids[equal])
    ++equal;
  const bool same = equal == greedy.size() && completion.ids.size() == greedy.size() &&
                    greedy.size() == kGreedyTokens;
  double greedy_error = 0;
  for (size_t i = 0; i < std::size(kGreedyRows); ++i) {
    const auto width = static_cast<size_t>(plan.model.vocab);
    const auto row = static_cast<size_t>(kGreedyRows[i]);
    const bool there = completion.logits.size() >= (row + 1) * width;
    // Behind a wrong token the logits belong to another text.
    if (!there || row > equal) continue;
    const std::span<const float> ours(completion.logits.data() + row * width, width);
    greedy_error =
        std::max(greedy_error, relative_error(ours, {greedy_logits.data() + i * width, width}));
  }
  const bool passed =
      logits_error <= kF32Bound && hidden_error <= kF32Bound && greedy_error <= kF32Bound && same;
  tally.add(passed, fmt::format("{} f32, {} prompt tokens: logits {:.2e}, hidden {:.2e}, greedy "
                                "logits {:.2e} (bound {:.0e}), greedy tokens {}/{}",
                                golden.name, prompt.size(), logits_error, hidden_error,
                                greedy_error, kF32Bound, equal, greedy.size()));
  return {};
}

}  // namespace

Result<> check_cases(Instance& instance, const Goldens& goldens, CheckTally& tally) {
  const Plan& plan = instance.plan();
  const bool bf16 = plan.dtype == "bf16", routed = has_experts(plan);
  double squares = 0;
  for (const GoldenCase& golden : goldens.cases()) {
    GM_ASSIGN(const std::vector<int32_t> prompt, goldens.integers(golden.name + ".prompt"));
    GM_TRY(require_room(plan, golden.name + ".prompt", std::ssize(prompt), kGreedyTokens));
    const int64_t rows = std::min<int64_t>(std::ssize(prompt), kPromptRows);
    GM_ASSIGN(const std::vector<float> logits,
              goldens.floats(golden.name + ".logits_f32", {rows, plan.model.vocab}));
    GM_ASSIGN(const PromptResult result, run_prompt(instance, prompt));
    const double error = relative_error(result.logits, logits);
    if (!bf16) {
      GM_TRY(check_f32(instance, goldens, golden, prompt, result, error, tally));
      continue;
    }
    const double factor = error / golden.reference_bf16_error,
                 bound = routed ? kRoutedCaseFactor : kBf16Factor;
    squares += factor * factor;
    tally.add(factor <= bound, fmt::format("{} bf16, {} prompt tokens: logits {:.4f}, {:.2f} of "
                                           "the reference's {:.4f} (bound {:.2f})",
                                           golden.name, prompt.size(), error, factor,
                                           golden.reference_bf16_error, bound));
  }
  if (bf16 && routed) {
    const double mean = std::sqrt(squares / static_cast<double>(goldens.cases().size()));
    tally.add(mean <= kBf16Factor,
              fmt::format(
                  "all cases bf16: root mean square {:.2f} of the reference's error (bound {:.2f})",
                  mean, kBf16Factor));
  }
  return {};
}

}  // namespace gm
