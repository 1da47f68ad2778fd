#include "ir/expr.h"

#include <gtest/gtest.h>

#include <limits>

#include "ir/tile_text.h"

namespace gm {
namespace {

const SymExpr s = SymExpr::symbol("s");
const SymExpr t = SymExpr::symbol("t");

Expr load_index(const SymExpr& at) {
  return Expr::load("pos", {Expr::index(at)}, ScalarType::index);
}

TEST(Expr, NumbersAreNotFolded) {
  EXPECT_EQ(print_value(Expr(1.0f) + Expr(2.0f)), "add(1.0, 2.0)");
  EXPECT_EQ(print_value(Expr(0.1f) * Expr(-0.0f)), "mul(0.1, -0.0)");
}

TEST(Expr, AffineIndexArithmeticFolds) {
  const Expr e = floordiv(Expr::index(s) * Expr::index(4) + Expr::index(t), 16);
  ASSERT_TRUE(e.as_sym());
  EXPECT_EQ(*e.as_sym(), SymExpr::floordiv(s * 4 + t, 16));
  EXPECT_EQ(*min(Expr::index(s), Expr::index(t)).as_sym(), SymExpr::min(s, t));
  const Expr loaded = load_index(s) + Expr::index(1);
  EXPECT_FALSE(loaded.as_sym());
  EXPECT_EQ(print_index(loaded), "%pos[s] + 1");
  EXPECT_EQ(print_value(loaded), "add(%pos[s], index(1))");
  EXPECT_EQ(print_index(mod(loaded, 16)), "mod(%pos[s] + 1, 16)");
  EXPECT_EQ(print_index(load_index(s) * (load_index(t) - Expr::index(s + 1))),
            "%pos[s]*(%pos[t] - (s + 1))");
}

TEST(Expr, Types) {
  EXPECT_EQ(less(Expr(1.0f), Expr(2.0f)).type(), ScalarType::pred);
  EXPECT_EQ(less(load_index(s), Expr::index(2)).type(), ScalarType::pred);
  EXPECT_EQ(Expr::unary(UnaryOp::to_bits, Expr(1.0f)).type(), ScalarType::bits);
  EXPECT_FALSE(result_type(BinaryOp::div, ScalarType::index, ScalarType::index));
  EXPECT_FALSE(result_type(BinaryOp::add, ScalarType::index, ScalarType::f32));
  EXPECT_FALSE(result_type(UnaryOp::exp, ScalarType::bits));
  EXPECT_DEATH(Expr(1.0f) + Expr::index(1), "add does not take f32 and index");
  EXPECT_DEATH(Expr::select(Expr(1.0f), Expr(1.0f), Expr(1.0f)), "select takes a pred");
  EXPECT_DEATH(mod(Expr::index(s), 0), "mod by something else");
}

TEST(Expr, Equality) {
  EXPECT_EQ(silu(Expr(2.0f)), silu(Expr(2.0f)));
  EXPECT_FALSE(Expr(0.0f) == Expr(-0.0f));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Expr(nan), Expr(-nan));
  EXPECT_FALSE(load_index(s) == load_index(t));
  EXPECT_FALSE(Expr::round(DType::bf16, Expr(1.0f)) == Expr::round(DType::f16, Expr(1.0f)));
  EXPECT_EQ(Expr::round(DType::f32, Expr(1.0f)), Expr(1.0f));
  // Shared subtrees are compared once, or this would take 2^60 steps.
  Expr a(1.0f), b(1.0f);
  for (int i = 0; i < 60; ++i) {
    a = a * a;
    b = b * b;
  }
  EXPECT_EQ(a, b);
}

TEST(Expr, RewriteKeepsSharing) {
  const Expr x = Expr::load("x", {Expr::index(s)}, ScalarType::f32);
  Expr e = x;
  for (int i = 0; i < 60; ++i) e = e + e;
  int visits = 0;
  visit_nodes(e, [&](const Expr&) { ++visits; });
  EXPECT_EQ(visits, 62);  // the index, the load, the sums
  const Expr f = rewrite(
      e, [](const Expr& node) { return node->kind == ExprKind::load ? Expr(2.0f) : Expr(); });
  visits = 0;
  visit_nodes(f, [&](const Expr&) { ++visits; });
  EXPECT_EQ(visits, 61);
  const Expr same = rewrite(e, [](const Expr&) { return Expr(); });
  EXPECT_EQ(&*same, &*e);
}

TEST(Expr, SubstituteFoldsAgain) {
  const Expr e = Expr::load("x", {load_index(s) + Expr::index(t)}, ScalarType::f32);
  EXPECT_EQ(print_value(substitute(e, {{"s", SymExpr(3)}, {"t", s * 2}})), "%x[%pos[3] + 2*s]");
  EXPECT_EQ(print_value(substitute(e, {{"u", SymExpr(3)}})), print_value(e));
}

}  // namespace
}  // namespace gm
