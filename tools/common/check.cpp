#include "tools/common/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace gm {

void CheckTally::add(bool passed, const std::string& line) {
  ++(passed ? passed_ : failed_);
  print_(fmt::format("{} {}\n", passed ? "pass" : "FAIL", line));
}

double relative_error(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
  if (norm == 0) return difference == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(difference / norm);
}

Step one_sequence(const Instance& instance, std::string program, int64_t done, int64_t count) {
  const Plan& plan = instance.plan();
  const int64_t columns =
      (plan.limits.max_context + plan.limits.page_tokens - 1) / plan.limits.page_tokens;
  Step step{.program = std::move(program), .tokens = count, .seqs = 1, .rows = 1};
  step.pos.resize(static_cast<size_t>(count));
  std::iota(step.pos.begin(), step.pos.end(), static_cast<int32_t>(done));
  step.seq_start = {0, static_cast<int32_t>(count)};
  step.ctx = {static_cast<int32_t>(done)};
  step.slot = {0};
  step.pages.assign(static_cast<size_t>(columns), -1);
  for (int64_t p = 0; p * plan.limits.page_tokens < done + count; ++p)
    step.pages[static_cast<size_t>(p)] = static_cast<int32_t>(p);
  step.logit_row = {static_cast<int32_t>(count - 1)};
  return step;
}

Result<> require_check_outputs(const Plan& plan, const std::string& file) {
  const auto has_output = [&](const std::string& program, const std::string& name,
                              std::string_view dtype) {
    const Program* found = plan.find_program(program);
    if (found == nullptr) return false;
    return std::ranges::any_of(found->slots, [&](const Slot& slot) {
      return slot.kind == SlotKind::output && slot.name == name && to_string(slot.dtype) == dtype;
    });
  };
  bool complete = has_output("mixed", "logits", "f32") && has_output("decode", "logits", "f32") &&
                  std::ssize(plan.model.layer_types) == plan.model.layers;
  for (int64_t layer = 0; complete && layer < plan.model.layers; ++layer) {
    complete = has_output("mixed", fmt::format("hidden.{}", layer), plan.dtype) &&
               has_output(fmt::format("layer.{}.mixed", layer), "out", plan.dtype) &&
               has_output(fmt::format("layer.{}.decode", layer), "out", plan.dtype);
  }
  if (complete) return {};
  return err(Code::step_program, Location::of_file(file), "compile it with --check-outputs",
             "the plan lacks the programs and outputs that a check reads");
}

Result<> require_room(const Plan& plan, const std::string& what, int64_t tokens, int64_t more) {
  if (tokens < 1) {
    return err(Code::goldens, Location::of_path("", what), "give a folder as tests/golden has them",
               "there are no tokens");
  }
  if (tokens + more <= plan.limits.max_context) return {};
  return err(Code::request_length, Location::of_path("", what),
             fmt::format("compile the plan with --max-context {} or more", tokens + more),
             "{} tokens and {} more are over the plan's {}", tokens, more, plan.limits.max_context);
}

}  // namespace gm
