#include <algorithm>
#include <numeric>

#include "base/sym_node.h"
#include "base/sym_prover.h"

namespace gm {

void SymTable::declare(SymInfo info) {
  GM_CHECK(find(info.name) == nullptr, "symbol {} is declared twice", info.name);
  GM_CHECK(info.multiple_of > 0, "symbol {} is a multiple of {}", info.name, info.multiple_of);
  symbols_.push_back(std::move(info));
}

void SymTable::pop() {
  GM_CHECK(!symbols_.empty(), "no symbol to take back");
  symbols_.pop_back();
}

const SymInfo* SymTable::find(std::string_view name) const {
  for (const SymInfo& info : symbols_) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

SymRange SymTable::range(const SymExpr& e) const {
  const SymProver prover(symbols_);
  const SymExpr scaled = prover.prepare(e);
  return {prover.lower(scaled), prover.upper(scaled)};
}

Truth SymTable::divides(int64_t k, const SymExpr& e) const {
  GM_CHECK(k > 0, "divisibility by {}", k);
  const SymProver prover(symbols_);
  const SymExpr rest = SymExpr::mod(prover.prepare(e), k);
  const std::optional<int64_t> hi = prover.upper(rest);
  if (hi && *hi <= 0) return Truth::yes;
  const std::optional<int64_t> lo = prover.lower(rest);
  if (lo && *lo > 0) return Truth::no;
  return Truth::unknown;
}

Truth SymTable::provably_equal(const SymExpr& a, const SymExpr& b) const {
  const SymProver prover(symbols_);
  const SymExpr difference = prover.prepare(a - b);
  if (difference.is_too_large()) return Truth::unknown;
  if (prover.expand_mods(difference) == SymExpr(0)) return Truth::yes;
  // 4*x + 2*y + 1 is never 0.
  int64_t common = 0, constant = 0;
  for (const Term& term : sym::terms(difference)) {
    if (term.monomial.empty()) {
      constant = term.coefficient;
    } else if (term.coefficient !=
               INT64_MIN) {  // it has no gcd in int64; without it the answer is `unknown` at worst
      common = std::gcd(common, term.coefficient);
    } else {
      common = 1;
    }
  }
  if (common > 1 && constant % common != 0) return Truth::no;
  const std::optional<int64_t> lo = prover.lower(difference);
  const std::optional<int64_t> hi = prover.upper(difference);
  if (lo && hi && *lo >= 0 && *hi <= 0) return Truth::yes;
  if ((lo && *lo > 0) || (hi && *hi < 0)) return Truth::no;
  return Truth::unknown;
}

Truth SymTable::provably_le(const SymExpr& a, const SymExpr& b) const {
  const SymProver prover(symbols_);
  const SymExpr difference = prover.prepare(b - a);
  if (const std::optional<int64_t> lo = prover.lower(difference); lo && *lo >= 0) return Truth::yes;
  if (const std::optional<int64_t> hi = prover.upper(difference); hi && *hi < 0) return Truth::no;
  return Truth::unknown;
}

}  // namespace gm
