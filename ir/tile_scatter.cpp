// Proofs about state: each element written at most once, by distinct slots or pages, and read by
// nobody else than its writer.
#include <algorithm>
#include <map>
#include <set>

#include "base/sym_node.h"
#include "ir/lexer.h"
#include "ir/tile_text.h"
#include "ir/tile_verify.h"

namespace gm {
namespace {

using Kind = AxisUse::Kind;

// e as floordiv(x, P) or mod(x, P).
struct Division {
  Expr x;
  int64_t divisor;
  bool is_mod;
};

std::optional<Division> as_division(const Expr& e) {
  if (const auto sym = e.as_sym()) {
    const Atom* atom = sym::sole_atom(*sym);
    if (!atom || (atom->kind != AtomKind::floordiv && atom->kind != AtomKind::mod)) return {};
    return Division{Expr::index(atom->args[0]), atom->divisor, atom->kind == AtomKind::mod};
  }
  if (e->kind != ExprKind::binary) return {};
  const bool is_mod = e->binary_op == BinaryOp::mod;
  if (!is_mod && e->binary_op != BinaryOp::floordiv) return {};
  return Division{e->args[0], e->args[1].as_sym()->constant().value_or(1), is_mod};
}

class Scatter {
 public:
  Scatter(const Kernel& kernel, const Param& param, const StoreUse& use)
      : kernel_(kernel), param_(param), use_(use), proof_(kernel) {}

  Result<> run() {
    declare_axes(proof_, use_.axes);
    for (const Expr& index : use_.store->indices) expand(index);
    std::string repeats;
    if (names_each_once(proof_, std::move(determined_), use_.axes, repeats)) return {};
    auto error =
        err(Code::tile_scatter, use_.where,
            "index the state by a 'distinct' load and by every other axis, or store after the loop",
            "an element of the state %{} may be written twice", param_.name);
    return Error(
        std::move(error.error())
            .note(fmt::format("for two values of '{}' the element may be the same", repeats)));
  }

 private:
  Expr resolve(const Expr& e) const {
    const auto sym = e.as_sym();
    const auto name = sym ? sym->as_symbol() : std::nullopt;
    if (!name) return e;
    for (const AxisUse& axis : use_.axes) {
      if (axis.kind == Kind::let && axis.name == *name) return resolve(axis.lo);
    }
    return e;
  }

  // Adds polynomials that are known when the element is known.
  void expand(const Expr& given) {
    const Expr e = resolve(given);
    if (const auto sym = e.as_sym()) {
      determined_.push_back(*sym);
      return;
    }
    if (e->kind != ExprKind::load) return;
    const Param* source = kernel_.find_param(e->name);
    if (!source || !source->contract || !source->contract->distinct) return;
    for (const Expr& arg : e->args) {
      // A page and the place in it: %pages[s, floordiv(x, P)] together with mod(x, P) give x.
      const auto page = as_division(resolve(arg));
      if (page && !page->is_mod && has_place(*page)) {
        position(page->x);
      } else {
        expand(arg);
      }
    }
  }

  bool has_place(const Division& page) const {
    for (const Expr& index : use_.store->indices) {
      const auto place = as_division(resolve(index));
      if (place && place->is_mod && place->divisor == page.divisor && place->x == page.x)
        return true;
    }
    return false;
  }

  void position(const Expr& given) {
    const Expr x = resolve(given);
    if (const auto sym = x.as_sym()) {
      determined_.push_back(*sym);
      return;
    }
    if (x->kind != ExprKind::load || x->args.size() != 1) return;
    const Param* source = kernel_.find_param(x->name);
    const auto token = x->args[0].as_sym();
    const auto name = token ? token->as_symbol() : std::nullopt;
    if (!source || !source->contract || !source->contract->consecutive || !name) return;
    // Positions tell the tokens of one sequence apart; which sequence it is, the page's other index
    // says.
    for (const AxisUse& axis : use_.axes) {
      if (axis.name == *name && as_sequence_loop(kernel_, axis, use_.axes))
        determined_.push_back(*token);
    }
  }

  const Kernel& kernel_;
  const Param& param_;
  const StoreUse& use_;
  Proof proof_;
  std::vector<SymExpr> determined_;
};

// Least and greatest value of each index over its axes, where both are numbers or dims.
std::optional<std::pair<SymExpr, SymExpr>> reach(const Kernel& kernel, const StoreUse& use,
                                                 const Expr& index) {
  auto sym = index.as_sym();
  if (!sym) return {};
  Proof proof(kernel);
  declare_axes(proof, use.axes);
  SymExpr lo = *sym, hi = *sym;
  for (size_t i = use.axes.size(); i-- > 0;) {
    const AxisUse& axis = use.axes[i];
    const auto low = lo.linear_in(axis.name);
    const auto high = hi.linear_in(axis.name);
    if (!low || !high) return {};
    if (low->coefficient == 0 && high->coefficient == 0) continue;
    if (axis.kind == Kind::let || axis.kind == Kind::loop || low->coefficient < 0 ||
        high->coefficient < 0)
      return {};
    lo = low->rest;
    hi = high->rest + SymExpr(high->coefficient) * (axis.extent - 1);
  }
  return std::pair(lo, hi);
}

bool disjoint(const Kernel& kernel, const StoreUse& a, const StoreUse& b) {
  const Proof proof(kernel);
  for (size_t i = 0; i < a.store->indices.size() && i < b.store->indices.size(); ++i) {
    const auto x = reach(kernel, a, a.store->indices[i]);
    const auto y = reach(kernel, b, b.store->indices[i]);
    if (!x || !y) continue;
    if (proof.at_most(x->second + 1, y->first) || proof.at_most(y->second + 1, x->first))
      return true;
  }
  return false;
}

}  // namespace

void declare_axes(Proof& proof, const std::vector<AxisUse>& axes) {
  for (const AxisUse& axis : axes) {
    if (axis.kind == Kind::let) {
      proof.declare(axis.name, axis.low, axis.high);
    } else if (axis.kind == Kind::loop) {
      const SymExpr lo = proof.to_sym(axis.lo);
      const SymExpr hi = proof.to_sym(axis.hi);
      proof.declare(axis.name, lo, hi - 1);
    } else {
      proof.declare(axis.name, 0, axis.extent - 1);
    }
  }
}

std::optional<SequenceLoop> as_sequence_loop(const Kernel& kernel, const AxisUse& axis,
                                             const std::vector<AxisUse>& all) {
  if (axis.kind != Kind::loop) return {};
  const auto resolve = [&](Expr e) {
    for (size_t i = all.size(); i-- > 0;) {
      const auto sym = e.as_sym();
      if (all[i].kind == Kind::let && sym && sym->as_symbol() == all[i].name) e = all[i].lo;
    }
    return e;
  };
  const Expr lo = resolve(axis.lo);
  const Expr hi = resolve(axis.hi);
  if (lo->kind != ExprKind::load || hi->kind != ExprKind::load || lo->name != hi->name ||
      lo->args.size() != 1 || hi->args.size() != 1)
    return {};
  const Param* starts = kernel.find_param(lo->name);
  if (!starts || !starts->contract || !starts->contract->monotone || !starts->contract->total ||
      starts->shape.size() != 1)
    return {};
  const auto first = lo->args[0].as_sym();
  const auto last = hi->args[0].as_sym();
  const auto name = first ? first->as_symbol() : std::nullopt;
  if (!name || !last || *last != *first + 1) return {};
  for (const AxisUse& other : all) {
    // All sequences: 0 .. length - 2.
    if (other.name == *name && other.kind != Kind::let && other.kind != Kind::loop &&
        other.extent == starts->shape[0] - 1)
      return SequenceLoop{starts, *name};
  }
  return {};
}

void split_axes(const Proof& proof, std::vector<SymExpr>& indices, std::vector<AxisUse>& axes,
                bool& whole) {
  whole = true;
  for (size_t i = 0; i < axes.size(); ++i) {
    const std::string name = axes[i].name;
    // A loop may begin anywhere, so its parts would not begin at 0.
    if (axes[i].kind == Kind::let || axes[i].kind == Kind::loop) continue;
    std::set<int64_t> divisors;
    for (const SymExpr& index : indices) {
      for (const Term& term : sym::terms(index)) {
        for (const AtomRef& atom : term.monomial) {
          if (atom->divisor > 0 && atom->kind != AtomKind::ceildiv &&
              atom->args[0].as_symbol() == name)
            divisors.insert(atom->divisor);
        }
      }
    }
    if (divisors.size() != 1) continue;
    const int64_t by = *divisors.begin();
    const std::string high = fmt::format("floordiv({}, {})", name, by);
    const std::string low = fmt::format("mod({}, {})", name, by);
    for (SymExpr& index : indices) {
      index = sym::map_atoms(index, [&](const AtomRef& atom) -> SymExpr {
        if (atom->kind == AtomKind::symbol) {
          if (atom->name != name) return SymExpr::symbol(atom->name);
          return SymExpr(by) * SymExpr::symbol(high) + SymExpr::symbol(low);
        }
        if (atom->divisor == by && atom->args[0].as_symbol() == name) {
          if (atom->kind == AtomKind::floordiv) return SymExpr::symbol(high);
          if (atom->kind == AtomKind::mod) return SymExpr::symbol(low);
        }
        return sym::apply(*atom, atom->args);
      });
    }
    whole &= proof.equal(SymExpr::mod(axes[i].extent, by), 0);
    AxisUse part = axes[i];
    part.name = low;
    part.extent = by;
    axes[i].name = high;
    axes[i].extent = SymExpr::ceildiv(axes[i].extent, by);
    axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(i) + 1, part);
    ++i;
  }
}

bool names_each_once(const Proof& proof, std::vector<SymExpr> indices, std::vector<AxisUse> axes,
                     std::string& repeats) {
  bool whole = true;
  split_axes(proof, indices, axes, whole);
  const std::vector<AxisUse> all = axes;
  std::erase_if(axes, [](const AxisUse& axis) {
    return axis.kind == Kind::let || axis.extent == SymExpr(1);
  });
  // Loaded values and lets may differ from iteration to iteration, so they tell nothing.
  const auto fixed = [&](const std::string& name) {
    for (const AxisUse& axis : all) {
      if (axis.name == name) return axis.kind != Kind::let;
    }
    return is_name(name, true);
  };
  std::set<std::string> told;
  const auto find = [&](const std::string& name) -> const AxisUse* {
    for (const AxisUse& axis : axes) {
      if (axis.name == name && !told.contains(name)) return &axis;
    }
    return nullptr;
  };
  // One index tells its axes apart if each steps over all that the smaller steps can reach.
  const auto tells = [&](const SymExpr& index, std::vector<std::string>& names) {
    std::vector<std::pair<int64_t, const AxisUse*>> steps;
    for (const std::string& name : index.symbols()) {
      if (!fixed(name)) return false;
      const AxisUse* axis = find(name);
      if (!axis) continue;
      const auto linear = index.linear_in(name);
      if (!linear || linear->coefficient <= 0) return false;
      steps.emplace_back(linear->coefficient, axis);
      names.push_back(name);
    }
    std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second->name < b.second->name;
    });
    SymExpr reached = 0;
    for (const auto& [step, axis] : steps) {
      if (!proof.at_most(reached + 1, step)) return false;
      if (axis->kind == Kind::loop) {
        const SymExpr value = SymExpr::symbol(axis->name);
        if (!proof.not_negative(value)) return false;
        reached = reached + SymExpr(step) * value;
      } else {
        reached = reached + SymExpr(step) * (axis->extent - 1);
      }
    }
    return !names.empty();
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (const SymExpr& index : indices) {
      std::vector<std::string> names;
      if (!tells(index, names)) continue;
      told.insert(names.begin(), names.end());
      progress = true;
    }
  }
  for (const AxisUse& axis : axes) {
    if (told.contains(axis.name)) continue;
    repeats = axis.name;
    return false;
  }
  return true;
}

Result<> verify_scatter(const Kernel& kernel, const Param& param,
                        const std::vector<StoreUse>& stores) {
  for (const StoreUse& use : stores) GM_TRY(Scatter(kernel, param, use).run());
  for (size_t i = 0; i < stores.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (disjoint(kernel, stores[j], stores[i])) continue;
      return err(Code::tile_scatter, stores[i].where, "store to places that one index tells apart",
                 "two stores to the state %{} may write the same element", param.name);
    }
  }
  return {};
}

Result<> verify_no_race(const Param& param, const std::vector<StoreUse>& stores,
                        const std::vector<LoadUse>& loads) {
  for (const LoadUse& load : loads) {
    if (load.load->name != param.name) continue;
    for (const StoreUse& use : stores) {
      std::set<std::string, std::less<>> grid;
      for (const AxisUse& axis : use.axes) {
        if (axis.kind == Kind::grid) grid.insert(axis.name);
      }
      // What is left of an index when the axes within the work item are 0: the work item's own
      // part.
      const auto own = [&](const Expr& index) {
        return rewrite(index, [&](const Expr& e) -> Expr {
          if (e->kind != ExprKind::index) return {};
          std::map<std::string, SymExpr, std::less<>> zero;
          for (const std::string& name : e->sym.symbols()) {
            if (!grid.contains(name)) zero[name] = 0;
          }
          return Expr::index(e->sym.substitute(zero));
        });
      };
      std::string reason;
      if (load.part != use.part) reason = "the load is in another part than the store";
      for (size_t i = 0; reason.empty() && i < use.store->indices.size(); ++i) {
        const Expr& written = use.store->indices[i];
        const Expr& read = load.load->args[i];
        const Expr written_own = own(written);
        const Expr read_own = own(read);
        if (written_own == read_own) continue;
        // Two constants name no work item, so that neither tells one from another.
        const auto is_constant = [](const Expr& e) { return e.as_sym() && e.as_sym()->constant(); };
        if (is_constant(written_own) && is_constant(read_own)) continue;
        reason = fmt::format("index {} is {} in the store, but {} in the load", i,
                             print_index(written), print_index(read));
      }
      if (reason.empty()) continue;
      auto error = err(Code::tile_race, load.where,
                       "read only what the work item itself writes, or split the kernel",
                       "%{} is read where another work item may write it", param.name);
      return Error(std::move(error.error()).note(std::move(reason), use.where));
    }
  }
  return {};
}

}  // namespace gm
