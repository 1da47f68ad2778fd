#include "base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace gm {
namespace {

uint16_t native_f16(float x) { return std::bit_cast<uint16_t>(static_cast<_Float16>(x)); }
float native_f32(uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }

TEST(DType, NamesAndSizes) {
  for (const DType d : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::i8, DType::pred}) {
    EXPECT_EQ(parse_dtype(to_string(d)), d);
  }
  EXPECT_EQ(parse_dtype("F32"), std::nullopt);
  EXPECT_EQ(size_bytes(DType::f32), 4);
  EXPECT_EQ(size_bytes(DType::bf16), 2);
  EXPECT_EQ(size_bytes(DType::f16), 2);
  EXPECT_EQ(size_bytes(DType::i32), 4);
  EXPECT_EQ(size_bytes(DType::i8), 1);
  EXPECT_TRUE(is_float(DType::bf16));
  EXPECT_FALSE(is_float(DType::i8));
}

TEST(DTypeDeathTest, PredHasNoSize) {
  EXPECT_EXIT(size_bytes(DType::pred), ::testing::ExitedWithCode(70), "pred has no size");
}

TEST(DType, EveryF16AgreesWithTheCompiler) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    const float value = f16_to_f32(bits);
    ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(native_f32(bits))) << i;
    if (std::isnan(value)) {
      ASSERT_EQ(f32_to_f16(value), bits | 0x200) << i;
    } else {
      ASSERT_EQ(f32_to_f16(value), bits) << i;
    }
  }
}

TEST(DType, F16RoundsLikeTheCompiler) {
  std::mt19937 random(1);
  for (int i = 0; i < 3'000'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    ASSERT_EQ(f32_to_f16(x), native_f16(x)) << std::bit_cast<uint32_t>(x);
  }
  // Around every midpoint of two neighbours, subnormals and the overflow boundary included.
  for (uint32_t i = 0; i < 0x7c00; ++i) {
    const float lower = f16_to_f32(static_cast<uint16_t>(i));
    const float upper = i + 1 == 0x7c00 ? 65536.0f : f16_to_f32(static_cast<uint16_t>(i + 1));
    const float middle = lower + (upper - lower) / 2;
    for (const float x : {std::nextafterf(middle, 0), middle, std::nextafterf(middle, INFINITY)}) {
      ASSERT_EQ(f32_to_f16(x), native_f16(x)) << x;
      ASSERT_EQ(f32_to_f16(-x), native_f16(-x)) << x;
    }
  }
}

TEST(DType, EveryBf16RoundTrips) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const float value = bf16_to_f32(static_cast<uint16_t>(i));
    ASSERT_EQ(std::bit_cast<uint32_t>(value), i << 16);
    ASSERT_EQ(f32_to_bf16(value), std::isnan(value) ? (i | 0x40) : i);
  }
}

TEST(DType, Bf16RoundsToNearestEven) {
  const auto from_bits = [](uint32_t bits) { return f32_to_bf16(std::bit_cast<float>(bits)); };
  EXPECT_EQ(from_bits(0x3f808000), 0x3f80);  // a tie, down to even
  EXPECT_EQ(from_bits(0x3f818000), 0x3f82);  // a tie, up to even
  EXPECT_EQ(from_bits(0x3f808001), 0x3f81);
  EXPECT_EQ(from_bits(0x3f807fff), 0x3f80);
  EXPECT_EQ(from_bits(0x7f7fffff), 0x7f80);  // the largest float rounds to infinity
  EXPECT_EQ(from_bits(0xff800000), 0xff80);
  EXPECT_EQ(from_bits(0x7f800001), 0x7fc0);  // a NaN whose payload is lost stays a NaN
  EXPECT_EQ(from_bits(0xffffffff), 0xffff);
  EXPECT_EQ(from_bits(0x00008000), 0x0000);  // subnormals are kept
  EXPECT_EQ(from_bits(0x00018000), 0x0002);
}

TEST(DType, RoundTo) {
  EXPECT_EQ(round_to(DType::f32, 1.0000001f), 1.0000001f);
  EXPECT_EQ(round_to(DType::bf16, 1.0000001f), 1.0f);
  EXPECT_EQ(round_to(DType::f16, 2049.0f), 2048.0f);
}

}  // namespace
}  // namespace gm
