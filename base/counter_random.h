// Random numbers that are a function of where they stand: number i of the stream NAME under a seed
// needs neither the numbers before it nor a state, so that threads, devices and other programs fill
// the same values in any order (docs/synth.md). Philox4x32-10; key: the seed; counter: the block
// i / 4, then the stream.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace gm {

// One block of Philox4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3").
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The 64-bit FNV-1a hash of a name.
uint64_t random_stream(std::string_view name);

// How a 32-bit random word becomes a value: step * (B + centre), where B in [-510, 510] is the sum
// of the word's four bytes less 510. The sum is an exact integer; the product is rounded to f32
// once. B has mean 0 and variance 21845, and its distribution is close to a normal one.
struct BellShape {
  float step = 1;
  int32_t centre = 0;
  bool operator==(const BellShape&) const = default;
};

// Values `first`, `first` + 1, ... of the stream; bf16 is the f32 value rounded to nearest, ties to
// even.
void fill_random(uint64_t seed, uint64_t stream, uint64_t first, BellShape shape,
                 std::span<float> out);
void fill_random_bf16(uint64_t seed, uint64_t stream, uint64_t first, BellShape shape,
                      std::span<uint16_t> out);

}  // namespace gm
