#include "models/qwen35/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gm {
namespace {

// The pair, as a real number, that turns `rotations` times within the context of training.
double pair_of(double rotations, const Qwen35Config& c) {
  return static_cast<double>(c.rotary_dims) *
         std::log(c.yarn->original_context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(c.rope_theta));
}

// How much of pair i is interpolated: 0 for fast pairs, 1 for slow ones, a ramp between them.
struct Ramp {
  double low = 0, high = 0;

  explicit Ramp(const Qwen35Config& c) {
    low = pair_of(c.yarn->beta_fast, c);
    high = pair_of(c.yarn->beta_slow, c);
    if (c.yarn->truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    // The reference clamps with the number of dimensions, not of pairs.
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(c.rotary_dims - 1));
    if (low == high) high += 0.001;
  }
  double at(int64_t pair) const {
    return std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  }
};

}  // namespace

std::vector<double> rotary_frequencies(const Qwen35Config& c) {
  std::vector<double> frequencies;
  const std::optional<Ramp> ramp = c.yarn ? std::optional<Ramp>(c) : std::nullopt;
  for (int64_t i = 0; i < c.rotary_dims / 2; ++i) {
    // The exponent runs over the rotated dims, not over the head.
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(c.rotary_dims);
    double frequency = std::pow(c.rope_theta, exponent);
    if (ramp) {
      const double slow = ramp->at(i);
      frequency = frequency / c.yarn->factor * slow + frequency * (1 - slow);
    }
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

double yarn_attention_factor(double factor, double mscale, double mscale_all_dim) {
  const auto scale = [&](double m) { return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0; };
  if (mscale != 0 && mscale_all_dim != 0) return scale(mscale) / scale(mscale_all_dim);
  return scale(1);
}

}  // namespace gm
