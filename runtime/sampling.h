// What a request asks of the choice of its tokens. docs/sampling.md defines each step exactly.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diag.h"

namespace gm {

struct SamplingParams {
  double temperature = 0;         // 0: the likeliest token; else 0.01 to 100
  int64_t top_k = 0;              // the k likeliest; 0 or -1: all
  double top_p = 1;               // (0, 1]
  double min_p = 0;               // [0, 1], of the likeliest token's probability
  double presence_penalty = 0;    // [-2, 2], of tokens that were generated
  double frequency_penalty = 0;   // [-2, 2], each time they were
  double repetition_penalty = 1;  // [0.01, 100], of tokens of the prompt too
  int64_t seed = 0;               // 0 or more

  bool penalised() const {
    return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1;
  }
};

inline constexpr int64_t kMostLogprobs = 20;
inline constexpr size_t kMostStopStrings = 16, kMostStopBytes = 1024;

// `where` turns a field's name, as above or "logprobs" or "stop", into its place; `named` into what
// the user knows it by, such as "--top-k".
struct SamplingNames {
  std::function<Location(std::string_view field)> where;
  std::function<std::string(std::string_view field)> named;
};

Result<> check_sampling(const SamplingParams& params, const SamplingNames& names);
Result<> check_logprobs(int64_t count, const SamplingNames& names);
Result<> check_stop_strings(const std::vector<std::string>& stop, const SamplingNames& names);

}  // namespace gm
