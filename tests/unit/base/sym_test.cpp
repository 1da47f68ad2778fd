#include "base/sym.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gm {
namespace {

SymExpr s(std::string_view name) { return SymExpr::symbol(name); }

SymExpr parsed(std::string_view text) {
  auto e = SymExpr::parse(text);
  if (!e) {
    ADD_FAILURE() << e.error().to_string();
    return {};
  }
  return *e;
}

// Parses, and prints what came out.
std::string canon(std::string_view text) { return parsed(text).to_string(); }

TEST(Sym, PolynomialsAreCanonical) {
  EXPECT_EQ((s("a") + s("b")) * (s("a") - s("b")), s("a") * s("a") - s("b") * s("b"));
  EXPECT_EQ(s("a") - s("a"), SymExpr(0));
  EXPECT_EQ(s("a") * 4 + 1 + s("b"), 1 + s("b") + s("a") + s("a") * 3);
  EXPECT_NE(s("a"), s("b"));
  EXPECT_LT(SymExpr(1), s("a"));
}

TEST(Sym, PrintsAsAPersonWould) {
  const std::pair<const char*, const char*> cases[] = {
      {"m + 4*tb", "4*tb + m"},
      {"tokens - 4*tb", "tokens - 4*tb"},
      {"-1 + tokens - 4*tb", "tokens - 4*tb - 1"},
      {"4 - m", "4 - m"},
      {"-4 - m", "-m - 4"},
      {"1 + x", "x + 1"},
      {"0*x", "0"},
      {"x*y + x*x + 3*z", "x*x + x*y + 3*z"},
      {"min(tokens - 4*tb, 4)", "min(4, tokens - 4*tb)"},
      {"ceildiv(tokens, 4)", "ceildiv(tokens, 4)"},
      {"--x", "x"},
      {"-2*-3", "6"},
      {"2*(x + 3)", "2*x + 6"},
      {"\t( x )", "x"},
      {"min*max", "max*min"},  // without an argument list they are symbols
  };
  for (const auto& [text, wanted] : cases) {
    EXPECT_EQ(canon(text), wanted);
    EXPECT_EQ(canon(wanted), wanted);
  }
}

TEST(Sym, FunctionsSimplify) {
  const std::pair<const char*, const char*> cases[] = {
      {"ceildiv(7, 4)", "2"},
      {"ceildiv(-7, 4)", "-1"},
      {"floordiv(7, 4)", "1"},
      {"floordiv(-7, 4)", "-2"},
      {"mod(-7, 4)", "1"},
      {"ceildiv(t, 1)", "t"},
      {"mod(t, 1)", "0"},
      {"ceildiv(8*t, 4)", "2*t"},
      {"floordiv(4*a + b, 4)", "a + floordiv(b, 4)"},
      {"ceildiv(4*a + b, 4)", "a + ceildiv(b, 4)"},
      {"mod(4*a + b, 4)", "mod(b, 4)"},
      {"floordiv(x - 1, 4)", "floordiv(x + 3, 4) - 1"},
      {"floordiv(2*x + 3, 4)", "floordiv(x + 1, 2)"},
      {"ceildiv(2*x + 3, 4)", "ceildiv(x + 2, 2)"},
      {"mod(2*x + 7, 4)", "2*mod(x + 1, 2) + 1"},
      {"floordiv(floordiv(x, 3), 4)", "floordiv(x, 12)"},
      {"ceildiv(ceildiv(x, 3) + 1, 4)", "ceildiv(x + 3, 12)"},
      {"floordiv(mod(x, 128), 128)", "0"},
      {"mod(mod(x, 4), 8)", "mod(x, 4)"},
      {"mod(3*mod(x, 8) + y, 4)", "mod(3*x + y, 4)"},
      {"min(3, 5)", "3"},
      {"max(3, 5)", "5"},
      {"min(x, x)", "x"},
      {"min(x, x + 1)", "x"},
      {"max(x, x + 1)", "x + 1"},
      {"min(y, min(x, 3), 5)", "min(3, x, y)"},
      {"max(y, max(x, 3), 5)", "max(5, x, y)"},
  };
  for (const auto& [text, wanted] : cases) EXPECT_EQ(canon(text), canon(wanted)) << text;
  EXPECT_EQ(canon("ceildiv(2*x + 3, 4)"), "ceildiv(x, 2) + 1");
}

TEST(Sym, Accessors) {
  EXPECT_EQ(SymExpr(5).constant(), 5);
  EXPECT_EQ(SymExpr().constant(), 0);
  EXPECT_EQ(s("x").constant(), std::nullopt);
  EXPECT_EQ(s("x").as_symbol(), "x");
  EXPECT_EQ((s("x") * 2).as_symbol(), std::nullopt);
  EXPECT_EQ(parsed("min(b, c) + a*ceildiv(d, 4)").symbols(),
            (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_TRUE(parsed("min(b, c)").uses("c"));
  EXPECT_FALSE(parsed("min(b, c)").uses("a"));

  const auto linear = parsed("4*a + b*c + mod(d, 4)").linear_in("a");
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear->coefficient, 4);
  EXPECT_EQ(linear->rest.to_string(), canon("b*c + mod(d, 4)"));
  EXPECT_FALSE(parsed("4*a + b*c").linear_in("b"));
  EXPECT_FALSE(parsed("a*a").linear_in("a"));
  EXPECT_FALSE(parsed("a + mod(a, 4)").linear_in("a"));
  EXPECT_EQ(parsed("b + 1").linear_in("a")->coefficient, 0);
  EXPECT_EQ(parsed("b + 1").linear_in("a")->rest, parsed("b + 1"));

  const auto arms = parsed("min(4, x, y)").min_arms();
  ASSERT_TRUE(arms);
  EXPECT_EQ(arms->first, SymExpr(4));
  EXPECT_EQ(arms->second, parsed("min(x, y)"));
  EXPECT_FALSE(parsed("min(4, x)").max_arms());
  EXPECT_FALSE(parsed("min(4, x) + 1").min_arms());
  EXPECT_EQ(parsed("max(4, x)").max_arms()->second, s("x"));
}

TEST(Sym, SubstitutesEverywhereAtOnce) {
  const SymExpr e = parsed("a*b + ceildiv(a, 4)");
  EXPECT_EQ(e.substitute({{"a", s("b") * 8}, {"b", s("a")}}), parsed("8*a*b + 2*b"));
  EXPECT_EQ(e.substitute({{"a", 8}}), parsed("8*b + 2"));
  EXPECT_EQ(parsed("min(a, b)").substitute({{"a", 3}, {"b", 2}}), SymExpr(2));
}

TEST(Sym, EvaluatesOrSaysNothing) {
  EXPECT_EQ(parsed("ceildiv(a, 4)*b - max(a, b)").evaluate({{"a", 9}, {"b", 5}}), 6);
  EXPECT_EQ(s("a").evaluate({{"b", 1}}), std::nullopt);
  EXPECT_EQ(parsed("a*a").evaluate({{"a", INT64_MAX}}), std::nullopt);
  EXPECT_EQ(parsed("a*a*a*a").evaluate({{"a", INT64_MAX}}), std::nullopt);
  // A partial sum outside int64 is no harm.
  EXPECT_EQ(parsed("a + b - a*c").evaluate({{"a", INT64_MAX}, {"b", 5}, {"c", 1}}), 5);
}

TEST(Sym, OverflowIsAValueOfItsOwn) {
  const SymExpr x = s("x");
  const SymExpr big = SymExpr(INT64_MAX);
  const SymExpr over = big * x + x;
  for (const SymExpr& e : {over, big + 1, SymExpr(INT64_MIN) * SymExpr(-1), SymExpr(0) - INT64_MIN,
                           over - over, over * 0, SymExpr::mod(over, 2), SymExpr::ceildiv(over, 2),
                           SymExpr::min(over, 1), SymExpr::max(x, over), over.substitute({})}) {
    EXPECT_TRUE(e.is_too_large());
    EXPECT_EQ(e, over);
    EXPECT_EQ(e.to_string(), "too_large()");
    EXPECT_EQ(e.constant(), std::nullopt);
    EXPECT_EQ(e.evaluate({{"x", 0}}), std::nullopt);
    EXPECT_FALSE(e.linear_in("y"));
  }
  EXPECT_FALSE(SymExpr::parse("too_large()"));
  EXPECT_NE(over, SymExpr(0));
  const SymTable table;
  EXPECT_EQ(table.range(over), SymRange{});
  EXPECT_EQ(table.provably_equal(over, over), Truth::unknown);
  EXPECT_EQ(table.provably_le(over, over), Truth::unknown);
  EXPECT_EQ(table.divides(1, over), Truth::unknown);
  EXPECT_EQ((SymExpr(INT64_MIN) * x).to_string(), "-9223372036854775808*x");
}

TEST(Sym, ParseFaultsAreLocated) {
  const std::string deep = std::string(100, '(') + "x" + std::string(100, ')');
  const std::tuple<std::string, int, std::string> cases[] = {
      {"", 1, "expected a number, a symbol or '(', found the end"},
      {"a +", 4, "found the end"},
      {"a b", 3, "expected an operator or the end, found 'b'"},
      {"a + )", 5, "found ')'"},
      {"(a", 3, "expected ')', found the end"},
      {"ceildiv(a)", 1, "ceildiv takes two arguments, found 1"},
      {"1 + min(a)", 5, "min takes two or more arguments, found 1"},
      {"mod()", 1, "mod takes two arguments, found 0"},
      {"mod(a, 0)", 8, "the divisor of mod must be a positive constant"},
      {"mod(a, -1)", 8, "the divisor of mod must be a positive constant"},
      {"floordiv(a, b)", 13, "the divisor of floordiv must be a positive constant"},
      {"gcd(a, b)", 1, "unknown function gcd"},
      {"2 + 1099511627777", 5, "the number is larger than 1099511627776"},
      {"99999999999999999999999", 1, "the number is larger"},
      {"1099511627776*1099511627776", 28, "the expression is too large"},
      {deep, 66, "nested deeper than 64 levels"},
      {"a\x01", 2, "found byte 0x01"},
      {"a / b", 3, "found '/'"},
  };
  for (const auto& [text, character, message] : cases) {
    const auto e = SymExpr::parse(text, Location::of_text("f.gm", 3, 10));
    ASSERT_FALSE(e) << text;
    EXPECT_EQ(e.error().code, Code::sym_syntax);
    EXPECT_EQ(e.error().location, Location::of_text("f.gm", 3, 9 + character)) << text;
    EXPECT_NE(e.error().message.find(message), std::string::npos) << e.error().message;
    EXPECT_NE(e.error().message.find(fmt::format(", at character {} of", character)),
              std::string::npos)
        << e.error().message;
  }
  EXPECT_TRUE(SymExpr::parse(std::string(1'000'001, '-') + "x"));
  EXPECT_TRUE(SymExpr::parse("1099511627776"));
}

TEST(Sym, HostileTextStaysCheap) {
  std::string power = "(a+b+c+d+e+f+g+h)", arms = "min(a0";
  for (int i = 0; i < 60; ++i) power += "*(a+b+c+d+e+f+g+h)";
  for (int i = 1; i < 200; ++i) arms += fmt::format(", a{}", i);
  for (const std::string& text : {power, arms + ")"}) {
    const auto e = SymExpr::parse(text);
    ASSERT_FALSE(e);
    EXPECT_NE(e.error().message.find("the expression is too large"), std::string::npos);
  }
}

TEST(SymDeathTest, TablesRefuseWhatParsersMustCheck) {
  SymTable table;
  table.declare({"x"});
  EXPECT_EXIT(table.declare({"x"}), ::testing::ExitedWithCode(70), "x is declared twice");
  EXPECT_EXIT(SymTable().pop(), ::testing::ExitedWithCode(70), "no symbol");
  EXPECT_EXIT(SymExpr::mod(s("x"), 0), ::testing::ExitedWithCode(70), "mod of x by 0");
}

}  // namespace
}  // namespace gm
