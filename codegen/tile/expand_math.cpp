#include "codegen/tile/expand_math.h"

#include <initializer_list>
#include <limits>

namespace gm {
namespace {

Expr add_bits(const Expr& a, uint32_t b) { return Expr::binary(BinaryOp::add, a, Expr::bits(b)); }
Expr bit_and(const Expr& a, uint32_t b) {
  return Expr::binary(BinaryOp::bit_and, a, Expr::bits(b));
}
Expr from_bits(const Expr& a) { return Expr::unary(UnaryOp::from_bits, a); }
Expr to_bits(const Expr& a) { return Expr::unary(UnaryOp::to_bits, a); }
Expr round_even(const Expr& a) { return Expr::unary(UnaryOp::round_even, a); }
Expr floor_of(const Expr& a) { return Expr::unary(UnaryOp::floor, a); }

// c[0] * x^(n-1) + ... + c[n-1]
Expr horner(const Expr& x, std::initializer_list<float> coefficients) {
  auto it = coefficients.begin();
  Expr result = *it++;
  for (; it != coefficients.end(); ++it) result = Expr::fma(result, x, *it);
  return result;
}

// 2^n for an integral n in [-126, 127].
Expr power_of_two(const Expr& n) {
  const Expr biased = add_bits(Expr::unary(UnaryOp::f32_to_bits, n), 127);
  return from_bits(Expr::binary(BinaryOp::shl, biased, Expr::bits(23)));
}

Expr expand_exp(const Expr& x) {
  // Below -105 the result is 0, above 89 infinite; the order of the operands makes a NaN the lower
  // end here, so that the conversion to an integer below always has an integer to convert.
  const Expr clamped = min(89.0f, max(-105.0f, x));
  const Expr n = round_even(clamped * 1.44269504f);
  // ln 2 in two parts; with fma the first product is exact.
  const Expr r = Expr::fma(n, 2.12194440e-4f, Expr::fma(n, -0.693359375f, clamped));
  const Expr p = horner(r, {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1, 1});
  // Two factors: each is a normal number although 2^n need not be, and the second product rounds
  // once.
  const Expr half = floor_of(n * 0.5f);
  const Expr result = (p * power_of_two(half)) * power_of_two(n - half);
  return Expr::select(equal(x, x), result, x);
}

Expr expand_log1p(const Expr& x) {
  const Expr one = 1.0f;
  const Expr u = one + x;
  const Expr rest = u - one;
  const Expr lost = (one - (u - rest)) + (x - rest);  // 1 + x = u + lost, exactly
  // u = 2^k m with m in [sqrt(1/2), sqrt(2)).
  const Expr shifted = add_bits(to_bits(u), 0x3f800000u - 0x3f3504f3u);
  const Expr exponent = Expr::binary(BinaryOp::shr, shifted, Expr::bits(23));
  const Expr m = from_bits(add_bits(bit_and(shifted, 0x007fffffu), 0x3f3504f3u));
  // The exponent's bits as the low bits of a number of 2^23.
  const Expr k = from_bits(Expr::binary(BinaryOp::bit_or, exponent, Expr::bits(0x4b000000u))) -
                 (8388608.0f + 127.0f);
  const Expr inverse = from_bits(
      Expr::binary(BinaryOp::sub, Expr::bits(0x7f000000u), bit_and(shifted, 0x7f800000u)));
  const Expr near_zero = equal(k, 0.0f);
  const Expr f = Expr::select(near_zero, x, m - one);
  // Near zero x itself is used and nothing was lost; at large x the loss is below the result's last
  // bit.
  const Expr needs =
      logical_and(less(x, 67108864.0f), Expr::unary(UnaryOp::logical_not, near_zero));
  const Expr correction = Expr::select(needs, (lost * inverse) * (one - f), 0.0f);
  const Expr z = f * f;
  const Expr p = horner(f, {7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f,
                            -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f,
                            2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f});
  const Expr small = Expr::fma(k, -2.12194440e-4f, correction);
  const Expr tail = Expr::fma(-0.5f, z, Expr::fma(f * z, p, small));
  const Expr result = Expr::fma(k, 0.693359375f, f + tail);
  const float infinity = std::numeric_limits<float>::infinity();
  const Expr negative = Expr::select(less(x, -1.0f), (x - x) / 0.0f, -infinity);
  const Expr in_domain = Expr::select(less_equal(x, -1.0f), negative, result);
  const Expr finite =
      logical_and(less(x, infinity), Expr::unary(UnaryOp::logical_not, equal(x, 0.0f)));
  return Expr::select(finite, in_domain, x);  // x itself: infinity, NaN and both zeros
}

// sin(x + turns * pi/2)
Expr expand_sin(const Expr& x, float turns) {
  constexpr float kTwoOverPi = 0.636619772f;
  // pi/2 in three parts of 24 bits each: the first fma is exact for |n| < 2^23.
  const Expr first = round_even(x * kTwoOverPi);
  const Expr r1 = Expr::fma(first, -1.57079637e+00f, x);
  const Expr r2 = Expr::fma(first, 4.37113883e-08f, r1);
  const Expr r3 = Expr::fma(first, 1.71512451e-15f, r2);
  // At large x the product above is only good to a fraction of a turn, so the rest can exceed pi/4.
  const Expr second = round_even(r3 * kTwoOverPi);
  const Expr r4 = Expr::fma(second, 4.37113883e-08f, Expr::fma(second, -1.57079637e+00f, r3));
  const Expr n = first + second;
  // Keeps arguments beyond the range in [-1, 1]; a NaN passes as the left operand.
  const Expr r = min(max(r4, -0.8f), 0.8f);
  const Expr z = r * r;
  const Expr sine =
      Expr::fma(r * z, horner(z, {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f}), r);
  const Expr cosine = Expr::fma(
      z * z, horner(z, {2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f}),
      Expr::fma(-0.5f, z, 1.0f));
  const Expr turned = n + turns;
  const Expr quarter = Expr::fma(-4.0f, floor_of(turned * 0.25f), turned);  // 0, 1, 2 or 3
  const Expr odd = quarter - 2.0f * floor_of(quarter * 0.5f);
  const Expr value = Expr::select(equal(odd, 0.0f), sine, cosine);
  return Expr::select(less(quarter, 2.0f), value, -value);
}

Expr expand_node(const Expr& e) {
  if (e->kind != ExprKind::unary) return {};
  switch (e->unary_op) {
    case UnaryOp::exp:
      return expand_exp(e->args[0]);
    case UnaryOp::log1p:
      return expand_log1p(e->args[0]);
    case UnaryOp::sin:
      return expand_sin(e->args[0], 0.0f);
    case UnaryOp::cos:
      return expand_sin(e->args[0], 1.0f);
    case UnaryOp::rsqrt:
      return Expr(1.0f) / sqrt(e->args[0]);
    default:
      return {};
  }
}

void expand_in(Expr& e) {
  if (e) e = rewrite(e, expand_node);
}

void expand_block(Block& block);

struct StmtExpander {
  void operator()(TileStmt& s) const { expand_in(s.value); }
  void operator()(UpdateStmt& s) const {
    for (Expr& index : s.indices) expand_in(index);
    expand_in(s.value);
  }
  void operator()(ReduceStmt& s) const {
    expand_in(s.a);
    expand_in(s.b);
  }
  void operator()(StoreStmt& s) const {
    for (Expr& index : s.indices) expand_in(index);
    expand_in(s.value);
  }
  void operator()(ForStmt& s) const {
    expand_in(s.lo);
    expand_in(s.hi);
    expand_block(s.body);
  }
  void operator()(IfStmt& s) const {
    expand_in(s.condition);
    expand_block(s.body);
  }
  void operator()(LetStmt& s) const { expand_in(s.value); }
};

void expand_block(Block& block) {
  for (Stmt& stmt : block) std::visit(StmtExpander{}, stmt.node);
}

}  // namespace

Expr expand_math(const Expr& e) { return rewrite(e, expand_node); }

Kernel expand_math(const Kernel& kernel) {
  Kernel result = kernel;
  for (Part& part : result.parts) expand_block(part.body);
  return result;
}

}  // namespace gm
