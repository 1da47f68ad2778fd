// Element types and their exact conversions. bf16 is rounded to nearest, ties to even; a NaN stays
// a quiet NaN.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gm {

enum class DType : uint8_t {
  f32,
  bf16,
  f16,
  i32,
  i8,
  pred
};  // pred: a comparison's result, never in memory

int64_t size_bytes(DType dtype);  // pred has none: GM_CHECK
std::string_view to_string(DType dtype);
std::optional<DType> parse_dtype(std::string_view text);
bool is_float(DType dtype);

// Bit-exact conversions; the interpreter, the native code and the runtime all agree with these.
uint16_t f32_to_bf16(float x);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float x);
float f16_to_f32(uint16_t bits);

// The value of x after a store to `dtype` and a load back; the identity for f32.
float round_to(DType dtype, float x);

}  // namespace gm
