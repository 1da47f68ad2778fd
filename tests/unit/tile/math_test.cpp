#include "codegen/tile/expand_math.h"

#include <cmath>
#include <functional>
#include <limits>

#include "tests/unit/tile/harness.h"

namespace gm::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> evaluate(const std::string& function, const std::vector<float>& x) {
  const std::string text = fmt::format(
      "kernel @math {{ symbol n : tokens in [0, 100000000] "
      "param %x : f32[n] read activation param %y : f32[n] write activation "
      "part p grid () {{ store %y[i] over (i < n) = {}(%x[i]) }} }}",
      function);
  std::vector<Bytes> buffers = {to_bytes(x), poisoned(static_cast<int64_t>(x.size()) * 4)};
  std::vector<void*> pointers;
  data_of(buffers, pointers);
  const std::vector<int64_t> dims = {static_cast<int64_t>(x.size())};
  interpreter_of(text).run(dims, pointers, 0, 1);
  return from_bytes<float>(buffers[1]);
}

// Every `step`th float of [lo, hi], by bits, both ends included.
std::vector<float> floats_between(float lo, float hi, uint32_t step) {
  std::vector<float> values;
  const auto add = [&](float from, float to, float sign) {  // 0 <= from <= to
    for (uint64_t bits = std::bit_cast<uint32_t>(from); bits <= std::bit_cast<uint32_t>(to);
         bits += step)
      values.push_back(sign * std::bit_cast<float>(static_cast<uint32_t>(bits)));
    values.push_back(sign * to);
  };
  if (hi > 0) add(std::max(lo, 0.0f), hi, 1);
  if (lo < 0) add(std::max(-hi, 0.0f), -lo, -1);
  return values;
}

double ulp_of(double x) {
  const double magnitude = std::max(std::abs(x), 0x1p-126);
  return std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

// The greatest error in ulp; errors up to `absolute` do not count.
double worst(const std::string& function, const std::vector<float>& x,
             const std::function<double(double)>& exact, double absolute = 0) {
  const std::vector<float> y = evaluate(function, x);
  double result = 0;
  float where = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = exact(static_cast<double>(x[i]));
    if (static_cast<float>(expected) == y[i]) continue;
    if (std::isnan(y[i]) || std::isinf(y[i])) {
      ADD_FAILURE() << fmt::format("{}({}) = {}, not {}", function, x[i], y[i], expected);
      return kInfinity;
    }
    const double error = std::abs(static_cast<double>(y[i]) - expected);
    if (error > absolute && error / ulp_of(expected) > result) {
      result = error / ulp_of(expected);
      where = x[i];
    }
  }
  ::testing::Test::RecordProperty(function + "_ulp", fmt::format("{} at {}", result, where));
  return result;
}

double exact_exp(double x) { return std::exp(x); }
double exact_log1p(double x) { return std::log1p(x); }
double exact_sin(double x) { return std::sin(x); }
double exact_cos(double x) { return std::cos(x); }
double exact_rsqrt(double x) { return 1 / std::sqrt(x); }

TEST(ExpandMath, ExpIsWithinOneUlp) {
  EXPECT_LT(worst("exp", floats_between(-87.3f, 88.72f, 1009), exact_exp), 1.0);
  EXPECT_LT(worst("exp", floats_between(-103.9f, -87.3f, 7), exact_exp), 1.0);  // subnormal results
}

TEST(ExpandMath, ExpAtTheEdges) {
  const std::vector<float> y =
      evaluate("exp", {0.0f, -0.0f, kInfinity, -kInfinity, std::nanf(""), 88.7229f, 89.0f, 1e30f,
                       -104.0f, -1e30f, 88.72283f, -103.0f, 1e-40f});
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_EQ(y[2], kInfinity);
  EXPECT_EQ(std::bit_cast<uint32_t>(y[3]), 0u);
  EXPECT_TRUE(std::isnan(y[4]));
  for (const int i : {5, 6, 7}) EXPECT_EQ(y[static_cast<size_t>(i)], kInfinity);
  for (const int i : {8, 9}) EXPECT_EQ(std::bit_cast<uint32_t>(y[static_cast<size_t>(i)]), 0u);
  EXPECT_TRUE(std::isfinite(y[10]));
  EXPECT_EQ(y[11], 0x1p-149f);
  EXPECT_EQ(y[12], 1.0f);
}

TEST(ExpandMath, Log1pIsWithinTwoUlp) {
  EXPECT_LT(
      worst("log1p", floats_between(-1.0f, std::numeric_limits<float>::max(), 1009), exact_log1p),
      2.0);
  EXPECT_LT(worst("log1p", floats_between(-0.9999f, 4.0f, 769), exact_log1p), 2.0);
}

TEST(ExpandMath, Log1pAtTheEdges) {
  const std::vector<float> y = evaluate(
      "log1p", {0.0f, -0.0f, kInfinity, -1.0f, -1.5f, -kInfinity, std::nanf(""), 1e-45f, -1e-45f});
  EXPECT_EQ(std::bit_cast<uint32_t>(y[0]), 0u);
  EXPECT_EQ(std::bit_cast<uint32_t>(y[1]), 0x80000000u);
  EXPECT_EQ(y[2], kInfinity);
  EXPECT_EQ(y[3], -kInfinity);
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_TRUE(std::isnan(y[5]));
  EXPECT_TRUE(std::isnan(y[6]));
  EXPECT_EQ(y[7], 1e-45f);
  EXPECT_EQ(y[8], -1e-45f);
}

TEST(ExpandMath, SinAndCosAreWithinTwoUlp) {
  const std::vector<float> x = floats_between(-1048576.0f, 1048576.0f, 1009);
  EXPECT_LT(worst("sin", x, exact_sin, 1e-8), 2.0);
  EXPECT_LT(worst("cos", x, exact_cos, 1e-8), 2.0);
  // Positions times one frequency: integers, the largest angles of a rotary embedding.
  std::vector<float> integers;
  for (int i = 0; i < 1 << 20; i += 7) integers.push_back(static_cast<float>(i));
  EXPECT_LT(worst("sin", integers, exact_sin, 1e-8), 2.0);
  EXPECT_LT(worst("cos", integers, exact_cos, 1e-8), 2.0);
}

TEST(ExpandMath, SinAndCosBeyondTheRangeStayBounded) {
  const std::vector<float> x = {1e10f, -1e20f, 3e38f, kInfinity, -kInfinity, std::nanf("")};
  for (const char* function : {"sin", "cos"}) {
    const std::vector<float> y = evaluate(function, x);
    for (const size_t i : {0, 1, 2}) EXPECT_LE(std::abs(y[i]), 1.0f) << function << x[i];
    for (const size_t i : {3, 4, 5}) EXPECT_TRUE(std::isnan(y[i])) << function << x[i];
  }
  EXPECT_EQ(evaluate("sin", {1e-40f})[0], 1e-40f);
}

TEST(ExpandMath, RsqrtIsTheTwoOperations) {
  const std::vector<float> x = floats_between(1e-38f, 1e38f, 100003);
  const std::vector<float> y = evaluate("rsqrt", x);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 1.0f / std::sqrt(x[i]));
  EXPECT_LT(worst("rsqrt", x, exact_rsqrt), 1.5);
}

TEST(ExpandMath, LeavesNoFunctionsAndIsIdempotent) {
  const Expr x = Expr::load("x", {Expr::index(SymExpr(0))}, ScalarType::f32);
  const Expr e = expand_math(softplus(sin(x) + cos(x) * rsqrt(silu(x))));
  int nodes = 0;
  visit_nodes(e, [&](const Expr& node) {
    ++nodes;
    if (node->kind != ExprKind::unary) return;
    for (const UnaryOp op :
         {UnaryOp::exp, UnaryOp::log1p, UnaryOp::sin, UnaryOp::cos, UnaryOp::rsqrt})
      EXPECT_NE(node->unary_op, op);
  });
  EXPECT_LT(nodes, 400);  // a tree instead of a graph would have millions
  EXPECT_TRUE(expand_math(e) == e);
}

}  // namespace
}  // namespace gm::test
