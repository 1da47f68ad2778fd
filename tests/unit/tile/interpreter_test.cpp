#include "codegen/tile/interpreter.h"

#include <cmath>

#include "codegen/tile/kernel_bytes.h"
#include "tests/unit/tile/harness.h"

namespace gm::test {
namespace {

std::string head(const std::string& params, const std::string& parts) {
  return "kernel @k { symbol n : tokens in [0, 4096] symbol s : seqs in [0, 64] " + params + " " +
         parts + " }";
}

TEST(Interpreter, PointwiseOfEveryDtypeAndSize) {
  for (const int64_t n : {0, 1, 15, 16, 17, 255, 256, 257, 997}) {
    const std::vector<float> a = random_floats(3 * n, 1, 1000), b = random_floats(n, 2);
    std::vector<uint16_t> halves;
    for (const float x : b) halves.push_back(f32_to_f16(x));
    const auto result = run_kernel(
        head("param %a : f32[3, n] read activation param %b : bf16[n] read activation "
             "param %c : f16[n] read activation param %f : f32[3, n] write activation "
             "param %g : bf16[3, n] write activation param %h : f16[3, n] write activation",
             "part p grid (r < 3) { tile %t[i < n] : f32 = fma(%a[r, i], %b[i], %c[i]) "
             "store %f[r, i] over (i < n) = max(%t[i], neg(%b[i])) "
             "store %g[r, i] over (i < n) = %t[i] "
             "store %h[r, i] over (i < n) = select(lt(%t[i], %c[i]), div(%t[i], %b[i]), "
             "round_bf16(sqrt(abs(%t[i])))) }"),
        {n, 0},
        {to_bytes(a), to_bytes(to_bf16(b)), to_bytes(halves), poisoned(12 * n), poisoned(6 * n),
         poisoned(6 * n)});
    const auto f = from_bytes<float>(result[3]);
    const auto g = from_bytes<uint16_t>(result[4]), h = from_bytes<uint16_t>(result[5]);
    for (size_t e = 0; e < a.size(); ++e) {
      const size_t i = e % static_cast<size_t>(n);
      const float bb = round_to(DType::bf16, b[i]), cc = round_to(DType::f16, b[i]);
      const float t = std::fma(a[e], bb, cc);
      ASSERT_EQ(f[e], t < -bb ? -bb : t);
      ASSERT_EQ(g[e], f32_to_bf16(t));
      ASSERT_EQ(h[e], f32_to_f16(t < cc ? t / bb : round_to(DType::bf16, std::sqrt(std::abs(t)))));
    }
  }
}

TEST(Interpreter, MinAndMaxTreatNanByTheirOrder) {
  const float nan = std::nanf("");
  const std::vector<float> a = {nan, 1, 2, 0.0f, -0.0f}, b = {1, nan, 1, -0.0f, 0.0f};
  const auto result =
      run_kernel(head("param %a : f32[n] read activation param %b : f32[n] read activation param "
                      "%y : f32[2, n] write activation",
                      "part p grid () { store %y[0, i] over (i < n) = min(%a[i], %b[i]) "
                      "store %y[1, i] over (i < n) = max(%a[i], %b[i]) }"),
                 {5, 0}, {to_bytes(a), to_bytes(b), poisoned(40)});
  std::vector<float> expected;
  for (size_t i = 0; i < 5; ++i) expected.push_back(b[i] < a[i] ? b[i] : a[i]);
  for (size_t i = 0; i < 5; ++i) expected.push_back(a[i] < b[i] ? b[i] : a[i]);
  EXPECT_EQ(bits_of(from_bytes<float>(result[2])), bits_of(expected));
}

TEST(Interpreter, IndexArithmeticAlongAndAcrossTheRow) {
  // Strided, divided, reversed and gathered accesses; index tiles; a short last axis.
  const std::vector<float> x = random_floats(40 * 6, 5);
  std::vector<int32_t> ids;
  for (int i = 0; i < 40; ++i) ids.push_back((i * 17) % 40);
  const auto result = run_kernel(
      head("param %x : f32[n, 6] read activation param %id : i32[n] read step range [0, n) "
           "param %y : f32[n, 6] write activation param %z : f32[6, n] write activation param %w : "
           "i32[n] write activation",
           "part p grid () { tile %t[i < n] : index = add(%id[i], index(2*i)) "
           "store %y[i, j] over (i < n, j < 6) = %x[%id[i], -j + 5] "
           "store %z[j, i] over (j < 6, i < n) = add(%x[floordiv(i, 2), mod(i + j, 6)], "
           "to_f32(index(i*j))) "
           "store %w[i] over (i < n) = mod(floordiv(%t[i], index(3)), index(7)) }"),
      {40, 0}, {to_bytes(x), to_bytes(ids), poisoned(960), poisoned(960), poisoned(160)});
  const auto y = from_bytes<float>(result[2]), z = from_bytes<float>(result[3]);
  const auto w = from_bytes<int32_t>(result[4]);
  for (size_t i = 0; i < 40; ++i) {
    for (size_t j = 0; j < 6; ++j) {
      ASSERT_EQ(y[i * 6 + j], x[static_cast<size_t>(ids[i]) * 6 + 5 - j]);
      ASSERT_EQ(z[j * 40 + i], x[i / 2 * 6 + (i + j) % 6] + static_cast<float>(i * j));
    }
    ASSERT_EQ(w[i], (ids[i] + 2 * static_cast<int32_t>(i)) / 3 % 7);
  }
}

TEST(Interpreter, LetForIfUpdateOnRaggedSequences) {
  // A scan with a carried tile over each sequence; masked sequences leave their row of the state
  // alone.
  const std::vector<int32_t> start = {0, 3, 3, 10}, slot = {2, 1, -1};
  const std::vector<float> x = random_floats(10 * 20, 6);
  const auto result = run_kernel(
      head("param %start : i32[s + 1] read step range [0, n + 1) monotone total n "
           "param %slot : i32[s] read step range [-1, 4) distinct masked "
           "param %x : f32[n, 20] read activation param %y : f32[n, 20] write activation "
           "param %state : f32[4, 20] read_write state",
           "part p grid (q < s) { let first in [0, n] = %start[q] let row in [-1, 3] = %slot[q] "
           "if le(index(0), index(row)) { tile %c[j < 20] : f32 = 0.5 "
           "for t in [first, %start[q + 1]) { update %c[j] over (j < 20) = fma(%c[j], 0.75, %x[t, "
           "j]) "
           "store %y[t, j] over (j < 20) = %c[j] } "
           "store %state[row, j] over (j < 20) = %c[j] } }"),
      {10, 3}, {to_bytes(start), to_bytes(slot), to_bytes(x), poisoned(800), poisoned(320)});
  std::vector<float> y = from_bytes<float>(poisoned(800)), state = from_bytes<float>(poisoned(320));
  for (size_t q = 0; q < 2; ++q) {
    std::vector<float> c(20, 0.5f);
    for (auto t = static_cast<size_t>(start[q]); t < static_cast<size_t>(start[q + 1]); ++t)
      for (size_t j = 0; j < 20; ++j) y[t * 20 + j] = c[j] = std::fma(c[j], 0.75f, x[t * 20 + j]);
    for (size_t j = 0; j < 20; ++j) state[static_cast<size_t>(slot[q]) * 20 + j] = c[j];
  }
  EXPECT_EQ(bits_of(from_bytes<float>(result[3])), bits_of(y));
  EXPECT_EQ(bits_of(from_bytes<float>(result[4])), bits_of(state));
}

TEST(Interpreter, PartsCountTheirItemsInOrder) {
  const std::string text = head(
      "param %y : i32[n, 3] write activation param %z : i32[s] write activation param %u : f32[1] "
      "write activation",
      "part a grid (i < n, j < 3) { store %y[i, j] = index(10*i + j) } "
      "part b grid (i < s) { store %z[i] = index(-i) } part c grid () { store %u[0] = 1.5 }");
  const auto result = run_kernel(text, {5, 4}, {poisoned(60), poisoned(16), poisoned(4)});
  const auto y = from_bytes<int32_t>(result[0]);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(y[static_cast<size_t>(i)], 10 * (i / 3) + i % 3);
  EXPECT_EQ(from_bytes<int32_t>(result[1]), (std::vector<int32_t>{0, -1, -2, -3}));
  EXPECT_EQ(from_bytes<float>(result[2])[0], 1.5f);
  const TileInterpreter interpreter = interpreter_of(text);
  EXPECT_EQ(interpreter.work_items(std::vector<int64_t>{5, 4}), 20);
  EXPECT_EQ(interpreter.work_items(std::vector<int64_t>{0, 0}), 1);
  // Item 3 is row 1, column 0.
  std::vector<Bytes> buffers = {poisoned(60), poisoned(16), poisoned(4)};
  std::vector<void*> pointers;
  data_of(buffers, pointers);
  interpreter.run(std::vector<int64_t>{5, 4}, pointers, 3, 4);
  Bytes expected = poisoned(60);
  const int32_t ten = 10;
  std::memcpy(expected.data() + 12, &ten, 4);
  EXPECT_EQ(buffers[0], expected);
  EXPECT_EQ(buffers[1], poisoned(16));
}

TEST(Interpreter, AnUntakenArmMayBeOutOfBounds) {
  const std::vector<float> x = {1, 2, 3, 4};
  const auto result =
      run_kernel(head("param %x : f32[n] read activation param %y : f32[n] write activation",
                      "part p grid () { store %y[i] over (i < n) = select(lt(index(i), index(2)), "
                      "0.0, %x[i - 2]) }"),
                 {4, 0}, {to_bytes(x), poisoned(16)});
  EXPECT_EQ(from_bytes<float>(result[1]), (std::vector<float>{0, 0, 1, 2}));
}

TEST(Interpreter, RunsInSeveralPiecesOfALongRowWithManyValues) {
  // Bits and constants: the fractional part's bits, shifted.
  const std::vector<float> x = random_floats(700, 9, 100);
  const auto result =
      run_kernel(head("param %x : f32[n] read activation param %y : f32[n] write activation",
                      "part p grid () { store %y[i] over (i < n) = "
                      "from_bits(bit_or(shr(to_bits(%x[i]), bits(1)), bits(0x20000000))) }"),
                 {700, 0}, {to_bytes(x), poisoned(2800)});
  const auto y = bits_of(from_bytes<float>(result[1])), bits = bits_of(x);
  for (size_t i = 0; i < 700; ++i) ASSERT_EQ(y[i], (bits[i] >> 1) | 0x20000000u);
}

void run_checked(const std::string& text, std::vector<Bytes> buffers, Checked checked) {
  std::vector<void*> pointers;
  data_of(buffers, pointers);
  const TileInterpreter interpreter = interpreter_of(text, checked);
  const std::vector<int64_t> dims = {4, 2};
  interpreter.run(dims, pointers, 0, interpreter.work_items(dims));
}

TEST(InterpreterDeathTest, CheckedModeFindsEachBadAccess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string params =
      "param %x : f32[n, 2] read activation param %y : f32[n, 2] write activation";
  const std::vector<Bytes> buffers = {poisoned(32), poisoned(32)};
  // Inside the buffer as a whole, but not in the second dimension.
  const std::string load =
      head(params, "part p grid () { store %y[i, 0] over (i < n - 1) = %x[i, 2] }");
  EXPECT_DEATH(run_checked(load, buffers, Checked::yes), "reads %x out of bounds");
  run_checked(load, buffers, Checked::no);
  const std::string store =
      head(params, "part p grid () { store %y[i, 2] over (i < n - 1) = %x[i, 0] }");
  EXPECT_DEATH(run_checked(store, buffers, Checked::yes), "writes %y at index 2 of dimension 1");
  const std::string tile = head(
      params, "part p grid () { tile %t[i < 3] : f32 = 1.0 store %y[i, 0] over (i < n) = %t[i] }");
  EXPECT_DEATH(run_checked(tile, buffers, Checked::yes), "reads %t out of bounds");
  const std::string arm = head(params,
                               "part p grid () { store %y[i, 0] over (i < n) = select(lt(index(i), "
                               "index(3)), %x[i + 2, 0], 1.0) }");
  EXPECT_DEATH(run_checked(arm, buffers, Checked::yes), "reads %x out of bounds");
  // A store out of the buffer is caught in either mode.
  const std::string outside =
      head(params, "part p grid () { store %y[i + 1, 0] over (i < n) = 1.0 }");
  EXPECT_DEATH(run_checked(outside, buffers, Checked::no),
               "writes elements 2 to 8 of %y, which has 8");
}

TEST(Interpreter, RejectsWhatTheVerifierWouldNotPass) {
  Kernel kernel = kernel_of(head("param %y : f32[n] write activation",
                                 "part p grid () { store %y[i] over (i < n) = 1.0 }"));
  std::get<StoreStmt>(kernel.parts[0].body[0].node).value = Expr::tile("t", {}, ScalarType::f32);
  const auto unknown = TileInterpreter::create(kernel);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, Code::ir_name);
  EXPECT_EQ(unknown.error().message, "unknown name %t");
  EXPECT_EQ(unknown.error().location.file, "test.gm");
  std::get<StoreStmt>(kernel.parts[0].body[0].node).value = Expr::index(SymExpr(1));
  const auto type = TileInterpreter::create(kernel);
  ASSERT_FALSE(type.has_value());
  EXPECT_EQ(type.error().code, Code::ir_type);
  EXPECT_EQ(type.error().message, "the value for %y is index, not f32");
}

TEST(KernelBytes, TheLargestPartAtItsLargestExtents) {
  const std::string params = "param %y : f32[n] write activation";
  EXPECT_EQ(
      resident_bytes(kernel_of(head(
          params,
          "part a grid (tb < ceildiv(n, 4)) { "
          "tile %a[m < min(4, -4*tb + n), k < 256] : f32 = 1.0 "
          "reduce %i[m < min(4, -4*tb + n)] : index = argmax lanes 16 over k < 256 of %a[m, k] "
          "tile %s : f32 = 1.0 } "
          "part b grid () { tile %b[k < 16] : f32 = 1.0 }"))),
      4 * 256 * 4 + 4 * 8 + 4);
  EXPECT_EQ(
      resident_bytes(kernel_of(head(params, "part a grid () { tile %b[k < n] : f32 = 1.0 }"))),
      4096 * 4);
  EXPECT_EQ(resident_bytes(kernel_of("kernel @k { symbol n : tokens in [0, inf] "
                                     "part a grid () { tile %b[k < n] : f32 = 1.0 } }")),
            -1);
  EXPECT_EQ(resident_bytes(kernel_of(head(params, "part a grid () { }"))), 0);
}

}  // namespace
}  // namespace gm::test
