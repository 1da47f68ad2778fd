#include "base/counter_random.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gm {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;
constexpr size_t kBlocks = 16;          // side by side, as vectors
constexpr size_t kGroup = 4 * kBlocks;  // values

// The bits of the value: of f32 if Word is uint32_t, of bf16 if it is uint16_t.
template <class Word>
[[gnu::always_inline]] inline uint32_t value_bits(uint32_t random, BellShape shape) {
  const uint32_t pairs = (random & 0x00FF00FFu) + (random >> 8 & 0x00FF00FFu);
  const auto sum = static_cast<int32_t>((pairs & 0xFFFFu) + (pairs >> 16));
  const auto bits =
      std::bit_cast<uint32_t>(shape.step * static_cast<float>(sum - 510 + shape.centre));
  if constexpr (sizeof(Word) == 4) return bits;
  return (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;  // never a NaN
}

// kGroup values from block `block` on, a multiple of kBlocks: so the lanes' counters have no carry.
template <class Word>
[[gnu::always_inline]] inline void fill_group(uint64_t seed, uint64_t stream, uint64_t block,
                                              BellShape shape, Word* out) {
  uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (size_t i = 0; i < kBlocks; ++i) {
    c0[i] = static_cast<uint32_t>(block) + static_cast<uint32_t>(i);
    c1[i] = static_cast<uint32_t>(block >> 32);
    c2[i] = static_cast<uint32_t>(stream);
    c3[i] = static_cast<uint32_t>(stream >> 32);
  }
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < kRounds; ++round, k0 += kWeyl0, k1 += kWeyl1) {
    for (size_t i = 0; i < kBlocks; ++i) {
      const uint64_t p0 = uint64_t{kMultiply0} * c0[i], p1 = uint64_t{kMultiply1} * c2[i];
      c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c1[i] = static_cast<uint32_t>(p1);
      c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c3[i] = static_cast<uint32_t>(p0);
    }
  }
  if constexpr (sizeof(Word) == 2) {
    // Four values at once, the first in the lowest bits: stores of single ones would not vectorise.
    uint64_t four[kBlocks];
    for (size_t i = 0; i < kBlocks; ++i) {
      const uint32_t low = value_bits<Word>(c0[i], shape) | value_bits<Word>(c1[i], shape) << 16;
      const uint32_t high = value_bits<Word>(c2[i], shape) | value_bits<Word>(c3[i], shape) << 16;
      four[i] = low | uint64_t{high} << 32;
    }
    std::memcpy(out, four, sizeof four);
  } else {
    for (size_t i = 0; i < kBlocks; ++i) {
      out[4 * i] = value_bits<Word>(c0[i], shape);
      out[4 * i + 1] = value_bits<Word>(c1[i], shape);
      out[4 * i + 2] = value_bits<Word>(c2[i], shape);
      out[4 * i + 3] = value_bits<Word>(c3[i], shape);
    }
  }
}

template <class Word>
[[gnu::always_inline]] inline void fill_all(uint64_t seed, uint64_t stream, uint64_t first,
                                            BellShape shape, Word* out, size_t count) {
  while (count > 0) {
    const size_t skip = first % kGroup, taken = std::min(kGroup - skip, count);
    const uint64_t block = first / kGroup * kBlocks;
    if (taken == kGroup) {
      fill_group(seed, stream, block, shape, out);
    } else {
      Word group[kGroup];
      fill_group(seed, stream, block, shape, group);
      std::copy_n(group + skip, taken, out);
    }
    first += taken, out += taken, count -= taken;
  }
}

template <class Word>
void fill_any(uint64_t seed, uint64_t stream, uint64_t first, BellShape shape, Word* out,
              size_t count) {
  fill_all(seed, stream, first, shape, out, count);
}

#if defined(__x86_64__)
// The same operations, so the same bits, in wider vectors.
template <class Word>
[[gnu::target("avx2")]] void fill_avx2(uint64_t seed, uint64_t stream, uint64_t first,
                                       BellShape shape, Word* out, size_t count) {
  fill_all(seed, stream, first, shape, out, count);
}
#endif

template <class Word>
void fill(uint64_t seed, uint64_t stream, uint64_t first, BellShape shape, Word* out,
          size_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    return fill_avx2(seed, stream, first, shape, out, count);
  }
#endif
  fill_any(seed, stream, first, shape, out, count);
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = uint64_t{kMultiply0} * counter[0], p1 = uint64_t{kMultiply1} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

uint64_t random_stream(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  return hash;
}

void fill_random(uint64_t seed, uint64_t stream, uint64_t first, BellShape shape,
                 std::span<float> out) {
  uint32_t bits[16 * kGroup];
  for (size_t done = 0; done < out.size();) {
    const size_t count = std::min(std::size(bits), out.size() - done);
    fill(seed, stream, first + done, shape, bits, count);
    std::memcpy(out.data() + done, bits, count * sizeof(float));
    done += count;
  }
}

void fill_random_bf16(uint64_t seed, uint64_t stream, uint64_t first, BellShape shape,
                      std::span<uint16_t> out) {
  fill(seed, stream, first, shape, out.data(), out.size());
}

}  // namespace gm
