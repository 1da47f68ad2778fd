// Each code of the kernel verifier by a small kernel that has just that fault.
#include <gtest/gtest.h>

#include "ir/tile.h"

namespace gm {
namespace {

constexpr const char* kHead = R"(kernel @k {
  symbol tokens : tokens in [1, 64]
  symbol seqs : seqs in [1, 8]
  symbol slots : slots in [1, inf]
  param %x : f32[tokens, 8] read activation
  param %start : i32[seqs + 1] read step range [0, tokens + 1) monotone total tokens
  param %slot : i32[seqs] read step range [-1, slots) distinct masked
  param %pos : i32[tokens] read step range [0, 100) consecutive
  param %any : i32[tokens] read step
  param %st : f32[slots, 8] read_write state
  param %y : f32[tokens, 8] write activation
)";

// The parts, after the symbols and parameters above.
Result<> verify(const std::string& parts) {
  const auto kernel = parse_kernel(kHead + parts + "\n}\n", "k.gm");
  EXPECT_TRUE(kernel) << kernel.error().to_string();
  if (!kernel) return {};
  return verify_kernel(*kernel);
}

void reject(const std::string& parts, Code code, const std::string& text) {
  const auto result = verify(parts);
  ASSERT_FALSE(result) << parts;
  EXPECT_EQ(result.error().code, code) << result.error().to_string();
  EXPECT_NE(result.error().to_string().find(text), std::string::npos) << result.error().to_string();
}

// A part in which the store is right, so that only `statements` can be wrong.
std::string in_rows(const std::string& statements) {
  return "part p grid (t < tokens) {\n" + statements +
         "\nstore %y[t, i] over (i < 8) = %x[t, i]\n}";
}

std::string in_slots(const std::string& statements) {
  return "part p grid (s < seqs) {\nif le(index(0), %slot[s]) {\n" + statements + "\n}\n}\n" +
         in_rows("").replace(5, 1, "rows");
}

TEST(TileVerify, TheFrameIsSound) {
  EXPECT_TRUE(verify(in_rows(""))) << verify(in_rows("")).error().to_string();
  const auto slots = verify(in_slots("store %st[%slot[s], i] over (i < 8) = 1.0"));
  EXPECT_TRUE(slots) << slots.error().to_string();
}

TEST(TileVerify, WholeText) {
  const auto result =
      verify("part p grid (t < tokens) {\n  store %y[t + 1, i] over (i < 8) = 1.0\n}");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().to_string(),
            "error: index 0 of %y, t + 1, may lie outside [GM2204]\n"
            "  at k.gm:13:3: @k/p/stmt 1 (store %y)\n"
            "  note: cannot prove t + 1 < tokens\n"
            "  note: known: 1 to 64\n"
            "  fix: correct the index, or the axis it runs over\n");
}

TEST(TileVerify, Names) {
  reject(in_rows("tile %a : f32 = %x[q, 0]"), Code::tile_name,
         "the symbol 'q' is not defined here [GM2201]\n  at k.gm:13:1: @k/p/stmt 1 (tile %a)");
  reject(in_rows("tile %a[t < 8] : f32 = 1.0"), Code::tile_name, "'t' has the name of another");
  reject(in_rows("tile %a : f32 = 1.0 tile %a : f32 = 1.0"), Code::tile_name, "%a is in use here");
  reject(in_rows("tile %x : f32 = 1.0"), Code::tile_name, "%x is in use here");
  reject("part p grid (t < tokens, u < t) { }", Code::tile_name, "a grid uses 't'");
  reject("part p grid (t < tokens) { } part p grid (t < 1) { }", Code::tile_name,
         "the part 'p' is there twice");
  Kernel kernel;  // what text cannot say
  kernel.name = "k";
  kernel.parts.push_back({"p", {}, {{TileStmt{"a", {}, Expr::tile("b", {}, ScalarType::f32)}}}});
  const auto result = verify_kernel(kernel);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "the tile %b is not defined here");
  EXPECT_EQ(result.error().location.to_string(), "@k/p/stmt 1 (tile %a)");
  kernel.parts[0].body = {{StoreStmt{"z", {}, {}, 1.0f}}};
  EXPECT_EQ(verify_kernel(kernel).error().message, "the parameter %z is not declared");
  kernel.parts[0].body = {{TileStmt{"a", {}, Expr::load("z", {}, ScalarType::f32)}}};
  EXPECT_EQ(verify_kernel(kernel).error().code, Code::tile_name);
}

TEST(TileVerify, RanksAndTypes) {
  reject(in_rows("tile %a : f32 = %x[t]"), Code::tile_rank,
         "the buffer %x of rank 2 is used with 1 indices");
  reject(in_rows("tile %a[i < 2] : f32 = 1.0 tile %b : f32 = %a"), Code::tile_rank,
         "the tile %a of rank 1 is used with 0 indices");
  Kernel kernel = *parse_kernel(kHead + in_rows("") + "}", "k.gm");
  kernel.parts[0].body.push_back(
      {TileStmt{"a", {}, Expr::load("x", {Expr::index(0), Expr::index(0)}, ScalarType::index)}});
  EXPECT_EQ(verify_kernel(kernel).error().message, "%x is of f32, but is loaded as index");
  kernel.parts[0].body.back() = {IfStmt{Expr(1.0f), {}}};
  EXPECT_EQ(verify_kernel(kernel).error().message, "the value is of f32, but pred is needed");
  kernel.parts[0].body.back() = {ReduceStmt{"r", {}, {"i", 4}, ReduceOp::dot, {}, 1.0f, {}}};
  EXPECT_EQ(verify_kernel(kernel).error().message, "a reduction has the wrong number of values");
  kernel.parts[0].body.back() = {TileStmt{"a", {}, {}}};
  kernel.params[0].contract = Contract{};
  EXPECT_EQ(verify_kernel(kernel).error().message, "%x has a contract");
}

TEST(TileVerify, Bounds) {
  reject(in_rows("tile %a[i < 9] : f32 = %x[t, i]"), Code::tile_bounds, "cannot prove i < 8");
  reject(in_rows("tile %a : f32 = %x[t - 1, 0]"), Code::tile_bounds, "cannot prove 0 <= t - 1");
  reject(in_rows("tile %a : f32 = %x[%pos[t], 0]"), Code::tile_bounds,
         "cannot prove %pos[t] < tokens\n  note: known: 0 to 99");
  reject(in_rows("tile %a : f32 = %x[%any[t], 0]"), Code::tile_bounds, "cannot prove 0 <= %any[t]");
  reject(in_rows("tile %a[i < 4] : f32 = 1.0 tile %b[i < 5] : f32 = %a[i]"), Code::tile_bounds,
         "index 0 of %a, i, may lie outside");
  reject("part p grid (tb < ceildiv(tokens, 4)) { tile %a[m < 4] : f32 = %x[4*tb + m, 0] }",
         Code::tile_bounds, "cannot prove 4*tb + m < tokens");
  reject("part p grid (s < seqs) { tile %a : f32 = %st[%slot[s], 0] }", Code::tile_bounds,
         "fix: guard it with 'if le(index(0), ...)'");
  reject(
      "part p grid (s < seqs) { for t in [%start[s], %start[s + 1]) { tile %a : f32 = %x[t + 1, 0] "
      "} }",
      Code::tile_bounds, "cannot prove t + 1 < tokens");
  reject("part p grid (s < seqs) { tile %a : index = %start[s + 2] }", Code::tile_bounds, "%start");
}

TEST(TileVerify, GuardsHoldWhereTheyStandOnly) {
  EXPECT_TRUE(
      verify(in_rows("tile %a[i < 9] : f32 = select(lt(index(i), index(8)), %x[t, i], 0.0)")));
  EXPECT_TRUE(
      verify(in_rows("tile %a[i < 9] : f32 = select(le(index(8), index(i)), 0.0, %x[t, i])")));
  EXPECT_TRUE(verify(in_rows(
      "tile %a : f32 = %x[select(lt(%any[t], index(0)), index(0), min(%any[t], index(t))), 0]")));
  reject(in_rows("tile %a[i < 9] : f32 = select(lt(index(i), index(8)), 0.0, %x[t, i])"),
         Code::tile_bounds, "cannot prove i < 8");
  reject(in_rows("tile %a[i < 9] : f32 = select(lt(index(i), index(9)), %x[t, i], 0.0)"),
         Code::tile_bounds, "cannot prove i < 8");
  reject(in_rows(
             "tile %a[i < 9] : f32 = add(select(lt(index(i), index(8)), %x[t, i], 0.0), %x[t, i])"),
         Code::tile_bounds, "cannot prove i < 8");
  reject(in_slots("") +
             "part q grid (s < seqs) { if le(index(0), %slot[s]) { } tile %b : f32 = %st[%slot[s], "
             "0] }",
         Code::tile_bounds, "@k/q/stmt 2 (tile %b)");
  // A value that changes between the guard and the use proves nothing.
  reject(in_rows("tile %n : index = index(0)\nif lt(%n, index(8)) {\nupdate %n = index(99)\n"
                 "tile %a : f32 = %x[t, max(0, %n)]\n}"),
         Code::tile_bounds, "index 1 of %x");
}

TEST(TileVerify, ExtentsAndLets) {
  reject(in_rows("tile %a[i < t - 1] : f32 = 1.0"), Code::tile_extent, "cannot prove 0 <= t - 1");
  reject(in_rows("tile %a[i < 4, j < i] : f32 = 1.0"), Code::tile_extent,
         "the extent of 'j' uses the axis 'i' of the same tile");
  reject(in_rows("let n in [0, 98] = %pos[t]"), Code::tile_let, "cannot prove %pos[t] <= 98");
  reject(in_rows("let n in [1, 99] = %pos[t]"), Code::tile_let, "cannot prove 1 <= %pos[t]");
  EXPECT_TRUE(
      verify(in_rows("let n in [1, 100] = add(%pos[t], index(1))\ntile %a[j < n] : f32 = 1.0")));
  EXPECT_TRUE(
      verify("part p grid (s < seqs) {\nlet n in [0, tokens] = sub(%start[s + 1], %start[s])\n}\n" +
             in_rows("").replace(5, 1, "q")));
}

TEST(TileVerify, Access) {
  reject("part p grid (t < tokens) { tile %a : f32 = %y[t, 0] }", Code::tile_access,
         "%y is written by this kernel and may not be read");
  reject(in_rows("store %x[t, i] over (i < 8) = 1.0"), Code::tile_access,
         "%x is only read, but a store writes it");
}

TEST(TileVerify, Coverage) {
  const auto part = [](const std::string& grid, const std::string& body) {
    return "part p grid (" + grid + ") {\n" + body + "\n}";
  };
  reject("", Code::tile_coverage, "no statement stores to it");
  reject(part("t < tokens", "store %y[t, i] over (i < 7) = 1.0"), Code::tile_coverage,
         "in dim 1 the stores cover 7 of 8");
  reject(part("t < tokens, h < 2", "store %y[t, i] over (i < 8) = 1.0"), Code::tile_coverage,
         "the same elements are written for every 'h'");
  reject(in_rows("store %y[t, 0] = 1.0"), Code::tile_coverage, "written exactly once");
  reject(in_rows("store %y[t, i] over (i < 8) = 1.0"), Code::tile_coverage,
         "two stores write the same elements");
  reject(part("t < tokens, g < 4", "store %y[t, g + i] over (i < 2) = 1.0"), Code::tile_coverage,
         "written exactly once");
  reject(part("t < tokens, g < 4", "store %y[t, g + 4*i] over (i < 1) = 1.0"), Code::tile_coverage,
         "cover 4 of 8");
  EXPECT_TRUE(verify(part("t < tokens, g < 4", "store %y[t, g + 4*i] over (i < 2) = 1.0")));
  EXPECT_TRUE(verify(part(
      "t < tokens", "store %y[t, i] over (i < 3) = 1.0\nstore %y[t, i + 3] over (i < 5) = 1.0")));
  reject(part("t < tokens",
              "store %y[t, i] over (i < 3) = 1.0\nstore %y[t, i + 4] over (i < 4) = 1.0"),
         Code::tile_coverage, "in dim 1 no store begins at 3");
  reject(part("tb < ceildiv(tokens, 4)", "store %y[4*tb, i] over (i < 8) = 1.0"),
         Code::tile_coverage, "no axis of 4*tb steps by 1");
  reject(part("t < tokens", "if lt(index(t), index(3)) {\nstore %y[t, i] over (i < 8) = 1.0\n}"),
         Code::tile_coverage, "it is written only if lt(index(t), index(3))");
  reject(part("t < tokens", "store %y[min(%pos[t], t), i] over (i < 8) = 1.0"), Code::tile_coverage,
         "loads");
  reject(part("s < seqs, g < 2",
              "for t in [%start[s], %start[s + 1]) {\nstore %y[t, i] over (i < 8) = 1.0\n}"),
         Code::tile_coverage, "for every 'g'");
  reject(part("s < seqs",
              "for t in [%start[0], %start[s + 1]) {\nstore %y[t, i] over (i < 8) = 1.0\n}"),
         Code::tile_coverage, "not sequence starts");
}

TEST(TileVerify, Scatter) {
  reject(in_slots(
             "for t in [%start[s], %start[s + 1]) {\nstore %st[%slot[s], i] over (i < 8) = 1.0\n}"),
         Code::tile_scatter, "for two values of 't' the element may be the same");
  reject(in_slots("store %st[0, i] over (i < 8) = 1.0"), Code::tile_scatter,
         "for two values of 's'");
  reject(in_slots("store %st[%slot[s], 0] over (i < 8) = 1.0"), Code::tile_scatter,
         "for two values of 'i'");
  reject(in_slots("store %st[min(%slot[s], slots - 1), i] over (i < 8) = 1.0"), Code::tile_scatter,
         "for two values of 's'");
  reject(in_slots("store %st[%slot[s], i] over (i < 8) = 1.0\nstore %st[%slot[s], i + 7] over (i < "
                  "1) = 1.0"),
         Code::tile_scatter, "two stores to the state %st may write the same element");
  EXPECT_TRUE(verify(in_slots(
      "store %st[%slot[s], i] over (i < 7) = 1.0\nstore %st[%slot[s], i + 7] over (i < 1) = 1.0")));
  reject(in_slots(
             "let n in [0, 7] = mod(%pos[0], index(8))\nstore %st[%slot[s], n] over (i < 8) = 1.0"),
         Code::tile_scatter, "for two values of 'i'");
}

TEST(TileVerify, Races) {
  reject(in_slots("tile %a : f32 = %st[0, 0]\nstore %st[%slot[s], i] over (i < 8) = 1.0"),
         Code::tile_race, "index 0 is %slot[s] in the store, but 0 in the load");
  reject(in_slots("store %st[%slot[s], i] over (i < 8) = 1.0") +
             "\npart q grid (s < seqs) {\nif le(index(0), %slot[s]) {\ntile %a : f32 = "
             "%st[%slot[s], 0]\n}\n}",
         Code::tile_race, "the load is in another part than the store");
}

TEST(TileVerify, Updates) {
  reject(in_rows("tile %a[i < 4] : f32 = 1.0\nupdate %a[i] over (i < 4) = %a[3 - i]"),
         Code::tile_update, "the update of %a reads other elements of it");
  reject(in_rows("tile %a[i < 4] : f32 = 1.0\nupdate %a[0] over (i < 4) = 1.0"), Code::tile_update,
         "the update of %a may write an element twice, over 'i'");
  reject(in_rows("tile %b[i < 4] : index = min(%pos[t], index(3))\ntile %a[i < 4] : f32 = 1.0\n"
                 "update %a[%b[i]] over (i < 4) = 1.0"),
         Code::tile_update, "over 'i'");
  EXPECT_TRUE(verify(
      in_rows("tile %a[i < 4] : f32 = 1.0\nupdate %a[i + 2] over (i < 2) = add(%a[i + 2], 1.0)")));
}

TEST(TileVerify, Orders) {
  reject(in_rows("reduce %a : f32 = sum lanes 12 over i < 8 of %x[t, i]"), Code::tile_order,
         "'lanes 12'");
  reject(in_rows("reduce %a : f32 = sum chain 0 over i < 8 of %x[t, i]"), Code::tile_order,
         "'chain 0'");
}

TEST(TileVerify, UnboundedTilesDoNotFit) {
  const auto kernel = parse_kernel(kHead + in_rows("tile %a[i < slots] : f32 = 1.0") + "}", "k.gm");
  ASSERT_TRUE(kernel);
  EXPECT_TRUE(verify_kernel(*kernel));
  EXPECT_EQ(verify_kernel(*kernel, 1 << 20).error().message,
            "the extent slots of %a has no upper bound");
}

}  // namespace
}  // namespace gm
