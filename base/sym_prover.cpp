#include "base/sym_prover.h"

#include <algorithm>
#include <numeric>

namespace gm {
namespace {

using sym::ceil_div;
using sym::floor_div;
using sym::floor_mod;
using sym::from_terms;
using sym::terms;

// Proofs of real kernels take a few dozen steps; the limits keep crafted expressions cheap.
constexpr int kMaxSteps = 400;
constexpr int kMaxDepth = 40;
constexpr size_t kMaxSearchedTerms = 128;  // larger sums get their interval only
constexpr int kMaxExpandedNesting = 4;     // each level of an expanded mod doubles the expression

using End = std::optional<int64_t>;

End best_lower(End a, End b) {
  if (!a || !b) return a ? a : b;
  return std::max(*a, *b);
}

// Ends of intervals as wide integers, so that sums and products of int64 are exact; +-kInfinity
// stands for no end.
using Wide = __int128;
constexpr Wide kInfinity = Wide{1} << 100;

struct WideRange {
  Wide lo, hi;
};

// Back within what `Wide` products can hold. Rounding outwards keeps the interval true.
WideRange clamp(WideRange r) {
  if (r.lo < INT64_MIN) r.lo = -kInfinity;
  if (r.lo > INT64_MAX) r.lo = INT64_MAX;
  if (r.hi > INT64_MAX) r.hi = kInfinity;
  if (r.hi < INT64_MIN) r.hi = INT64_MIN;
  return r;
}

WideRange widen(const SymRange& r) { return {r.lo ? *r.lo : -kInfinity, r.hi ? *r.hi : kInfinity}; }

SymRange narrow(const WideRange& r) {
  SymRange result;
  if (r.lo > -kInfinity) result.lo = static_cast<int64_t>(r.lo);
  if (r.hi < kInfinity) result.hi = static_cast<int64_t>(r.hi);
  return result;
}

Wide times(Wide a, Wide b) {
  if (a == 0 || b == 0) return 0;
  const bool infinite = a >= kInfinity || a <= -kInfinity || b >= kInfinity || b <= -kInfinity;
  if (infinite) return (a > 0) == (b > 0) ? kInfinity : -kInfinity;
  const Wide product = a * b;  // both are int64
  return std::clamp(product, -kInfinity, kInfinity);
}

WideRange times(const WideRange& a, const WideRange& b) {
  const Wide corners[] = {times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo),
                          times(a.hi, b.hi)};
  return clamp({*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)});
}

WideRange plus(const WideRange& a, const WideRange& b) {
  const auto sum = [](Wide x, Wide y, Wide infinity) {
    return x == infinity || y == infinity ? infinity : x + y;
  };
  return clamp({sum(a.lo, b.lo, -kInfinity), sum(a.hi, b.hi, kInfinity)});
}

SymExpr without_ceildiv(const SymExpr& e) {
  return sym::map_atoms(e, [](const AtomRef& atom) -> SymExpr {
    if (atom->kind == AtomKind::symbol) return SymExpr::symbol(atom->name);
    std::vector<SymExpr> args;
    for (const SymExpr& arg : atom->args) args.push_back(without_ceildiv(arg));
    if (atom->kind != AtomKind::ceildiv) return sym::apply(*atom, args);
    return SymExpr::floordiv(args[0] + (atom->divisor - 1), atom->divisor);
  });
}

// How deep mods stand inside each other; 0 without any.
int mod_nesting(const SymExpr& e) {
  int deepest = 0;
  for (const Term& term : terms(e)) {
    for (const AtomRef& atom : term.monomial) {
      const int here = atom->kind == AtomKind::mod ? 1 : 0;
      for (const SymExpr& arg : atom->args) deepest = std::max(deepest, here + mod_nesting(arg));
    }
  }
  return deepest;
}

SymExpr negated(const SymExpr& e) { return SymExpr(-1) * e; }

End negated(End value) {
  if (!value || *value == INT64_MIN) return std::nullopt;
  return -*value;
}

}  // namespace

struct SymProver::Search {
  int steps = kMaxSteps;
};

// e = factor * atom + rest.
struct SymProver::Target {
  AtomRef atom;
  int rank;
  SymExpr factor, rest;
};

SymProver::SymProver(std::span<const SymInfo> symbols) {
  for (const SymInfo& info : symbols) {
    if (info.multiple_of > 1) {
      scaling_.emplace(info.name, SymExpr(info.multiple_of) * SymExpr::symbol(info.name));
    }
  }
  for (const SymInfo& info : symbols) {
    Declared d{info.name, prepare(info.lo), std::nullopt, {}};
    if (info.hi) d.hi = prepare(*info.hi);
    if (info.multiple_of > 1) {
      d.lo = SymExpr::floordiv(d.lo + (info.multiple_of - 1), info.multiple_of);
      if (d.hi) d.hi = SymExpr::floordiv(*d.hi, info.multiple_of);
    }
    // Only the symbols before this one are in declared_ yet, so a bound over later ones is no
    // bound.
    d.range.lo = interval(d.lo).lo;
    if (d.hi) d.range.hi = interval(*d.hi).hi;
    declared_.push_back(std::move(d));
  }
}

SymExpr SymProver::prepare(const SymExpr& e) const {
  return without_ceildiv(scaling_.empty() ? e : e.substitute(scaling_));
}

SymExpr SymProver::expand_mods(const SymExpr& e) const {
  if (mod_nesting(e) > kMaxExpandedNesting) return e;
  return sym::map_atoms(e, [this](const AtomRef& atom) -> SymExpr {
    if (atom->kind == AtomKind::symbol) return SymExpr::symbol(atom->name);
    std::vector<SymExpr> args;
    for (const SymExpr& arg : atom->args) args.push_back(expand_mods(arg));
    if (atom->kind != AtomKind::mod) return sym::apply(*atom, args);
    return args[0] - SymExpr(atom->divisor) * SymExpr::floordiv(args[0], atom->divisor);
  });
}

int SymProver::index_of(std::string_view name) const {
  for (size_t i = 0; i < declared_.size(); ++i) {
    if (declared_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int SymProver::rank_of(const Atom& atom) const {
  if (atom.kind == AtomKind::symbol) return index_of(atom.name);
  int rank = -1;
  for (const SymExpr& arg : atom.args) {
    sym::visit_symbols(arg,
                       [&](const std::string& name) { rank = std::max(rank, index_of(name)); });
  }
  return rank;
}

SymRange SymProver::interval(const Atom& atom) const {
  if (atom.kind == AtomKind::symbol) {
    const int index = index_of(atom.name);
    return index < 0 ? SymRange{} : declared_[static_cast<size_t>(index)].range;
  }
  const SymRange first = interval(atom.args[0]);
  const int64_t c = atom.divisor;
  switch (atom.kind) {
    case AtomKind::ceildiv:
      return {first.lo ? End(ceil_div(*first.lo, c)) : End(),
              first.hi ? End(ceil_div(*first.hi, c)) : End()};
    case AtomKind::floordiv:
      return {first.lo ? End(floor_div(*first.lo, c)) : End(),
              first.hi ? End(floor_div(*first.hi, c)) : End()};
    case AtomKind::mod:
      if (first.lo && first.hi && floor_div(*first.lo, c) == floor_div(*first.hi, c)) {
        return {floor_mod(*first.lo, c), floor_mod(*first.hi, c)};
      }
      return {0, c - 1};
    default:
      break;
  }
  WideRange range = widen(first);
  for (size_t i = 1; i < atom.args.size(); ++i) {
    const WideRange next = widen(interval(atom.args[i]));
    if (atom.kind == AtomKind::min) {
      range = {std::min(range.lo, next.lo), std::min(range.hi, next.hi)};
    } else {
      range = {std::max(range.lo, next.lo), std::max(range.hi, next.hi)};
    }
  }
  return narrow(range);
}

SymRange SymProver::interval(const SymExpr& e) const {
  if (e.is_too_large()) return {};
  WideRange sum{0, 0};
  for (const Term& term : terms(e)) {
    WideRange product{term.coefficient, term.coefficient};
    for (size_t i = 0; i < term.monomial.size();) {
      const WideRange factor = widen(interval(*term.monomial[i]));
      WideRange power = factor;
      size_t next = i + 1;
      for (; next < term.monomial.size() &&
             sym::compare(*term.monomial[next], *term.monomial[i]) == 0;
           ++next) {
        power = times(power, factor);
      }
      if ((next - i) % 2 == 0) power.lo = std::max<Wide>(power.lo, 0);  // a square
      product = times(product, power);
      i = next;
    }
    sum = plus(sum, product);
  }
  return narrow(sum);
}

std::vector<SymProver::Target> SymProver::targets(const SymExpr& e) const {
  std::vector<AtomRef> atoms;
  for (const Term& term : terms(e))
    atoms.insert(atoms.end(), term.monomial.begin(), term.monomial.end());
  const auto before = [](const AtomRef& a, const AtomRef& b) { return sym::compare(*a, *b) < 0; };
  const auto same = [](const AtomRef& a, const AtomRef& b) { return sym::compare(*a, *b) == 0; };
  std::sort(atoms.begin(), atoms.end(), before);
  atoms.erase(std::unique(atoms.begin(), atoms.end(), same), atoms.end());

  std::vector<Target> found;
  for (const AtomRef& atom : atoms) {
    const int rank = rank_of(*atom);
    if (atom->kind == AtomKind::symbol && rank < 0) continue;
    std::vector<Term> factor, rest;
    for (const Term& term : terms(e)) {
      const auto at = std::find_if(term.monomial.begin(), term.monomial.end(),
                                   [&](const AtomRef& a) { return same(a, atom); });
      if (at == term.monomial.end()) {
        rest.push_back(term);
        continue;
      }
      Term& left = factor.emplace_back(term);
      left.monomial.erase(left.monomial.begin() + (at - term.monomial.begin()));
    }
    found.push_back({atom, rank, from_terms(std::move(factor)), from_terms(std::move(rest))});
  }
  // Innermost first: bounds of inner symbols speak of outer ones. Functions go before the symbols
  // inside them.
  std::stable_sort(found.begin(), found.end(), [](const Target& a, const Target& b) {
    if (a.rank != b.rank) return a.rank > b.rank;
    return a.atom->kind != AtomKind::symbol && b.atom->kind == AtomKind::symbol;
  });
  return found;
}

std::optional<int64_t> SymProver::lower(const SymExpr& e) const {
  Search search;
  End result = lower(e, search, 0);
  if (mod_nesting(e) > 0) {
    Search again;
    result = best_lower(result, lower(expand_mods(e), again, 0));
  }
  return result;
}

std::optional<int64_t> SymProver::upper(const SymExpr& e) const {
  return negated(lower(negated(e)));
}

std::optional<int64_t> SymProver::lower(const SymExpr& e, Search& search, int depth) const {
  if (const auto constant = e.constant()) return constant;
  End best = interval(e).lo;
  if (depth > kMaxDepth || terms(e).size() > kMaxSearchedTerms) return best;
  for (const Target& target : targets(e)) {
    if (--search.steps < 0) break;
    bool applicable = true;
    best = best_lower(best, eliminate(target, search, depth + 1, applicable));
    if (applicable) break;
  }
  return best;
}

std::optional<int64_t> SymProver::eliminate(const Target& target, Search& search, int depth,
                                            bool& applicable) const {
  const auto& [atom, rank, factor, rest] = target;
  const SymRange sign = interval(factor);
  const bool positive = sign.lo && *sign.lo >= 0;
  const bool negative = !positive && sign.hi && *sign.hi <= 0;
  const auto with = [&](const SymExpr& value) {
    return lower(rest + factor * value, search, depth);
  };

  if (atom->kind == AtomKind::min || atom->kind == AtomKind::max) {
    // It is one of its arms, so the worst arm bounds it; where it pulls the right way, any arm
    // does.
    const bool any = atom->kind == AtomKind::min ? negative : positive;
    End result;
    for (size_t i = 0; i < atom->args.size(); ++i) {
      const End arm = with(atom->args[i]);
      if (any) {
        result = best_lower(result, arm);
      } else if (!arm) {
        return std::nullopt;
      } else {
        result = i == 0 ? arm : std::min(result, arm);
      }
    }
    return result;
  }

  if (!positive && !negative) {
    applicable = false;
    return std::nullopt;
  }
  if (atom->kind == AtomKind::symbol) {
    const Declared& symbol = declared_[static_cast<size_t>(rank)];
    const std::optional<SymExpr>& bound = positive ? std::optional(symbol.lo) : symbol.hi;
    // A bound over itself or later symbols says nothing, and following it could go in circles.
    bool known = bound.has_value();
    if (known) {
      sym::visit_symbols(*bound, [&](const std::string& name) { known &= index_of(name) < rank; });
    }
    if (!known) {
      applicable = false;
      return std::nullopt;
    }
    return with(*bound);
  }

  End result;
  if (atom->kind == AtomKind::floordiv) {
    // x - c + 1 <= c*floordiv(x, c) <= x, after scaling everything so that c divides the factor.
    const int64_t c = atom->divisor;
    int64_t common = c;
    for (const Term& term : terms(factor)) common = std::gcd(common, term.coefficient % c);
    const int64_t scale = c / common;
    std::vector<Term> divided = terms(factor);
    for (Term& term : divided) term.coefficient /= common;
    const SymExpr x = positive ? atom->args[0] - (c - 1) : atom->args[0];
    const End scaled =
        lower(SymExpr(scale) * rest + from_terms(std::move(divided)) * x, search, depth);
    if (scaled) result = best_lower(result, ceil_div(*scaled, scale));
  }
  const SymRange range = interval(*atom);
  if (const End end = positive ? range.lo : range.hi) result = best_lower(result, with(*end));
  return result;
}

}  // namespace gm
