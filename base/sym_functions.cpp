// The opaque functions of symbolic expressions and what simplifies in them.
#include <algorithm>
#include <numeric>

#include "base/sym_node.h"

namespace gm {
namespace {

using sym::ceil_div;
using sym::floor_div;
using sym::floor_mod;
using sym::from_terms;
using sym::terms;

constexpr size_t kMaxArms = 64;

SymExpr of_atom(Atom atom) {
  return SymAccess::make({{{{std::make_shared<const Atom>(std::move(atom))}, 1}}, false});
}

// x = divisor * whole + part, where `part` keeps the terms that `divisor` does not divide and a
// constant in [0, divisor): whole can leave the function.
struct Split {
  SymExpr whole;
  SymExpr part;
  int64_t part_constant;
};

Split split(const SymExpr& x, int64_t divisor) {
  std::vector<Term> whole, part;
  int64_t part_constant = 0;
  for (const Term& term : terms(x)) {
    if (term.monomial.empty()) {
      part_constant = floor_mod(term.coefficient, divisor);
      whole.push_back({{}, floor_div(term.coefficient, divisor)});
      if (part_constant != 0) part.push_back({{}, part_constant});
    } else if (term.coefficient % divisor == 0) {
      whole.push_back({term.monomial, term.coefficient / divisor});
    } else {
      part.push_back(term);
    }
  }
  return {from_terms(std::move(whole)), from_terms(std::move(part)), part_constant};
}

// The greatest divisor of `divisor` that divides every coefficient but the constant one.
int64_t common_divisor(const SymExpr& x, int64_t divisor) {
  int64_t common = divisor;
  for (const Term& term : terms(x)) {
    if (!term.monomial.empty()) common = std::gcd(common, term.coefficient % divisor);
  }
  return common;
}

// x with every coefficient divided by `by`; the constant is given.
SymExpr divided(const SymExpr& x, int64_t by, int64_t constant) {
  std::vector<Term> result;
  for (const Term& term : terms(x)) {
    if (!term.monomial.empty()) result.push_back({term.monomial, term.coefficient / by});
  }
  result.push_back({{}, constant});
  return from_terms(std::move(result));
}

// If x is one function of `kind` plus a constant: the function.
const Atom* atom_plus_constant(const SymExpr& x, AtomKind kind) {
  const Atom* found = nullptr;
  for (const Term& term : terms(x)) {
    if (term.monomial.empty()) continue;
    if (found != nullptr || term.coefficient != 1 || term.monomial.size() != 1) return nullptr;
    found = term.monomial[0].get();
  }
  return found != nullptr && found->kind == kind ? found : nullptr;
}

// Bounds that follow without knowing any symbol: those of a sum of mods.
struct Bounds {
  int64_t lo, hi;
};
std::optional<Bounds> mod_sum_bounds(const SymExpr& x) {
  Bounds bounds{0, 0};
  for (const Term& term : terms(x)) {
    int64_t extent = 1;
    if (!term.monomial.empty()) {
      if (term.monomial.size() != 1 || term.monomial[0]->kind != AtomKind::mod) return std::nullopt;
      extent = term.monomial[0]->divisor - 1;
    }
    int64_t reach = 0;
    if (__builtin_mul_overflow(term.coefficient, extent, &reach)) return std::nullopt;
    if (term.monomial.empty() || reach < 0) {
      if (__builtin_add_overflow(bounds.lo, reach, &bounds.lo)) return std::nullopt;
    }
    if (term.monomial.empty() || reach > 0) {
      if (__builtin_add_overflow(bounds.hi, reach, &bounds.hi)) return std::nullopt;
    }
  }
  return bounds;
}

SymExpr divide(const SymExpr& x, int64_t divisor, AtomKind kind) {
  GM_CHECK(divisor > 0, "division of {} by {}", x.to_string(), divisor);
  if (x.is_too_large()) return x;
  if (divisor == 1) return x;
  const bool up = kind == AtomKind::ceildiv;
  const auto rounded = [&](int64_t a, int64_t b) { return up ? ceil_div(a, b) : floor_div(a, b); };

  Split parts = split(x, divisor);
  if (const auto constant = parts.part.constant()) {
    return parts.whole + rounded(*constant, divisor);
  }
  if (const int64_t common = common_divisor(parts.part, divisor); common > 1) {
    const int64_t constant = rounded(parts.part_constant, common);
    return parts.whole + divide(divided(parts.part, common, constant), divisor / common, kind);
  }
  if (const auto bounds = mod_sum_bounds(parts.part)) {
    const int64_t value = rounded(bounds->lo, divisor);
    if (value == rounded(bounds->hi, divisor)) return parts.whole + value;
  }
  // floordiv(floordiv(y, a) + k, b) = floordiv(y + k*a, a*b), and the same upwards.
  if (const Atom* inner = atom_plus_constant(parts.part, kind)) {
    int64_t product = 0, shift = 0;
    if (!__builtin_mul_overflow(inner->divisor, divisor, &product) &&
        !__builtin_mul_overflow(inner->divisor, parts.part_constant, &shift)) {
      return parts.whole + divide(inner->args[0] + shift, product, kind);
    }
  }
  return parts.whole + of_atom({kind, {}, {std::move(parts.part)}, divisor});
}

// min or max over all arms: nested ones flattened; of arms that differ by a constant only the
// deciding one stays.
SymExpr extremum(const std::vector<SymExpr>& given, AtomKind kind) {
  std::vector<SymExpr> flat;
  for (const SymExpr& arm : given) {
    if (arm.is_too_large()) return arm;
    const Atom* atom = sym::sole_atom(arm);
    if (atom != nullptr && atom->kind == kind) {
      flat.insert(flat.end(), atom->args.begin(), atom->args.end());
    } else {
      flat.push_back(arm);
    }
  }
  std::vector<SymExpr> kept;
  for (const SymExpr& arm : flat) {
    bool decided = false;
    for (SymExpr& other : kept) {
      const std::optional<int64_t> difference = (arm - other).constant();
      if (!difference) continue;
      if (kind == AtomKind::min ? *difference < 0 : *difference > 0) other = arm;
      decided = true;
      break;
    }
    if (!decided) kept.push_back(arm);
  }
  if (kept.size() == 1) return kept[0];
  if (kept.size() > kMaxArms) return sym::too_large();
  std::sort(kept.begin(), kept.end());
  return of_atom({kind, {}, std::move(kept), 0});
}

}  // namespace

SymExpr SymExpr::ceildiv(const SymExpr& a, int64_t b) { return divide(a, b, AtomKind::ceildiv); }
SymExpr SymExpr::floordiv(const SymExpr& a, int64_t b) { return divide(a, b, AtomKind::floordiv); }

SymExpr SymExpr::mod(const SymExpr& a, int64_t b) {
  GM_CHECK(b > 0, "mod of {} by {}", a.to_string(), b);
  if (a.is_too_large()) return a;
  SymExpr part = split(a, b).part;
  // A mod inside, of a multiple of b, changes nothing.
  for (const Term& term : terms(part)) {
    if (term.monomial.size() != 1) continue;
    const Atom& inner = *term.monomial[0];
    if (inner.kind != AtomKind::mod || inner.divisor % b != 0) continue;
    std::vector<Term> rest;
    for (const Term& other : terms(part)) {
      if (&other != &term) rest.push_back(other);
    }
    return mod(from_terms(std::move(rest)) + SymExpr(term.coefficient) * inner.args[0], b);
  }
  const int64_t constant = split(a, b).part_constant;
  if (part.constant()) return constant;
  if (const int64_t common = common_divisor(part, b); common > 1) {
    return SymExpr(common) * mod(divided(part, common, floor_div(constant, common)), b / common) +
           constant % common;
  }
  if (const auto bounds = mod_sum_bounds(part); bounds && bounds->lo >= 0 && bounds->hi < b) {
    return part;
  }
  return of_atom({AtomKind::mod, {}, {std::move(part)}, b});
}

SymExpr SymExpr::min(const SymExpr& a, const SymExpr& b) { return extremum({a, b}, AtomKind::min); }
SymExpr SymExpr::max(const SymExpr& a, const SymExpr& b) { return extremum({a, b}, AtomKind::max); }

SymExpr sym::apply(const Atom& atom, const std::vector<SymExpr>& args) {
  switch (atom.kind) {
    case AtomKind::symbol:
      return SymExpr::symbol(atom.name);
    case AtomKind::ceildiv:
      return SymExpr::ceildiv(args.at(0), atom.divisor);
    case AtomKind::floordiv:
      return SymExpr::floordiv(args.at(0), atom.divisor);
    case AtomKind::mod:
      return SymExpr::mod(args.at(0), atom.divisor);
    case AtomKind::min:
    case AtomKind::max:
      return extremum(args, atom.kind);
  }
  GM_CHECK(false, "atom kind {}", static_cast<int>(atom.kind));
}

}  // namespace gm
