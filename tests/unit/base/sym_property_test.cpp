// Random expressions over small domains against brute force.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "base/sym.h"

namespace gm {
namespace {

using Values = std::map<std::string, int64_t, std::less<>>;
using Naive = std::function<int64_t(const Values&)>;

// An expression and, built beside it without any simplification, what it must evaluate to.
struct Pair {
  SymExpr e;
  Naive value;
};

int64_t floor_by_search(int64_t a, int64_t b) {
  int64_t q = a / b - 2;
  while ((q + 1) * b <= a) ++q;
  return q;
}

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  int64_t pick(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random_() % static_cast<uint64_t>(hi - lo + 1));
  }

  Pair any(int depth, const std::vector<std::string>& names) {
    const int64_t kind = depth == 0 ? pick(0, 2) : pick(0, 11);
    if (kind == 0 || names.empty()) {
      const int64_t c = pick(-9, 9);
      return {c, [c](const Values&) { return c; }};
    }
    if (kind <= 2) {
      const std::string name =
          names[static_cast<size_t>(pick(0, static_cast<int64_t>(names.size()) - 1))];
      return {SymExpr::symbol(name), [name](const Values& v) { return v.at(name); }};
    }
    const Pair a = any(depth - 1, names);
    if (kind <= 5 && kind >= 4) {
      const int64_t c = pick(-6, 6);
      return {c * a.e, [a, c](const Values& v) { return c * a.value(v); }};
    }
    if (kind >= 6 && kind <= 8) {
      constexpr int64_t kDivisors[] = {1, 2, 3, 4, 8, 12};
      const int64_t d = kDivisors[pick(0, 5)];
      if (kind == 6)
        return {SymExpr::floordiv(a.e, d),
                [a, d](const Values& v) { return floor_by_search(a.value(v), d); }};
      if (kind == 7)
        return {SymExpr::ceildiv(a.e, d),
                [a, d](const Values& v) { return -floor_by_search(-a.value(v), d); }};
      return {SymExpr::mod(a.e, d),
              [a, d](const Values& v) { return a.value(v) - d * floor_by_search(a.value(v), d); }};
    }
    const Pair b = any(depth - 1, names);
    switch (kind) {
      case 3:
        return {a.e * b.e, [a, b](const Values& v) { return a.value(v) * b.value(v); }};
      case 9:
        return {SymExpr::min(a.e, b.e),
                [a, b](const Values& v) { return std::min(a.value(v), b.value(v)); }};
      case 10:
        return {SymExpr::max(a.e, b.e),
                [a, b](const Values& v) { return std::max(a.value(v), b.value(v)); }};
      default:
        return {a.e - b.e, [a, b](const Values& v) { return a.value(v) - b.value(v); }};
    }
  }

  std::mt19937& random() { return random_; }

 private:
  std::mt19937 random_;
};

const std::vector<std::string> kNames = {"x", "y", "z"};

// All assignments within the declared ranges.
std::vector<Values> domain_of(const SymTable& table) {
  std::vector<Values> all = {{}};
  for (const SymInfo& info : table.symbols()) {
    std::vector<Values> next;
    for (const Values& outer : all) {
      for (int64_t v = *info.lo.evaluate(outer); v <= *info.hi->evaluate(outer); ++v) {
        if (v % info.multiple_of != 0) continue;
        Values inner = outer;
        inner[info.name] = v;
        next.push_back(std::move(inner));
      }
    }
    all = std::move(next);
  }
  return all;
}

SymTable random_table(Generator& g) {
  SymTable table;
  std::vector<std::string> before;
  for (const std::string& name : kNames) {
    SymInfo info{name};
    const int64_t lo = g.pick(-4, 4);
    info.lo = lo;
    info.hi = lo + g.pick(0, 9);
    // Inner symbols get bounds over outer ones, of the kinds that tiling makes, and also wild ones.
    if (!before.empty() && g.pick(0, 2) == 0) info.hi = SymExpr::min(*info.hi, g.any(1, before).e);
    if (!before.empty() && g.pick(0, 4) == 0) info.lo = SymExpr::max(info.lo, g.any(1, before).e);
    if (g.pick(0, 3) == 0) info.multiple_of = g.pick(1, 4);
    table.declare(std::move(info));
    before.push_back(name);
  }
  return table;
}

TEST(SymProperty, SimplifiedValuesAreTheNaiveOnes) {
  Generator g(1);
  for (int i = 0; i < 20'000; ++i) {
    const Pair p = g.any(4, kNames);
    for (int j = 0; j < 20; ++j) {
      const Values values = {{"x", g.pick(-40, 40)}, {"y", g.pick(-40, 40)}, {"z", g.pick(-5, 5)}};
      ASSERT_EQ(p.e.evaluate(values), p.value(values)) << p.e.to_string();
    }
  }
}

TEST(SymProperty, TextRoundTrips) {
  Generator g(2);
  for (int i = 0; i < 20'000; ++i) {
    const SymExpr e = g.any(5, kNames).e;
    const auto back = SymExpr::parse(e.to_string());
    ASSERT_TRUE(back) << back.error().to_string();
    ASSERT_EQ(*back, e) << e.to_string();
    ASSERT_EQ(back->to_string(), e.to_string());
  }
}

TEST(SymProperty, OrderOfConstructionDoesNotMatter) {
  Generator g(3);
  for (int i = 0; i < 5'000; ++i) {
    std::vector<SymExpr> parts;
    for (int j = 0; j < 6; ++j) parts.push_back(g.any(2, kNames).e);
    SymExpr sum, product = 1, least = parts[0], greatest = parts[0];
    for (const SymExpr& p : parts) {
      sum = sum + p;
      product = product * p;
      least = SymExpr::min(least, p);
      greatest = SymExpr::max(greatest, p);
    }
    std::shuffle(parts.begin(), parts.end(), g.random());
    SymExpr sum2, product2 = 1, least2 = parts[0], greatest2 = parts[0];
    for (const SymExpr& p : parts) {
      sum2 = p + sum2;
      product2 = p * product2;
      least2 = SymExpr::min(p, least2);
      greatest2 = SymExpr::max(p, greatest2);
    }
    ASSERT_EQ(sum, sum2);
    ASSERT_EQ(product, product2);
    ASSERT_EQ(least, least2);
    ASSERT_EQ(greatest, greatest2);
    ASSERT_EQ(sum.to_string(), sum2.to_string());
  }
}

TEST(SymProperty, TheOrderIsTotal) {
  Generator g(4);
  std::vector<SymExpr> all;
  for (int i = 0; i < 60; ++i) all.push_back(g.any(3, kNames).e);
  for (const SymExpr& a : all) {
    for (const SymExpr& b : all) {
      ASSERT_EQ(a == b, a.to_string() == b.to_string());
      ASSERT_EQ((a <=> b) < 0, (b <=> a) > 0);
      for (const SymExpr& c : all) {
        if (a < b && b < c) {
          ASSERT_LT(a, c);
        }
      }
    }
  }
}

TEST(SymProperty, AnswersAreNeverWrong) {
  Generator g(5);
  int answers = 0, questions = 0;
  for (int i = 0; i < 1'500; ++i) {
    const SymTable table = random_table(g);
    const std::vector<Values> domain = domain_of(table);
    if (domain.empty()) continue;
    for (int j = 0; j < 6; ++j) {
      const SymExpr a = g.any(3, kNames).e, b = g.any(3, kNames).e;
      const int64_t k = g.pick(1, 6);
      int equal = 0, le = 0, lt = 0, divides = 0;
      int64_t least = INT64_MAX, greatest = INT64_MIN;
      for (const Values& values : domain) {
        const int64_t va = *a.evaluate(values), vb = *b.evaluate(values);
        equal += va == vb;
        le += va <= vb;
        lt += va < vb;
        divides += va % k == 0;
        least = std::min(least, va);
        greatest = std::max(greatest, va);
      }
      const auto check = [&](Truth truth, int count, const char* what) {
        ++questions;
        answers += truth != Truth::unknown;
        if (truth == Truth::yes) {
          ASSERT_EQ(count, static_cast<int>(domain.size())) << what;
        }
        if (truth == Truth::no) {
          ASSERT_EQ(count, 0) << what;
        }
      };
      SCOPED_TRACE(a.to_string() + "   and   " + b.to_string());
      check(table.provably_equal(a, b), equal, "equal");
      check(table.provably_le(a, b), le, "le");
      check(table.provably_lt(a, b), lt, "lt");
      check(table.divides(k, a), divides, "divides");
      const SymRange range = table.range(a);
      if (range.lo) {
        ASSERT_LE(*range.lo, least);
      }
      if (range.hi) {
        ASSERT_GE(*range.hi, greatest);
      }
      ASSERT_TRUE(range.lo && range.hi) << "every symbol here is bounded";
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  // A prover that always says `unknown` is never wrong either.
  EXPECT_GT(answers * 2, questions);
}

// Tilings with random extents and widths: the proofs that kernels need must all come out.
TEST(SymProperty, TilingsAreProven) {
  Generator g(6);
  for (int i = 0; i < 200; ++i) {
    const int64_t width = g.pick(1, 256), inner = g.pick(1, 16);
    const SymExpr n = SymExpr::symbol("n"), tile = SymExpr::symbol("tile"),
                  sub = SymExpr::symbol("sub"), at = SymExpr::symbol("at");
    SymTable table;
    SymInfo extent{"n", SymRole::tokens, 1, std::nullopt};
    if (g.pick(0, 1) == 0) extent.hi = g.pick(1, 9000);
    table.declare(extent);
    table.declare({"tile", SymRole::loop, 0, SymExpr::ceildiv(n, width * inner) - 1});
    const SymExpr left = SymExpr::min(width * inner, n - width * inner * tile);
    table.declare({"sub", SymRole::loop, 0, SymExpr::ceildiv(left, inner) - 1});
    table.declare({"at", SymRole::loop, 0, SymExpr::min(inner, left - inner * sub) - 1});
    const SymExpr index = width * inner * tile + inner * sub + at;
    ASSERT_EQ(table.provably_lt(index, n), Truth::yes) << width << " " << inner;
    ASSERT_EQ(table.provably_le(0, index), Truth::yes);
    ASSERT_EQ(table.provably_lt(inner * sub + at, width * inner), Truth::yes);
  }
}

}  // namespace
}  // namespace gm
