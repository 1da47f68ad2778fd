// The inside of SymExpr, shared by sym*.cpp only. A node is a polynomial: terms sorted by monomial,
// each once, no zero coefficient. An atom is a symbol or an opaque function of canonical arguments.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/sym.h"

namespace gm {

enum class AtomKind : uint8_t { symbol, ceildiv, floordiv, mod, min, max };

struct Atom {
  AtomKind kind;
  std::string name;           // symbol
  std::vector<SymExpr> args;  // one for the divisions; two or more, sorted, for min and max
  int64_t divisor = 0;        // the divisions
};
using AtomRef = std::shared_ptr<const Atom>;
using Monomial = std::vector<AtomRef>;  // sorted, with repetitions; empty for the constant term

struct Term {
  Monomial monomial;
  int64_t coefficient;
};

struct SymExpr::Node {
  std::vector<Term> terms;
  bool too_large = false;  // see SymExpr::too_large(); terms is empty
};

struct SymAccess {
  static const SymExpr::Node& node(const SymExpr& e) { return *e.node_; }
  static SymExpr make(SymExpr::Node node) {
    return SymExpr(std::make_shared<const SymExpr::Node>(std::move(node)));
  }
};

namespace sym {

std::strong_ordering compare(const Atom& a, const Atom& b);
std::strong_ordering compare(const Monomial& a, const Monomial& b);

inline const std::vector<Term>& terms(const SymExpr& e) { return SymAccess::node(e).terms; }
// Sorts and merges; too_large if a coefficient leaves int64 or a limit on the size is passed.
SymExpr from_terms(std::vector<Term> terms);
SymExpr too_large();
// The only atom of an expression that is just this atom, else null.
const Atom* sole_atom(const SymExpr& e);
// The function of `atom` applied to other arguments, simplified anew.
SymExpr apply(const Atom& atom, const std::vector<SymExpr>& args);
// Every atom of the polynomial replaced; `f` sees atoms with their arguments unchanged.
SymExpr map_atoms(const SymExpr& e, const std::function<SymExpr(const AtomRef&)>& f);
void visit_symbols(const SymExpr& e, const std::function<void(const std::string&)>& f);

// Rounding towards minus and plus infinity; b > 0.
inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
inline int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }
inline int64_t floor_mod(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

}  // namespace sym
}  // namespace gm
