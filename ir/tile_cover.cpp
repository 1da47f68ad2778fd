// Proofs that stores cover an output: each element written exactly once. A store's axes must fill a
// box: in each dim a mixed radix of axes, each used in one place. The boxes of all stores then tile
// the shape.
#include <algorithm>
#include <map>

#include "base/sym_node.h"
#include "ir/tile_text.h"
#include "ir/tile_verify.h"

namespace gm {
namespace {

struct Box {
  std::vector<SymExpr> offset, extent;
};

Error not_covered(const Location& where, const Param& param, std::string reason) {
  auto error = err(Code::tile_coverage, where,
                   "let every axis move the stored element, and let the stores meet",
                   "cannot prove that each element of %{} is written exactly once", param.name);
  return Error(std::move(error.error()).note(std::move(reason)));
}

// The conditions under which a store may stand: a mask (its rows are padding), or one value of an
// axis.
bool is_mask(const Kernel& kernel, const Expr& condition) {
  if (condition->kind != ExprKind::binary) return false;
  const auto masked = [&](const Expr& e) {
    const Param* param = e->kind == ExprKind::load ? kernel.find_param(e->name) : nullptr;
    return param && param->contract && param->contract->masked;
  };
  const auto bound = condition->args[0].as_sym();
  const int64_t least = condition->binary_op == BinaryOp::le   ? 0
                        : condition->binary_op == BinaryOp::lt ? -1
                                                               : 1;
  return least <= 0 && bound && bound->constant() == least && masked(condition->args[1]);
}

std::optional<std::pair<std::string, SymExpr>> as_pin(const Expr& condition) {
  if (condition->kind != ExprKind::binary || condition->binary_op != BinaryOp::eq) return {};
  for (int i = 0; i < 2; ++i) {
    const auto axis = condition->args[static_cast<size_t>(i)].as_sym();
    const auto value = condition->args[static_cast<size_t>(1 - i)].as_sym();
    if (axis && value && axis->as_symbol() && value->constant())
      return {{*axis->as_symbol(), *value}};
  }
  return {};
}

void conjuncts(const Expr& condition, std::vector<Expr>& out) {
  if (condition->kind == ExprKind::binary && condition->binary_op == BinaryOp::logical_and) {
    for (const Expr& arg : condition->args) conjuncts(arg, out);
  } else {
    out.push_back(condition);
  }
}

class BoxOf {
 public:
  BoxOf(const Kernel& kernel, const Param& param, const StoreUse& use)
      : kernel_(kernel), param_(param), use_(use), axes_(use.axes), proof_(kernel) {}

  Result<Box> run() {
    declare_axes(proof_, axes_);
    for (const Expr& index : use_.store->indices) {
      const auto sym = index.as_sym();
      if (!sym) return fail("the index {} loads", print_index(index));
      indices_.push_back(*sym);
    }
    GM_TRY(apply_conditions());
    GM_TRY(resolve_loops());
    bool whole = true;
    split_axes(proof_, indices_, axes_, whole);
    if (!whole) return fail("an axis is split by a divisor that does not divide its extent");
    Box box;
    for (const SymExpr& index : indices_) GM_TRY(fill(index, box));
    for (const AxisUse& axis : axes_) {
      if (used_.contains(axis.name) || axis.extent == SymExpr(1)) continue;
      return fail("the same elements are written for every '{}'", axis.name);
    }
    return box;
  }

 private:
  template <class... A>
  Error fail(fmt::format_string<A...> text, A&&... args) const {
    return not_covered(use_.where, param_, fmt::format(text, std::forward<A>(args)...));
  }

  void replace(const std::string& name, const SymExpr& value) {
    for (SymExpr& index : indices_) index = index.substitute({{name, value}});
    for (AxisUse& axis : axes_) axis.extent = axis.extent.substitute({{name, value}});
  }

  Result<> apply_conditions() {
    std::vector<Expr> all;
    for (const Expr& condition : use_.conditions) conjuncts(condition, all);
    for (const Expr& condition : all) {
      if (is_mask(kernel_, condition)) continue;
      const auto pin = as_pin(condition);
      if (!pin) return fail("it is written only if {}", print_value(condition));
      const auto axis = std::find_if(axes_.begin(), axes_.end(),
                                     [&](const AxisUse& a) { return a.name == pin->first; });
      if (axis == axes_.end() || axis->kind == AxisUse::Kind::loop ||
          axis->kind == AxisUse::Kind::let || !proof_.at_most(0, pin->second) ||
          !proof_.at_most(pin->second + 1, axis->extent)) {
        return fail("it is written only if {}", print_value(condition));
      }
      axis->extent = 1;
      replace(pin->first, pin->second);
    }
    return {};
  }

  Result<> resolve_loops() {
    std::vector<AxisUse> kept;
    std::vector<std::string> by_tokens;  // sequence axes whose tokens a loop runs over
    for (const AxisUse& axis : axes_) {
      if (axis.kind != AxisUse::Kind::let) continue;
      // Innermost lets may use outer ones, so each is replaced where it occurs, in order.
      if (const auto value = axis.lo.as_sym()) replace(axis.name, *value);
    }
    for (AxisUse axis : axes_) {
      if (axis.kind == AxisUse::Kind::let) {
        for (const SymExpr& index : indices_) {
          if (index.uses(axis.name)) return fail("an index uses '{}', which is loaded", axis.name);
        }
        continue;
      }
      if (axis.kind == AxisUse::Kind::loop) {
        const auto lo = axis.lo.as_sym();
        const auto hi = axis.hi.as_sym();
        const auto sequence = as_sequence_loop(kernel_, axis, use_.axes);
        if (sequence) {
          axis.extent = *sequence->starts->contract->total;
          by_tokens.push_back(sequence->sequence);
        } else if (lo && hi) {
          axis.extent = *hi - *lo;
          if (lo->constant() != 0) replace(axis.name, SymExpr::symbol(axis.name) + *lo);
        } else {
          return fail("the loop over '{}' has loaded bounds that are not sequence starts",
                      axis.name);
        }
      }
      axis.kind = AxisUse::Kind::tile;  // from 0 on now
      kept.push_back(std::move(axis));
    }
    for (const std::string& name : by_tokens) {
      for (const SymExpr& index : indices_) {
        if (index.uses(name)) return fail("an index uses '{}' besides its tokens", name);
      }
      std::erase_if(kept, [&](const AxisUse& axis) { return axis.name == name; });
    }
    axes_ = std::move(kept);
    return {};
  }

  const AxisUse* axis_of(const std::string& name) const {
    for (const AxisUse& axis : axes_) {
      if (axis.name == name) return &axis;
    }
    return nullptr;
  }

  bool uses_axis(const SymExpr& e) const {
    for (const std::string& name : e.symbols()) {
      if (!kernel_.symbols.find(name)) return true;
    }
    return false;
  }

  // The axes of one dim, from the fastest on: each must step by what those before it cover.
  Result<> fill(const SymExpr& index, Box& box) {
    std::map<std::string, int64_t> factors;
    SymExpr rest = index;
    for (const std::string& name : index.symbols()) {
      const AxisUse* axis = axis_of(name);
      if (!axis) continue;
      const auto linear = rest.linear_in(name);
      if (!linear || linear->coefficient == 0)
        return fail("the index {} is not linear in '{}'", index.to_string(), name);
      rest = linear->rest;
      if (axis->extent == SymExpr(1)) continue;
      if (!used_.emplace(name, true).second) return fail("two indices use the axis '{}'", name);
      factors[name] = linear->coefficient;
    }
    if (uses_axis(rest)) return fail("the index {} is no sum of axes", index.to_string());
    SymExpr covered = 1;
    while (!factors.empty()) {
      auto next = factors.end();
      for (auto it = factors.begin(); it != factors.end(); ++it) {
        if (proof_.equal(it->second, covered)) next = it;
      }
      if (next == factors.end())
        return fail("no axis of {} steps by {}", index.to_string(), covered.to_string());
      const AxisUse& axis = *axis_of(next->first);
      const int64_t factor = next->second;
      factors.erase(next);
      if (!uses_axis(axis.extent)) {
        covered = covered * axis.extent;
        continue;
      }
      GM_ASSIGN(const SymExpr total, ragged(axis, factor, factors));
      covered = covered * total;
    }
    box.offset.push_back(rest);
    box.extent.push_back(covered);
    return {};
  }

  // n < min(B, T - B*o) with o < ceildiv(T, B) one place further: T elements.
  Result<SymExpr> ragged(const AxisUse& axis, int64_t factor,
                         std::map<std::string, int64_t>& factors) {
    if (const auto arms = axis.extent.min_arms()) {
      for (const auto& [block, tail] : {*arms, std::pair(arms->second, arms->first)}) {
        const auto size = block.constant();
        if (!size || *size < 1) continue;
        for (const auto& [name, outer_factor] : factors) {
          const auto linear = tail.linear_in(name);
          int64_t step = 0;
          if (!linear || linear->coefficient != -*size || uses_axis(linear->rest) ||
              __builtin_mul_overflow(factor, *size, &step) || outer_factor != step)
            continue;
          if (!proof_.equal(axis_of(name)->extent, SymExpr::ceildiv(linear->rest, *size))) continue;
          factors.erase(name);
          return linear->rest;
        }
      }
    }
    return fail("the extent {} of '{}' is not the tail of blocks", axis.extent.to_string(),
                axis.name);
  }

  const Kernel& kernel_;
  const Param& param_;
  const StoreUse& use_;
  std::vector<AxisUse> axes_;
  Proof proof_;
  std::vector<SymExpr> indices_;
  std::map<std::string, bool> used_;
};

// Whether the boxes tile the shape from `dim` on: intervals that follow one another, each with a
// full set of the rest.
bool tiles(const Proof& proof, const std::vector<const Box*>& boxes,
           const std::vector<SymExpr>& shape, size_t dim, std::string& reason) {
  if (dim == shape.size()) {
    if (boxes.size() != 1) reason = "two stores write the same elements";
    return boxes.size() == 1;
  }
  std::vector<std::vector<const Box*>> groups;
  for (const Box* box : boxes) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return proof.equal(group[0]->offset[dim], box->offset[dim]) &&
             proof.equal(group[0]->extent[dim], box->extent[dim]);
    });
    if (same == groups.end()) {
      groups.push_back({box});
    } else {
      same->push_back(box);
    }
  }
  SymExpr end = 0;
  while (!groups.empty()) {
    const auto next = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return proof.equal(group[0]->offset[dim], end);
    });
    if (next == groups.end()) {
      reason = fmt::format("in dim {} no store begins at {}", dim, end.to_string());
      return false;
    }
    end = end + (*next)[0]->extent[dim];
    if (!tiles(proof, *next, shape, dim + 1, reason)) return false;
    groups.erase(next);
  }
  if (proof.equal(end, shape[dim])) return true;
  reason = fmt::format("in dim {} the stores cover {} of {}", dim, end.to_string(),
                       shape[dim].to_string());
  return false;
}

}  // namespace

Result<> verify_written_once(const Kernel& kernel, const Param& param,
                             const std::vector<StoreUse>& stores) {
  if (stores.empty()) {
    const Location where = kernel.location.empty()
                               ? Location::of_path("", "@" + kernel.name + "/%" + param.name)
                               : kernel.location;
    return not_covered(where, param, "no statement stores to it");
  }
  std::vector<Box> boxes;
  for (const StoreUse& use : stores) {
    GM_ASSIGN(Box box, BoxOf(kernel, param, use).run());
    boxes.push_back(std::move(box));
  }
  std::vector<const Box*> all;
  for (const Box& box : boxes) all.push_back(&box);
  const Proof proof(kernel);
  std::string reason;
  if (!tiles(proof, all, param.shape, 0, reason))
    return not_covered(stores[0].where, param, reason);
  return {};
}

}  // namespace gm
