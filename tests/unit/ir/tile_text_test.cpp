#include "ir/tile_text.h"

#include <gtest/gtest.h>

#include "ir/tile.h"

namespace gm {
namespace {

constexpr const char* kText = R"(kernel @layers.0.mlp {
  symbol tokens : tokens in [1, 8192]
  symbol seqs : seqs in [1, tokens] multiple 4
  symbol slots : slots in [1, inf]
  param %x : bf16[tokens, 256] read activation
  param %w : bf16[16, 256, 32] read weight
  param %start : i32[seqs + 1] read step range [0, tokens + 1) monotone total tokens
  param %slot : i32[seqs] read step range [-1, slots) distinct masked
  param %pos : i32[tokens] read step range [0, inf) consecutive
  param %h : f32[slots, 4] read_write state
  param %y : bf16[tokens, 512] write activation
  part gate_up grid (tb < ceildiv(tokens, 4), nb < 16) {
    tile %a[m < min(4, tokens - 4*tb), k < 256] : f32 = %x[4*tb + m, k]
    reduce %acc[m < min(4, tokens - 4*tb), n < 32] : f32 = dot chain 256 over k < 256 of %a[m, k], %w[nb, k, n]
    reduce %best : index = argmax lanes 16 over k < 256 of abs(%a[0, k])
    store %y[4*tb + m, 32*nb + n] over (m < min(4, tokens - 4*tb), n < 32) = round_bf16(fma(%acc[m, n], -1.0, 1e-06))
  }
  part steps grid (s < seqs) {
    if le(index(0), %slot[s]) {
      tile %sum : f32 = -inf
      for t in [%start[s], %start[s + 1]) {
        let p in [0, tokens - 1] = add(%pos[t], index(s - 1))
        update %sum = select(lt(index(t), %pos[t]), from_bits(bits(0x3f800000)), to_f32(sub(%pos[t], index(-1))))
        store %h[%slot[s], i] over (i < 4) = add(%sum, %h[%slot[s], mod(%pos[t]*(p + 1) - (s + 1), 4)])
      }
    }
  }
}
)";

std::string error_of(std::string_view text) {
  const auto kernel = parse_kernel(text, "k.gm");
  return kernel ? "no error" : kernel.error().to_string();
}

std::string with(std::string_view from, std::string_view to) {
  std::string text = kText;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(TileText, RoundTrip) {
  const auto kernel = parse_kernel(kText, "k.gm");
  ASSERT_TRUE(kernel) << kernel.error().to_string();
  EXPECT_EQ(print_kernel(*kernel), kText);
  const auto again = parse_kernel(print_kernel(*kernel), "other.gm");
  ASSERT_TRUE(again);
  EXPECT_TRUE(*again == *kernel);
  EXPECT_EQ(kernel->parts[0].body[1].location, Location::of_text("k.gm", 14, 5));
  EXPECT_FALSE(*parse_kernel(with("1e-06", "2e-06"), "k.gm") == *kernel);
  EXPECT_FALSE(*parse_kernel(with("distinct masked", "distinct"), "k.gm") == *kernel);
  EXPECT_EQ(work_items(kernel->parts[0]).to_string(), "16*ceildiv(tokens, 4)");
}

TEST(TileText, LoadsAndTilesGetTheirTypes) {
  const auto kernel = parse_kernel(kText, "k.gm");
  ASSERT_TRUE(kernel);
  const auto& guard = std::get<IfStmt>(kernel->parts[1].body[0].node);
  const auto& loop = std::get<ForStmt>(guard.body[1].node);
  EXPECT_EQ(loop.lo->kind, ExprKind::load);
  EXPECT_EQ(loop.lo.type(), ScalarType::index);
  const auto& tile = std::get<TileStmt>(kernel->parts[0].body[0].node);
  EXPECT_EQ(tile.value.type(), ScalarType::f32);
  const auto& store = std::get<StoreStmt>(kernel->parts[0].body[3].node);
  EXPECT_EQ(store.value->args[0]->args[0]->kind, ExprKind::tile);
}

TEST(TileText, EqualSyntaxErrors) {
  EXPECT_EQ(error_of("kernel @k {\n  parm %x\n}"),
            "error: expected 'symbol', 'param', 'part' or '}' but found 'parm' [GM1502]\n"
            "  at k.gm:2:3\n  fix: write 'symbol', 'param', 'part' or '}' here\n");
  EXPECT_NE(error_of(with("%x[4*tb + m, k]", "%zz[4*tb + m, k]"))
                .find("%zz is neither a parameter nor a tile in scope [GM1504]\n  at k.gm:13:"),
            std::string::npos);
  EXPECT_NE(error_of(with("abs(%a[0, k])", "abs(%slot[k])"))
                .find("abs does not take operands of these types [GM1505]\n  at k.gm:15:60"),
            std::string::npos);
  EXPECT_NE(error_of(with("store %y", "store %q")).find("%q is not declared"), std::string::npos);
  EXPECT_NE(error_of(with("update %sum", "update %x")).find("the tile %x is not defined"),
            std::string::npos);
  EXPECT_NE(error_of(with(": index = argmax", ": f32 = argmax")).find("yields index, not f32"),
            std::string::npos);
  EXPECT_NE(error_of(with("abs(", "abz(")).find("there is no function 'abz'"), std::string::npos);
  EXPECT_NE(
      error_of(with("[1, tokens] m", "[1, token] m")).find("the symbol 'token' is not declared"),
      std::string::npos);
  EXPECT_NE(error_of(with("n < 32] : f32", "n < %slot[0]] : f32")).find("cannot load [GM1505]"),
            std::string::npos);
  EXPECT_NE(
      error_of(with("param %w", "param %x")).find("'x' is defined twice [GM1504]\n  at k.gm:6:9"),
      std::string::npos);
}

TEST(TileText, HostileTexts) {
  const std::string head = "kernel @k { part p grid (i < 4) { ";
  EXPECT_NE(error_of(head + "tile %a : f32 = " + std::string(100000, '-')).find("GM1502"),
            std::string::npos);
  std::string deep = head + "tile %a : f32 = ";
  for (int i = 0; i < 100000; ++i) deep += "neg(";
  EXPECT_NE(error_of(deep).find("nested more than 256 deep [GM1503]"), std::string::npos);
  deep = head + "tile %a[i < ";
  for (int i = 0; i < 100000; ++i) deep += "(";
  EXPECT_NE(error_of(deep).find("nested more than 256 deep [GM1503]"), std::string::npos);
  deep = head;
  for (int i = 0; i < 100000; ++i) deep += "if eq(1.0, 1.0) {";
  EXPECT_NE(error_of(deep).find("nested more than 64 deep [GM1503]"), std::string::npos);
  std::string product = "4611686018427387904";
  EXPECT_NE(error_of(head + "tile %a[i < " + product + "*" + product + "*b] : f32 = 1.0 } }")
                .find("beyond the limits of index arithmetic [GM1503]"),
            std::string::npos);
  product = "(a + b + c + d + e + f)";
  for (int i = 0; i < 10; ++i) product += "*(a + b + c + d + e + f)";
  EXPECT_NE(error_of(head + "tile %a[i < " + product + "] : f32 = 1.0 } }").find("GM1503"),
            std::string::npos);
  EXPECT_NE(error_of(head + "tile %a : f32 = 1e39 } }").find("is not an f32"), std::string::npos);
  EXPECT_NE(error_of(head + "tile %a[i < mod(b, 0)] : f32 = 1.0 } }").find("a divisor of 0"),
            std::string::npos);
  // Cut anywhere, it is an error and not a crash.
  const std::string text = kText;
  for (size_t n = 0; n + 2 < text.size(); n += 3) {
    EXPECT_FALSE(parse_kernel(text.substr(0, n), "k.gm")) << n;
  }
}

}  // namespace
}  // namespace gm
