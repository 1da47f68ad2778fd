// Log-probabilities of tokens as the model gives them: the log-softmax of a row of logits over the
// whole vocabulary, before penalties, temperature and filters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/sampler.h"

namespace gm {

struct TokenLogprob {
  int32_t id = 0;
  double logprob = 0;
};

struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // the likeliest that may be chosen, lower ids first among equals
};

// The order of the sum is stated in docs/sampling.md.
TokenLogprobs token_logprobs(std::span<const float> logits, int32_t chosen, int64_t top,
                             const IdRanges& ranges);

}  // namespace gm
