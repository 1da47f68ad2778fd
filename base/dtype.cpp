#include "base/dtype.h"

#include <array>
#include <bit>

#include "base/diag.h"

namespace gm {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"f32", "bf16", "f16", "i32", "i8", "pred"};

// value / 2^shift, rounded to nearest, ties to even; shift in [1, 31].
uint32_t shift_right_to_even(uint32_t value, int shift) {
  const uint32_t kept = value >> shift;
  const uint32_t lost = value & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  return kept + (lost > half || (lost == half && (kept & 1)) ? 1 : 0);
}

}  // namespace

int64_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::i8:
      return 1;
    case DType::pred:
      break;
  }
  GM_CHECK(false, "{} has no size in memory", to_string(dtype));
}

std::string_view to_string(DType dtype) { return kNames.at(static_cast<size_t>(dtype)); }

std::optional<DType> parse_dtype(std::string_view text) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

uint16_t f32_to_bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  // The quiet bit must be set by hand: a NaN whose payload lies in the lost half would become an
  // infinity.
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t f32_to_f16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x47800000u) {  // 65536 and up, infinity included
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // 2^-14 and up: normal; a carry moves on into the
                                          // exponent, up to infinity
    half = shift_right_to_even(magnitude - 0x38000000u, 13);
  } else {
    // Subnormal: units of 2^-24. Below 2^-25 everything rounds to zero (the tie 2^-25 itself too,
    // to even).
    const int exponent = static_cast<int>(magnitude >> 23);
    const int shift = 126 - exponent;
    half = shift > 24 ? 0 : shift_right_to_even((magnitude & 0x7fffffu) | 0x800000u, shift);
  }
  return static_cast<uint16_t>(sign | half);
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) {
    // Hardware conversions quiet a signalling NaN; so does this.
    const uint32_t quiet = mantissa ? 0x400000u : 0;
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | quiet);
  }
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // mantissa * 2^-24, exactly; the product keeps the sign of a zero out, so put it on by hand.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

float round_to(DType dtype, float x) {
  switch (dtype) {
    case DType::f32:
      return x;
    case DType::bf16:
      return bf16_to_f32(f32_to_bf16(x));
    case DType::f16:
      return f16_to_f32(f32_to_f16(x));
    default:
      break;
  }
  GM_CHECK(false, "rounding of a float to {}", to_string(dtype));
}

}  // namespace gm
