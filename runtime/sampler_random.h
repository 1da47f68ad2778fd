// The random numbers of sampling: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", 2011). A number depends on its key and counter alone, so whoever computes it, and in
// whatever order, gets the same one.
#pragma once

#include <array>
#include <cstdint>

namespace gm {

constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// 64 random bits for the token at `position` of a request: the number of tokens before it, those of
// the prompt included.
constexpr uint64_t sampling_bits(int64_t seed, int64_t position) {
  const auto s = static_cast<uint64_t>(seed), p = static_cast<uint64_t>(position);
  const auto out = philox4x32({static_cast<uint32_t>(p), static_cast<uint32_t>(p >> 32), 0, 0},
                              {static_cast<uint32_t>(s), static_cast<uint32_t>(s >> 32)});
  return uint64_t{out[1]} << 32 | out[0];
}

}  // namespace gm
