// The random numbers of sampling, of the generator in base/counter_random.h: a number depends on
// the seed and the position alone, so whoever computes it, and in whatever order, gets the same
// one.
#pragma once

#include "base/counter_random.h"

namespace gm {

// 64 random bits for the token at `position` of a request: the number of tokens before it, those of
// the prompt included.
inline uint64_t sampling_bits(int64_t seed, int64_t position) {
  const auto s = static_cast<uint64_t>(seed), p = static_cast<uint64_t>(position);
  const auto out = philox4x32({static_cast<uint32_t>(p), static_cast<uint32_t>(p >> 32), 0, 0},
                              {static_cast<uint32_t>(s), static_cast<uint32_t>(s >> 32)});
  return uint64_t{out[1]} << 32 | out[0];
}

}  // namespace gm
