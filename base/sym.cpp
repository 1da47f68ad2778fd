#include "base/sym.h"

#include <algorithm>
#include <set>

#include "base/sym_node.h"

namespace gm {

using sym::from_terms;
using sym::terms;

namespace sym {
namespace {

// Far above any real index; below them, every operation here is quick, whatever a hostile text
// multiplies out.
constexpr size_t kMaxTerms = 1024;
constexpr size_t kMaxDegree = 12;

}  // namespace

std::strong_ordering compare(const Atom& a, const Atom& b) {
  if (&a == &b) return std::strong_ordering::equal;
  if (const auto c = a.kind <=> b.kind; c != 0) return c;
  if (const auto c = a.name.compare(b.name); c != 0) return c <=> 0;
  if (const auto c = a.divisor <=> b.divisor; c != 0) return c;
  if (const auto c = a.args.size() <=> b.args.size(); c != 0) return c;
  for (size_t i = 0; i < a.args.size(); ++i) {
    if (const auto c = a.args[i] <=> b.args[i]; c != 0) return c;
  }
  return std::strong_ordering::equal;
}

std::strong_ordering compare(const Monomial& a, const Monomial& b) {
  if (const auto c = a.size() <=> b.size(); c != 0) return c;
  for (size_t i = 0; i < a.size(); ++i) {
    if (const auto c = compare(*a[i], *b[i]); c != 0) return c;
  }
  return std::strong_ordering::equal;
}

SymExpr too_large() { return SymAccess::make({{}, true}); }

SymExpr from_terms(std::vector<Term> all) {
  std::sort(all.begin(), all.end(),
            [](const Term& a, const Term& b) { return compare(a.monomial, b.monomial) < 0; });
  std::vector<Term> merged;
  for (Term& term : all) {
    if (term.monomial.size() > kMaxDegree) return too_large();
    if (!merged.empty() && compare(merged.back().monomial, term.monomial) == 0) {
      int64_t& sum = merged.back().coefficient;
      if (__builtin_add_overflow(sum, term.coefficient, &sum)) return too_large();
    } else {
      if (!merged.empty() && merged.back().coefficient == 0) merged.pop_back();
      merged.push_back(std::move(term));
    }
  }
  if (!merged.empty() && merged.back().coefficient == 0) merged.pop_back();
  if (merged.size() > kMaxTerms) return too_large();
  return SymAccess::make({std::move(merged), false});
}

const Atom* sole_atom(const SymExpr& e) {
  const auto& all = terms(e);
  if (all.size() != 1 || all[0].coefficient != 1 || all[0].monomial.size() != 1) return nullptr;
  return all[0].monomial[0].get();
}

SymExpr map_atoms(const SymExpr& e, const std::function<SymExpr(const AtomRef&)>& f) {
  if (e.is_too_large()) return e;
  SymExpr sum;
  for (const Term& term : terms(e)) {
    SymExpr product = term.coefficient;
    for (const AtomRef& atom : term.monomial) product = product * f(atom);
    sum = sum + product;
  }
  return sum;
}

void visit_symbols(const SymExpr& e, const std::function<void(const std::string&)>& f) {
  for (const Term& term : terms(e)) {
    for (const AtomRef& atom : term.monomial) {
      if (atom->kind == AtomKind::symbol) f(atom->name);
      for (const SymExpr& arg : atom->args) visit_symbols(arg, f);
    }
  }
}

}  // namespace sym

SymExpr::SymExpr(int64_t value) {
  Node node;
  if (value != 0) node.terms.push_back({{}, value});
  node_ = std::make_shared<const Node>(std::move(node));
}

SymExpr SymExpr::symbol(std::string_view name) {
  auto atom = std::make_shared<const Atom>(Atom{AtomKind::symbol, std::string(name), {}, 0});
  return SymAccess::make({{{{std::move(atom)}, 1}}, false});
}

bool SymExpr::is_too_large() const { return node_->too_large; }

SymExpr operator+(const SymExpr& a, const SymExpr& b) {
  if (a.is_too_large() || b.is_too_large()) return sym::too_large();
  std::vector<Term> sum = terms(a);
  sum.insert(sum.end(), terms(b).begin(), terms(b).end());
  return from_terms(std::move(sum));
}

SymExpr operator-(const SymExpr& a, const SymExpr& b) { return a + SymExpr(-1) * b; }

SymExpr operator*(const SymExpr& a, const SymExpr& b) {
  if (a.is_too_large() || b.is_too_large()) return sym::too_large();
  if (terms(a).size() * terms(b).size() > 4 * sym::kMaxTerms) return sym::too_large();
  std::vector<Term> product;
  product.reserve(terms(a).size() * terms(b).size());
  for (const Term& x : terms(a)) {
    for (const Term& y : terms(b)) {
      Term& term = product.emplace_back();
      if (__builtin_mul_overflow(x.coefficient, y.coefficient, &term.coefficient)) {
        return sym::too_large();
      }
      term.monomial.reserve(x.monomial.size() + y.monomial.size());
      std::merge(x.monomial.begin(), x.monomial.end(), y.monomial.begin(), y.monomial.end(),
                 std::back_inserter(term.monomial),
                 [](const AtomRef& p, const AtomRef& q) { return sym::compare(*p, *q) < 0; });
    }
  }
  return from_terms(std::move(product));
}

std::optional<int64_t> SymExpr::constant() const {
  if (node_->too_large) return std::nullopt;
  if (node_->terms.empty()) return 0;
  if (node_->terms.size() == 1 && node_->terms[0].monomial.empty()) {
    return node_->terms[0].coefficient;
  }
  return std::nullopt;
}

std::optional<std::string> SymExpr::as_symbol() const {
  const Atom* atom = sym::sole_atom(*this);
  if (atom == nullptr || atom->kind != AtomKind::symbol) return std::nullopt;
  return atom->name;
}

std::vector<std::string> SymExpr::symbols() const {
  std::set<std::string> names;
  sym::visit_symbols(*this, [&](const std::string& name) { names.insert(name); });
  return {names.begin(), names.end()};
}

bool SymExpr::uses(std::string_view name) const {
  bool found = false;
  sym::visit_symbols(*this, [&](const std::string& other) { found |= other == name; });
  return found;
}

std::optional<SymExpr::Linear> SymExpr::linear_in(std::string_view name) const {
  if (node_->too_large) return std::nullopt;
  int64_t coefficient = 0;
  std::vector<Term> rest;
  for (const Term& term : node_->terms) {
    const bool alone = term.monomial.size() == 1 && term.monomial[0]->kind == AtomKind::symbol &&
                       term.monomial[0]->name == name;
    if (alone) {
      coefficient = term.coefficient;
    } else {
      rest.push_back(term);
    }
  }
  SymExpr remainder = from_terms(std::move(rest));
  if (remainder.uses(name)) return std::nullopt;
  return Linear{coefficient, std::move(remainder)};
}

namespace {

std::optional<std::pair<SymExpr, SymExpr>> arms(const SymExpr& e, AtomKind kind) {
  const Atom* atom = sym::sole_atom(e);
  if (atom == nullptr || atom->kind != kind) return std::nullopt;
  const std::vector<SymExpr> rest(atom->args.begin() + 1, atom->args.end());
  return std::pair(atom->args[0], rest.size() == 1 ? rest[0] : sym::apply(*atom, rest));
}

}  // namespace

std::optional<std::pair<SymExpr, SymExpr>> SymExpr::min_arms() const {
  return arms(*this, AtomKind::min);
}

std::optional<std::pair<SymExpr, SymExpr>> SymExpr::max_arms() const {
  return arms(*this, AtomKind::max);
}

SymExpr SymExpr::substitute(const std::map<std::string, SymExpr, std::less<>>& values) const {
  return sym::map_atoms(*this, [&](const AtomRef& atom) -> SymExpr {
    if (atom->kind == AtomKind::symbol) {
      const auto found = values.find(atom->name);
      return found == values.end() ? symbol(atom->name) : found->second;
    }
    std::vector<SymExpr> args;
    for (const SymExpr& arg : atom->args) args.push_back(arg.substitute(values));
    return sym::apply(*atom, args);
  });
}

namespace {

using Values = std::map<std::string, int64_t, std::less<>>;

std::optional<int64_t> evaluate_atom(const Atom& atom, const Values& values) {
  if (atom.kind == AtomKind::symbol) {
    const auto found = values.find(atom.name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<int64_t> result;
  for (const SymExpr& arg : atom.args) {
    const std::optional<int64_t> value = arg.evaluate(values);
    if (!value) return std::nullopt;
    switch (atom.kind) {
      case AtomKind::ceildiv:
        result = sym::ceil_div(*value, atom.divisor);
        break;
      case AtomKind::floordiv:
        result = sym::floor_div(*value, atom.divisor);
        break;
      case AtomKind::mod:
        result = sym::floor_mod(*value, atom.divisor);
        break;
      case AtomKind::min:
        result = std::min(result.value_or(*value), *value);
        break;
      case AtomKind::max:
        result = std::max(result.value_or(*value), *value);
        break;
      case AtomKind::symbol:
        break;
    }
  }
  return result;
}

}  // namespace

std::optional<int64_t> SymExpr::evaluate(const Values& values) const {
  if (node_->too_large) return std::nullopt;
  // Partial sums may leave int64 when the result does not.
  __int128 sum = 0;
  for (const Term& term : node_->terms) {
    __int128 product = term.coefficient;
    for (const AtomRef& atom : term.monomial) {
      const std::optional<int64_t> value = evaluate_atom(*atom, values);
      if (!value || __builtin_mul_overflow(product, static_cast<__int128>(*value), &product)) {
        return std::nullopt;
      }
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  if (sum < INT64_MIN || sum > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(sum);
}

std::strong_ordering SymExpr::operator<=>(const SymExpr& other) const {
  if (node_ == other.node_) return std::strong_ordering::equal;
  if (const auto c = node_->too_large <=> other.node_->too_large; c != 0) return c;
  const auto& a = node_->terms;
  const auto& b = other.node_->terms;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (const auto c = sym::compare(a[i].monomial, b[i].monomial); c != 0) return c;
    if (const auto c = a[i].coefficient <=> b[i].coefficient; c != 0) return c;
  }
  return a.size() <=> b.size();
}

bool SymExpr::operator==(const SymExpr& other) const { return (*this <=> other) == 0; }

}  // namespace gm
