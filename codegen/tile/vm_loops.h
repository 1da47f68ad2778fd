// The inner loops of the tile interpreter: one operation on a run of elements, in a portable
// version and one for CPUs with AVX2 and FMA. Both do the same IEEE operations, so results never
// depend on which one is taken.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gm::tile_vm {

// X(name, operand type, result type, expression of x and y). Element types: float; int64_t (index);
// uint32_t (bits, and predicates as 0 or 1).
#define GM_VM_UNARY(X)                                  \
  X(f_neg, float, float, -x)                            \
  X(f_abs, float, float, __builtin_fabsf(x))            \
  X(f_sqrt, float, float, __builtin_sqrtf(x))           \
  X(f_floor, float, float, __builtin_floorf(x))         \
  X(f_round_even, float, float, __builtin_rintf(x))     \
  X(f_to_int_bits, float, uint32_t, int_bits(x))        \
  X(f_round_bf16, float, float, round_bf16(x))          \
  X(f_round_f16, float, float, round_to(DType::f16, x)) \
  X(i_to_f32, int64_t, float, static_cast<float>(x))    \
  X(p_not, uint32_t, uint32_t, x ^ 1u)

#define GM_VM_BINARY(X)                               \
  X(f_add, float, float, x + y)                       \
  X(f_sub, float, float, x - y)                       \
  X(f_mul, float, float, x* y)                        \
  X(f_div, float, float, x / y)                       \
  X(f_min, float, float, y < x ? y : x)               \
  X(f_max, float, float, x < y ? y : x)               \
  X(f_lt, float, uint32_t, x < y ? 1u : 0u)           \
  X(f_le, float, uint32_t, x <= y ? 1u : 0u)          \
  X(f_eq, float, uint32_t, x == y ? 1u : 0u)          \
  X(i_add, int64_t, int64_t, x + y)                   \
  X(i_sub, int64_t, int64_t, x - y)                   \
  X(i_mul, int64_t, int64_t, x* y)                    \
  X(i_min, int64_t, int64_t, y < x ? y : x)           \
  X(i_max, int64_t, int64_t, x < y ? y : x)           \
  X(i_floordiv, int64_t, int64_t, floor_div(x, y))    \
  X(i_mod, int64_t, int64_t, x - floor_div(x, y) * y) \
  X(i_lt, int64_t, uint32_t, x < y ? 1u : 0u)         \
  X(i_le, int64_t, uint32_t, x <= y ? 1u : 0u)        \
  X(i_eq, int64_t, uint32_t, x == y ? 1u : 0u)        \
  X(b_add, uint32_t, uint32_t, x + y)                 \
  X(b_sub, uint32_t, uint32_t, x - y)                 \
  X(b_and, uint32_t, uint32_t, x& y)                  \
  X(b_or, uint32_t, uint32_t, x | y)                  \
  X(b_shl, uint32_t, uint32_t, x << (y & 31u))        \
  X(b_shr, uint32_t, uint32_t, x >> (y & 31u))

// X(name, type of x, type of y and z, expression)
#define GM_VM_TERNARY(X)                          \
  X(f_fma, float, float, __builtin_fmaf(x, y, z)) \
  X(select32, uint32_t, uint32_t, x != 0 ? y : z) \
  X(select64, uint32_t, int64_t, x != 0 ? y : z)

enum class VmCode : uint8_t {
#define X(name, ...) name,
  GM_VM_UNARY(X) GM_VM_BINARY(X) GM_VM_TERNARY(X)
#undef X
};
inline constexpr size_t kCodes = static_cast<size_t>(VmCode::select64) + 1;

// r[i] = op(a[i], b[i], c[i]) for i < n. r may be one of the operands, but must not overlap one
// otherwise.
using Loop = void (*)(void* r, const void* a, const void* b, const void* c, int64_t n);

struct Loops {
  // Bit 0, 1, 2 of the second index: a, b, c are runs of n elements; otherwise one element for all.
  // 0: n is 1.
  Loop compute[kCodes][8];
  void (*widen_bf16)(float* r, const uint16_t* a, int64_t n);
  void (*narrow_bf16)(uint16_t* r, const float* a, int64_t n);
  // Sixteen partials: lane k % 16 takes element k; n need not be a multiple of 16.
  void (*lanes_sum)(float* partials, const float* a, int64_t n);
  void (*lanes_dot)(float* partials, const float* a, const float* b, int64_t n);
  void (*lanes_max)(float* partials, const float* a, int64_t n);
  float (*chain_dot)(float start, const float* a, const float* b, int64_t n);
};

// The version for this CPU.
const Loops& loops();

}  // namespace gm::tile_vm
