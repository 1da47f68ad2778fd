#include "tools/common/check.h"

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
  const Program* mixed = plan.find_program("mixed");
  const auto has_output = [&](const std::string& name) {
    for (const Slot& slot : mixed->slots) {
      if (slot.kind == SlotKind::output && slot.name == name) return true;
    }
    return false;
  };
  bool complete = mixed != nullptr && plan.find_program("decode") != nullptr;
  for (int64_t layer = 0; complete && layer < plan.model.layers; ++layer) {
    complete = has_output(fmt::format("hidden.{}", layer)) &&
               plan.find_program(fmt::format("layer.{}.mixed", layer)) != nullptr &&
               plan.find_program(fmt::format("layer.{}.decode", layer)) != nullptr;
  }
  if (complete) return {};
  return err(Code::step_program, Location::of_file(file), "compile it with --check-outputs",
             "the plan lacks the programs and outputs that a check reads");
}

}  // namespace gm
