#include "runtime/logprobs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace gm {
namespace {

// log of the sum of exp, in f64: sixteen lanes, each over every sixteenth id in ascending order,
// then a halving tree; as row reductions of the graph.
double log_sum_exp(std::span<const float> logits, double largest) {
  std::array<double, 16> lanes{};
  for (size_t i = 0; i < logits.size(); ++i)
    lanes[i % lanes.size()] += std::exp(static_cast<double>(logits[i]) - largest);
  for (size_t half = lanes.size() / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return largest + std::log(lanes[0]);
}

}  // namespace

TokenLogprobs token_logprobs(std::span<const float> logits, int32_t chosen, int64_t top,
                             const IdRanges& ranges) {
  const double sum = log_sum_exp(logits, static_cast<double>(*std::ranges::max_element(logits)));
  const auto logprob = [&](int32_t id) {
    return TokenLogprob{id, static_cast<double>(logits[static_cast<size_t>(id)]) - sum};
  };
  // Ids come in ascending order, so an equal one that comes later stands behind.
  std::vector<int32_t> best;
  for (const auto& [low, high] : ranges) {
    for (int32_t id = low; id < high && top > 0; ++id) {
      const float value = logits[static_cast<size_t>(id)];
      if (!(value >= std::numeric_limits<float>::lowest()))
        continue;  // impossible: no number either
      const auto is_above = [&](int32_t other) {
        return logits[static_cast<size_t>(other)] >= value;
      };
      if (std::ssize(best) == top && is_above(best.back())) continue;
      best.insert(std::ranges::partition_point(best, is_above), id);
      if (std::ssize(best) > top) best.pop_back();
    }
  }
  TokenLogprobs result{logprob(chosen), {}};
  for (const int32_t id : best) result.top.push_back(logprob(id));
  return result;
}

}  // namespace gm
