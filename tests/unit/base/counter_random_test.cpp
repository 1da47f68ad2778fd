#include "base/counter_random.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/dtype.h"

namespace gm {
namespace {

using Words = std::array<uint32_t, 4>;

// The known answers that are published with the algorithm.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, KnownAnswersOfFnv1a) {
  EXPECT_EQ(random_stream(""), 0xcbf29ce484222325);
  EXPECT_EQ(random_stream("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(random_stream("foobar"), 0x85944171f73967e8);
}

// One value by the definition of the header.
float value(uint64_t seed, uint64_t stream, uint64_t i, BellShape shape) {
  const uint64_t block = i / 4;
  const uint32_t word =
      philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                  static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[i % 4];
  int32_t sum = shape.centre - 510;
  for (int shift = 0; shift < 32; shift += 8) sum += static_cast<int32_t>(word >> shift & 255);
  return shape.step * static_cast<float>(sum);
}

TEST(FillRandom, EachValueStandsForItself) {
  const uint64_t seed = 0x123456789abcdef0, stream = random_stream("layers.0.mlp.gate.weight");
  // Across the places where counters carry, from odd beginnings, shorter and longer than a group.
  for (const uint64_t first : {uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{1000},
                               (uint64_t{1} << 34) - 70, (uint64_t{1} << 40) + 3}) {
    for (const size_t count : {size_t{1}, size_t{62}, size_t{64}, size_t{65}, size_t{1100}}) {
      for (const BellShape shape : {BellShape{0.000134f, 0}, BellShape{0.00075f, 1478}}) {
        std::vector<float> wide(count);
        std::vector<uint16_t> narrow(count);
        fill_random(seed, stream, first, shape, wide);
        fill_random_bf16(seed, stream, first, shape, narrow);
        for (size_t i = 0; i < count; ++i) {
          const float want = value(seed, stream, first + i, shape);
          ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(want)) << first + i;
          ASSERT_EQ(narrow[i], f32_to_bf16(want)) << first + i;
        }
      }
    }
  }
}

TEST(FillRandom, SeedAndStreamBothCount) {
  std::vector<uint16_t> a(64), b(64);
  fill_random_bf16(1, 2, 0, {1, 0}, a);
  fill_random_bf16(2, 2, 0, {1, 0}, b);
  EXPECT_NE(a, b);
  fill_random_bf16(1, 3, 0, {1, 0}, b);
  EXPECT_NE(a, b);
  fill_random_bf16(1, 2 + (uint64_t{1} << 32), 0, {1, 0}, b);
  EXPECT_NE(a, b);
}

TEST(FillRandom, MomentsAndNeighbours) {
  std::vector<float> v(1 << 20);
  fill_random(7, random_stream("x"), 0, {1, 0}, v);
  const auto n = static_cast<double>(v.size());
  double sum = 0, squares = 0, fourth = 0, lagged = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    sum += v[i];
    squares += v[i] * v[i];
    fourth += std::pow(v[i], 4);
    if (i > 0) lagged += v[i] * v[i - 1];
  }
  const double variance = squares / n;
  EXPECT_NEAR(sum / n, 0, 1);  // seven deviations of the mean
  EXPECT_NEAR(variance / 21845, 1, 0.01);
  EXPECT_NEAR(fourth / n / (variance * variance), 2.7, 0.05);  // of four equal dice; 3 is normal
  EXPECT_NEAR(lagged / n / variance, 0, 0.007);
}

}  // namespace
}  // namespace gm
