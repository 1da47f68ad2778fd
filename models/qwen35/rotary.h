// Rotary frequencies of full attention, plain and stretched by YaRN.
#pragma once

#include <vector>

#include "models/qwen35/config.h"

namespace gm {

// One frequency a pair of rotated dimensions, rounded to f32, in which the reference holds them.
std::vector<double> rotary_frequencies(const Qwen35Config& config);

// What YaRN multiplies cos and sin with if a config does not say: 0.1 ln(factor) + 1; with both
// mscales, the ratio of what each gives.
double yarn_attention_factor(double factor, double mscale, double mscale_all_dim);

}  // namespace gm
