#include <chrono>
#include <cmath>
#include <limits>

#include "tests/unit/tile/harness.h"

namespace gm::test {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

float step(const std::string& op, float acc, float a, float b) {
  if (op == "sum") return acc + a;
  if (op == "dot") return std::fma(a, b, acc);
  return acc < a ? a : acc;
}
float join(const std::string& op, float a, float b) {
  return op == "max" ? (a < b ? b : a) : a + b;
}

// The definition of ir/tile.h, element by element.
template <class A, class B>
float reduce(const std::string& op, bool chain, int64_t size, int64_t n, const A& a, const B& b) {
  const float zero = op == "max" ? kLowest : 0.0f;
  if (chain) {
    float sum = zero;
    for (int64_t block = 0; block < n; block += size) {
      float acc = zero;
      for (int64_t k = block; k < std::min(block + size, n); ++k) acc = step(op, acc, a(k), b(k));
      sum = join(op, sum, acc);
    }
    return sum;
  }
  std::vector<float> p(static_cast<size_t>(size), zero);
  for (int64_t k = 0; k < n; ++k) {
    float& partial = p[static_cast<size_t>(k % size)];
    partial = step(op, partial, a(k), b(k));
  }
  for (size_t half = p.size() / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) p[i] = join(op, p[i], p[i + half]);
  return p[0];
}

struct Case {
  std::string op;
  bool chain;
  int64_t size;
};

// y[m, n] = op over k of x[m, k], w; w's layout decides along which axis the interpreter
// vectorises.
void check_matrix(const Case& c, bool transposed, int64_t m, int64_t n, int64_t k) {
  const std::string w = transposed ? "%w[n, k]" : "%w[k, n]";
  const std::string operands = c.op == "dot" ? "%x[m, k], " + w : w;
  const std::string text = fmt::format(
      "kernel @r {{ symbol a : tokens in [0, 4096] symbol b : tokens in [0, 4096] symbol c : "
      "tokens in [0, 4096] "
      "param %x : f32[a, c] read activation param %w : bf16[{}] read weight "
      "param %y : f32[a, b] write activation "
      "part p grid (m < a) {{ reduce %t[n < b] : f32 = {} {} {} over k < c of {} "
      "store %y[m, n] over (n < b) = %t[n] }} }}",
      transposed ? "b, c" : "c, b", c.op, c.chain ? "chain" : "lanes", c.size, operands);
  const std::vector<float> x = random_floats(m * k, 1);
  std::vector<uint16_t> weights = to_bf16(random_floats(n * k, 2));
  if (c.op == "max" && weights.size() > 40) weights[weights.size() / 3] = 0x7fc0;  // a NaN
  const std::vector<Bytes> result =
      run_kernel(text, {m, n, k}, {to_bytes(x), to_bytes(weights), poisoned(m * n * 4)});
  std::vector<float> expected;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const auto b = [&](int64_t l) {
        return bf16_to_f32(weights[static_cast<size_t>(transposed ? j * k + l : l * n + j)]);
      };
      const auto a = [&](int64_t l) {
        return c.op == "dot" ? x[static_cast<size_t>(i * k + l)] : b(l);
      };
      expected.push_back(reduce(c.op, c.chain, c.size, k, a, b));
    }
  ASSERT_EQ(bits_of(from_bytes<float>(result[2])), bits_of(expected))
      << text << fmt::format("\n{} {} {}", m, n, k);
}

TEST(Reduce, EveryOrderAndSize) {
  for (const Case& c : std::vector<Case>{{"dot", true, 256},
                                         {"dot", true, 7},
                                         {"dot", false, 16},
                                         {"dot", false, 4},
                                         {"sum", true, 256},
                                         {"sum", false, 16},
                                         {"sum", false, 512},
                                         {"max", true, 256},
                                         {"max", false, 16},
                                         {"max", false, 1}}) {
    for (const bool transposed : {false, true}) {
      for (const int64_t k : {0, 1, 15, 16, 17, 256, 257, 997})
        check_matrix(c, transposed, 2, 19, k);
      for (const int64_t n : {0, 1, 15, 16, 17, 997}) check_matrix(c, transposed, 1, n, 33);
    }
  }
}

TEST(Reduce, ArgmaxTiesAndNan) {
  const float nan = std::nanf("");
  const auto argmax = [&](const std::vector<float>& x) {
    const auto n = static_cast<int64_t>(x.size());
    const auto result = run_kernel(
        "kernel @r { symbol n : tokens in [1, 4096] param %x : f32[n] read activation "
        "param %y : i32[1] write step part p grid () { "
        "reduce %t : index = argmax lanes 16 over k < n of %x[k] store %y[0] = %t } }",
        {n}, {to_bytes(x), poisoned(4)});
    // The same over columns, with the result's axis as the row.
    std::vector<float> columns;
    for (const float e : x) columns.insert(columns.end(), {e, e, e});
    const auto across = run_kernel(
        "kernel @r { symbol n : tokens in [1, 4096] symbol c : tokens in [1, 64] "
        "param %x : f32[n, c] read activation param %y : i32[c] write step part p grid () { "
        "reduce %t[j < c] : index = argmax chain 16 over k < n of %x[k, j] "
        "store %y[j] over (j < c) = %t[j] } }",
        {n, 3}, {to_bytes(columns), poisoned(12)});
    const int32_t place = from_bytes<int32_t>(result[1])[0];
    for (const int32_t other : from_bytes<int32_t>(across[1])) EXPECT_EQ(other, place);
    return place;
  };
  EXPECT_EQ(argmax({3, 7, 7, 1}), 1);
  EXPECT_EQ(argmax({kLowest, kLowest}), 0);
  EXPECT_EQ(argmax({-0.0f, 0.0f}), 0);
  EXPECT_EQ(argmax({1, nan, 9, nan}), 1);
  EXPECT_EQ(argmax({nan, 5}), 0);
  std::vector<float> many(997, 0.5f);
  many[700] = many[800] = 2;
  EXPECT_EQ(argmax(many), 700);
}

TEST(Reduce, TriangularExtentAndScalarOperand) {
  // The reduced extent depends on the result's axis; one operand does not depend on the reduced
  // axis.
  const std::vector<float> x = random_floats(40, 3);
  const auto result = run_kernel(
      "kernel @r { symbol n : tokens in [1, 64] param %x : f32[n] read activation param %y : "
      "f32[n] write activation "
      "part p grid () { reduce %t[i < n] : f32 = dot chain 8 over k < i + 1 of %x[i], %x[k] "
      "store %y[i] over (i < n) = %t[i] } }",
      {40}, {to_bytes(x), poisoned(160)});
  const std::vector<float> y = from_bytes<float>(result[1]);
  for (size_t i = 0; i < 40; ++i) {
    const float expected = reduce(
        "dot", true, 8, static_cast<int64_t>(i) + 1, [&](int64_t) { return x[i]; },
        [&](int64_t k) { return x[static_cast<size_t>(k)]; });
    EXPECT_EQ(y[i], expected);
  }
}

const std::string kPanel =
    "kernel @panel { symbol tokens : tokens in [1, 8192] param %x : bf16[tokens, 1024] read "
    "activation "
    "param %w : bf16[32, 1024, 32] read weight param %y : bf16[tokens, 1024] write activation "
    "part p grid (tb < ceildiv(tokens, 4), nb < 32) { "
    "tile %a[m < min(4, -4*tb + tokens), k < 1024] : f32 = %x[4*tb + m, k] "
    "reduce %acc[m < min(4, -4*tb + tokens), n < 32] : f32 = dot chain 256 over k < 1024 of %a[m, "
    "k], %w[nb, k, n] "
    "store %y[4*tb + m, 32*nb + n] over (m < min(4, -4*tb + tokens), n < 32) = round_bf16(%acc[m, "
    "n]) } }";

TEST(Reduce, PanelContraction) {
  const std::vector<uint16_t> x = to_bf16(random_floats(6 * 1024, 4));
  const std::vector<uint16_t> w = to_bf16(random_floats(32 * 1024 * 32, 5));
  const auto result = run_kernel(kPanel, {6}, {to_bytes(x), to_bytes(w), poisoned(6 * 1024 * 2)});
  const std::vector<uint16_t> y = from_bytes<uint16_t>(result[2]);
  for (size_t m = 0; m < 6; ++m)
    for (size_t n = 0; n < 1024; ++n) {
      const float expected = reduce(
          "dot", true, 256, 1024,
          [&](int64_t k) { return bf16_to_f32(x[m * 1024 + static_cast<size_t>(k)]); },
          [&](int64_t k) {
            return bf16_to_f32(w[(n / 32 * 1024 + static_cast<size_t>(k)) * 32 + n % 32]);
          });
      ASSERT_EQ(y[m * 1024 + n], f32_to_bf16(expected)) << m << " " << n;
    }
}

// Not a test of anything but speed: --gtest_also_run_disabled_tests prints it.
TEST(Reduce, DISABLED_Speed) {
  std::vector<Bytes> buffers = {poisoned(64 * 1024 * 2), Bytes(32 * 1024 * 32 * 2, 0),
                                poisoned(64 * 1024 * 2)};
  std::vector<void*> pointers;
  data_of(buffers, pointers);
  const TileInterpreter interpreter = interpreter_of(kPanel);
  const std::vector<int64_t> dims = {64};
  const auto start = std::chrono::steady_clock::now();
  interpreter.run(dims, pointers, 0, interpreter.work_items(dims));
  const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("panel contraction: {:.0f} M fma/s\n", 64.0 * 1024 * 1024 / s * 1e-6);
}

}  // namespace
}  // namespace gm::test
