#include <gtest/gtest.h>

#include "base/sym.h"

namespace gm {
namespace {

SymExpr parsed(std::string_view text) {
  auto e = SymExpr::parse(text);
  if (!e) {
    ADD_FAILURE() << e.error().to_string();
    return {};
  }
  return *e;
}

SymInfo symbol(std::string name, std::string_view lo, std::string_view hi, int64_t multiple = 1) {
  SymInfo info{std::move(name), SymRole::loop, parsed(lo), std::nullopt, multiple};
  if (!hi.empty()) info.hi = parsed(hi);
  return info;
}

SymTable table_of(std::vector<SymInfo> symbols) {
  SymTable table;
  for (SymInfo& info : symbols) table.declare(std::move(info));
  return table;
}

Truth le(const SymTable& t, std::string_view a, std::string_view b) {
  return t.provably_le(parsed(a), parsed(b));
}
Truth lt(const SymTable& t, std::string_view a, std::string_view b) {
  return t.provably_lt(parsed(a), parsed(b));
}
Truth eq(const SymTable& t, std::string_view a, std::string_view b) {
  return t.provably_equal(parsed(a), parsed(b));
}

TEST(SymTable, Declarations) {
  SymTable table = table_of({symbol("a", "0", "3"), symbol("b", "0", "a")});
  EXPECT_EQ(table.find("b")->hi, parsed("a"));
  EXPECT_EQ(table.find("c"), nullptr);
  table.pop();
  EXPECT_EQ(table.find("b"), nullptr);
  EXPECT_EQ(table.symbols().size(), 1u);
  EXPECT_EQ(table, table_of({symbol("a", "0", "3")}));
}

TEST(SymTable, Ranges) {
  const SymTable t =
      table_of({symbol("n", "1", "8192"), symbol("u", "1", ""),
                symbol("tb", "0", "ceildiv(n, 4) - 1"), symbol("m", "0", "min(4, n - 4*tb) - 1")});
  EXPECT_EQ(t.range(parsed("2*n - 1")), (SymRange{1, 16383}));
  EXPECT_EQ(t.range(parsed("n - n + 7")), (SymRange{7, 7}));
  EXPECT_EQ(t.range(parsed("u")), (SymRange{1, std::nullopt}));
  EXPECT_EQ(t.range(parsed("-u")), (SymRange{std::nullopt, -1}));
  EXPECT_EQ(t.range(parsed("nowhere")), SymRange{});
  EXPECT_EQ(t.range(parsed("mod(nowhere, 8)")), (SymRange{0, 7}));
  EXPECT_EQ(t.range(parsed("tb")), (SymRange{0, 2047}));
  EXPECT_EQ(t.range(parsed("m")), (SymRange{0, 3}));
  EXPECT_EQ(t.range(parsed("4*tb + m")), (SymRange{0, 8191}));
  EXPECT_EQ(t.range(parsed("min(n, 100)")), (SymRange{1, 100}));
  EXPECT_EQ(t.range(parsed("max(n, 100)")), (SymRange{100, 8192}));
  EXPECT_EQ(t.range(parsed("min(u, 100)")), (SymRange{1, 100}));
  EXPECT_EQ(t.range(parsed("n*n")), (SymRange{1, 8192 * 8192}));
}

TEST(SymTable, TokenTilesStayInBounds) {
  const SymTable t =
      table_of({symbol("tokens", "1", "8192"), symbol("tb", "0", "ceildiv(tokens, 4) - 1"),
                symbol("m", "0", "min(4, tokens - 4*tb) - 1")});
  EXPECT_EQ(lt(t, "4*tb + m", "tokens"), Truth::yes);
  EXPECT_EQ(le(t, "0", "4*tb + m"), Truth::yes);
  EXPECT_EQ(lt(t, "4*tb", "tokens"), Truth::yes);
  EXPECT_EQ(lt(t, "4*tb + 3", "tokens"), Truth::unknown);  // the last tile may be short
  EXPECT_EQ(lt(t, "4*tb + m + 1", "tokens"), Truth::unknown);
  EXPECT_EQ(le(t, "tokens", "4*tb + m"), Truth::no);
  EXPECT_EQ(le(t, "1", "min(4, tokens - 4*tb)"), Truth::yes);
}

TEST(SymTable, TilesOfAnUnboundedSymbol) {
  const SymTable t = table_of({symbol("N", "1", ""), symbol("nb", "0", "ceildiv(N, 32) - 1"),
                               symbol("i", "0", "min(32, N - 32*nb) - 1")});
  EXPECT_EQ(lt(t, "32*nb + i", "N"), Truth::yes);
  EXPECT_EQ(lt(t, "32*nb + i", "32*ceildiv(N, 32)"), Truth::yes);
  EXPECT_EQ(lt(t, "32*nb + i", "N - 1"), Truth::unknown);
}

TEST(SymTable, MasksBySeparateLimit) {
  const SymTable t = table_of(
      {symbol("N", "1", ""), symbol("nb", "0", "floordiv(N - 1, 32)"), symbol("i", "0", "31")});
  EXPECT_EQ(lt(t, "min(32*nb + i, N - 1)", "N"), Truth::yes);
  EXPECT_EQ(le(t, "0", "max(32*nb - i, 0)"), Truth::yes);
  EXPECT_EQ(lt(t, "32*nb + i", "N + 31"), Truth::yes);
}

TEST(SymTable, PagesOfAContext) {
  const SymTable t = table_of({symbol("context", "1", ""), symbol("p", "0", "context - 1")});
  EXPECT_EQ(le(t, "floordiv(p, 16)", "ceildiv(context, 16) - 1"), Truth::yes);
  EXPECT_EQ(le(t, "0", "floordiv(p, 16)"), Truth::yes);
  EXPECT_EQ(le(t, "floordiv(p, 16)", "ceildiv(context, 16) - 2"), Truth::unknown);
  EXPECT_EQ(lt(t, "16*floordiv(p, 16) + mod(p, 16)", "context"), Truth::yes);
  EXPECT_EQ(le(t, "mod(p, 16)", "p"), Truth::yes);
}

TEST(SymTable, QuotientAndRemainder) {
  const SymTable t = table_of({symbol("kk", "0", "")});
  EXPECT_EQ(eq(t, "kk", "128*floordiv(kk, 128) + mod(kk, 128)"), Truth::yes);
  EXPECT_EQ(eq(t, "ceildiv(kk, 4)", "floordiv(kk + 3, 4)"), Truth::yes);
  EXPECT_EQ(eq(t, "kk", "128*floordiv(kk, 128)"), Truth::unknown);
  EXPECT_EQ(eq(t, "2*kk", "2*floordiv(kk, 3) + 1"), Truth::no);
  EXPECT_EQ(eq(t, "kk", "kk + 1"), Truth::no);
  EXPECT_EQ(eq(t, "mod(kk, 8)", "8"), Truth::no);
  EXPECT_EQ(eq(t, "ghost", "128*floordiv(ghost, 128) + mod(ghost, 128)"),
            Truth::yes);  // not declared
}

TEST(SymTable, RowMajorIndices) {
  const SymTable t = table_of({symbol("M", "1", ""), symbol("N", "1", ""),
                               symbol("m", "0", "M - 1"), symbol("n", "0", "N - 1")});
  EXPECT_EQ(lt(t, "N*m + n", "M*N"), Truth::yes);
  EXPECT_EQ(le(t, "0", "N*m + n"), Truth::yes);
  EXPECT_EQ(lt(t, "M*m + n", "M*N"), Truth::unknown);
}

TEST(SymTable, NestedTiles) {
  const SymTable t =
      table_of({symbol("K", "128", "", 128), symbol("kb", "0", "floordiv(K, 128) - 1"),
                symbol("w", "0", "3"), symbol("k", "32*w", "32*w + 31")});
  EXPECT_EQ(lt(t, "128*kb + k", "K"), Truth::yes);
  EXPECT_EQ(le(t, "128*kb + k", "K - 1 - 128*kb"), Truth::unknown);
  EXPECT_EQ(t.range(parsed("k")), (SymRange{0, 127}));
}

TEST(SymTable, Causality) {
  // A query position sees keys up to itself; pages of 16.
  const SymTable t = table_of({symbol("ctx", "1", "32768"), symbol("q", "0", "ctx - 1"),
                               symbol("pg", "0", "floordiv(q, 16)"),
                               symbol("j", "0", "min(16, q + 1 - 16*pg) - 1")});
  EXPECT_EQ(le(t, "16*pg + j", "q"), Truth::yes);
  EXPECT_EQ(lt(t, "16*pg + j", "ctx"), Truth::yes);
  EXPECT_EQ(lt(t, "pg", "ceildiv(ctx, 16)"), Truth::yes);
  EXPECT_EQ(lt(t, "16*pg + j", "32768"), Truth::yes);
}

TEST(SymTable, MaxAsLowerBound) {
  const SymTable t =
      table_of({symbol("n", "1", "100"), symbol("a", "0", "n"), symbol("i", "max(a, n - 4)", "n")});
  EXPECT_EQ(le(t, "a", "i"), Truth::yes);
  EXPECT_EQ(le(t, "n - 4", "i"), Truth::yes);
  EXPECT_EQ(le(t, "0", "i"), Truth::yes);
}

TEST(SymTable, Multiples) {
  const SymTable t = table_of({symbol("c", "16", "4096", 16), symbol("x", "0", "10"),
                               symbol("i", "0", "floordiv(c, 16) - 1")});
  EXPECT_EQ(t.divides(16, parsed("c")), Truth::yes);
  EXPECT_EQ(t.divides(32, parsed("2*c + 64")), Truth::yes);
  EXPECT_EQ(t.divides(32, parsed("c")), Truth::unknown);
  EXPECT_EQ(t.divides(16, parsed("c + 8")), Truth::no);
  EXPECT_EQ(t.divides(4, parsed("2*x + 1")), Truth::no);
  EXPECT_EQ(t.divides(8, parsed("8*x + c*x")), Truth::yes);
  EXPECT_EQ(t.divides(1, parsed("x")), Truth::yes);
  EXPECT_EQ(eq(t, "16*floordiv(c, 16)", "c"), Truth::yes);
  EXPECT_EQ(eq(t, "ceildiv(c, 16)", "floordiv(c, 16)"), Truth::yes);
  EXPECT_EQ(lt(t, "16*i + 15", "c"), Truth::yes);
  const SymTable odd = table_of({symbol("c", "17", "50", 16)});
  EXPECT_EQ(odd.range(parsed("c")), (SymRange{32, 48}));
}

TEST(SymTable, BoundsOverLaterSymbolsAreNone) {
  const SymTable t =
      table_of({symbol("a", "0", "b"), symbol("b", "0", "a"), symbol("c", "c", "c")});
  EXPECT_EQ(t.range(parsed("a + c")), SymRange{});
  EXPECT_EQ(le(t, "0", "a"), Truth::yes);
  EXPECT_EQ(le(t, "b", "a"), Truth::yes);
  EXPECT_EQ(le(t, "a", "b"), Truth::unknown);
}

TEST(SymTable, HugeValuesAreNoRange) {
  const SymTable t = table_of({symbol("x", "0", "1099511627776"), symbol("u", "0", "")});
  EXPECT_EQ(t.range(parsed("x*x")), (SymRange{0, std::nullopt}));
  EXPECT_EQ(t.range(parsed("x*x*x*x*x*x - x")).hi, std::nullopt);
  EXPECT_EQ(t.range(parsed("x*u")), (SymRange{0, std::nullopt}));
  EXPECT_EQ(t.range(parsed("x*u - u*u")), SymRange{});
}

// Each of these takes exponential time in a prover without limits.
TEST(SymTable, CraftedExpressionsStayCheap) {
  std::string mods = "x", minima = "0", sum = "0";
  for (int i = 0; i < 60; ++i) mods = fmt::format("mod({} + y, {})", mods, 1000003 + 2 * i);
  for (int i = 0; i < 60; ++i) minima += fmt::format(" + min(x + y*{}, y, z*{})", i, i);
  for (int i = 0; i < 300; ++i) sum += fmt::format(" + floordiv(x + {}*y, {})", i, 7 + i);
  SymTable t = table_of({symbol("x", "0", ""), symbol("y", "0", ""), symbol("z", "0", "")});
  for (int i = 0; i < 50; ++i) {
    const std::string before = i == 0 ? "x" : fmt::format("s{}", i - 1);
    t.declare(symbol(fmt::format("s{}", i), "0",
                     fmt::format("{0} + floordiv({0}, 3) + mod({0}, 5)", before)));
  }
  EXPECT_EQ(le(t, mods, "x + y"), Truth::unknown);
  EXPECT_EQ(le(t, mods, "2000000"), Truth::yes);
  EXPECT_EQ(le(t, "0", minima), Truth::yes);
  EXPECT_EQ(le(t, minima, "-1"), Truth::no);
  EXPECT_EQ(le(t, "0", sum), Truth::yes);
  EXPECT_EQ(le(t, "s49", "x"), Truth::unknown);
  EXPECT_EQ(le(t, "0", "s49"), Truth::yes);
}

}  // namespace
}  // namespace gm
