#include "compiler/fusion/epilogue.h"

#include <algorithm>

#include "compiler/fusion/absorb.h"
#include "compiler/lowering/probe.h"

namespace gm {
namespace {

const std::vector<SymExpr>& shape_of(const Graph& graph, ValueId value) {
  return graph.value(value).type.shape;
}

// Whether `op` reads operand `i` at its own element, or at several that differ from it in constant
// coordinates alone (the experts of a token), so that a work item of its columns holds them all.
bool reads_own_columns(const Graph& graph, const Op& op, size_t i) {
  const std::vector<SymExpr>& mine = shape_of(graph, op.outputs[0]);
  const std::vector<SymExpr>& theirs = shape_of(graph, op.inputs[i]);
  std::vector<Expr> element;
  element.reserve(mine.size());
  for (size_t d = 0; d < mine.size(); ++d)
    element.push_back(Expr::index(SymExpr::symbol(fmt::format("i{}", d))));
  for (const std::vector<Expr>& read : elements_read(graph, op, i, element)) {
    size_t next = 0;
    for (size_t d = 0; d < read.size(); ++d) {
      if (next < mine.size() && read[d] == element[next]) {
        if (theirs[d] != mine[next++]) return false;
        continue;
      }
      const std::optional<SymExpr> fixed = read[d].as_sym();
      if (d + 1 == read.size() || !fixed || !fixed->constant()) return false;
    }
    if (next != mine.size()) return false;
  }
  return true;
}

// A follower reads several elements of what it follows.
bool gathers(const Graph& graph, const Op& op, ValueId input) {
  return shape_of(graph, op.outputs[0]) != shape_of(graph, input);
}

// What `op` reads of the given groups and ops.
std::vector<size_t> operands_from(const Partition& p, const Op& op, int group,
                                  const std::set<OpId>& ops) {
  std::vector<size_t> operands;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const Op* from = p.graph().producer(view_base(p.graph(), op.inputs[i]));
    if (from != nullptr && (p.group_of(from->id) == group || ops.contains(from->id)))
      operands.push_back(i);
  }
  return operands;
}

// Looks at one op that would come to follow an anchor.
Obstacle follower_obstacle(const Graph& graph, const OpDef& def, const Op& op,
                           const std::vector<size_t>& operands) {
  for (size_t i : operands) {
    const ValueId input = op.inputs[i], base = view_base(graph, input);
    if (def.op_class != OpClass::pointwise) {
      return {{Reason::producer_needs_whole_row,
               fmt::format("{} needs rows of %{} that no work item holds", op.kind,
                           graph.value(base).name)}};
    }
    if (base != input) {
      return {{Reason::index_maps_differ,
               fmt::format("{} reads %{} through a view", op.kind, graph.value(base).name)}};
    }
    if (!reads_own_columns(graph, op, i)) {
      const Value& mine = graph.value(op.outputs[0]);
      return {{Reason::index_maps_differ,
               fmt::format("%{} is {}, its operand %{} is {}", mine.name, mine.type.to_string(),
                           graph.value(input).name, graph.value(input).type.to_string())}};
    }
  }
  return {};
}

struct Followers {
  Obstacle obstacle;
  bool gather = false;
};

// All members of `group` that would come to depend on `anchor_group`.
Followers look_at_followers(const Partition& p, int group, int anchor_group) {
  Followers result;
  std::set<OpId> follows;
  for (OpId id : p.members(group)) {
    const Op& op = p.graph().op(id);
    const std::vector<size_t> operands = operands_from(p, op, anchor_group, follows);
    if (operands.empty()) continue;
    result.obstacle = follower_obstacle(p.graph(), p.def(op), op, operands);
    if (result.obstacle) return result;
    for (size_t i : operands) result.gather |= gathers(p.graph(), op, op.inputs[i]);
    follows.insert(id);
  }
  return result;
}

bool contractions_only(const Partition& p, int group) {
  return std::ranges::all_of(p.members(group), [&](OpId op) {
    const OpDef& def = p.def(p.graph().op(op));
    return !is_anchor(def) || def.op_class == OpClass::contraction;
  });
}

// The results of anchors of the two groups that `value` is computed from.
void add_anchor_results(const Partition& p, ValueId value, int a, int b,
                        std::set<ValueId>& results) {
  const Op* op = p.graph().producer(value);
  if (op == nullptr || (p.group_of(op->id) != a && p.group_of(op->id) != b)) return;
  if (is_anchor(p.def(*op))) {
    results.insert(value);
    return;
  }
  for (ValueId input : op->inputs)
    add_anchor_results(p, view_base(p.graph(), input), a, b, results);
}

// Whoever reads `value`, through views or not, is in one of the two groups.
bool stays_inside(const Partition& p, ValueId value, int a, int b) {
  return !p.visible(value) && std::ranges::all_of(p.uses(value), [&](const Partition::Use& use) {
    return p.group_of(use.op) == a || p.group_of(use.op) == b;
  });
}

// One work item that computes several elements of one anchor, or of several anchors, stores one
// shape.
Obstacle shared_item_obstacle(const Partition& p, int theirs, int mine, const Op& op) {
  const Graph& graph = p.graph();
  if (!contractions_only(p, theirs) || !contractions_only(p, mine)) {
    return {{Reason::slot_not_supported,
             fmt::format("{} already follows another kernel's anchor", op.kind)}};
  }
  for (int group : {theirs, mine}) {
    for (ValueId value : values_used_outside(p, group)) {
      if (stays_inside(p, value, theirs, mine) ||
          shape_of(graph, value) == shape_of(graph, op.outputs[0]))
        continue;
      return {{Reason::index_maps_differ,
               fmt::format("the kernel also stores %{} {}, which are not the elements of %{}",
                           graph.value(value).name, graph.value(value).type.to_string(),
                           graph.value(op.outputs[0]).name)}};
    }
  }
  return {};
}

}  // namespace

Obstacle epilogue_obstacle(const Partition& p, const Op& op, ValueId edge) {
  const Graph& graph = p.graph();
  const Op& producer = *graph.producer(edge);
  const int theirs = p.group_of(producer.id), mine = p.group_of(op.id);
  const OpDef& def = p.def(producer);
  if (def.op_class == OpClass::kernel_like && !def.row_wise) {
    const ResultDef& result = def.results[static_cast<size_t>(graph.value(edge).result_index)];
    if (!result.takes_epilogue) {
      return {{Reason::slot_not_supported,
               fmt::format("{} has no place for an epilogue behind '{}'", def.name, result.name)}};
    }
  }
  if (!p.has_anchor(theirs)) {
    return follower_obstacle(graph, p.def(op), op, operands_from(p, op, theirs, {}));
  }
  const Followers behind = look_at_followers(p, mine, theirs);
  if (behind.obstacle) return behind.obstacle;
  const bool two_anchors = p.has_anchor(mine);
  if (!contractions_only(p, theirs)) {
    for (OpId member : p.members(mine)) {
      std::set<ValueId> results;
      for (ValueId output : graph.op(member).outputs)
        add_anchor_results(p, output, theirs, mine, results);
      if (results.size() > 1) {
        return {{Reason::slot_not_supported,
                 fmt::format("{} needs %{} and %{}, which no loop computes together",
                             graph.op(member).kind, graph.value(*results.begin()).name,
                             graph.value(*results.rbegin()).name)}};
      }
    }
  }
  if (two_anchors) {
    const Followers before = look_at_followers(p, theirs, mine);
    if (before.obstacle) return before.obstacle;
  }
  return behind.gather || two_anchors ? shared_item_obstacle(p, theirs, mine, op) : Obstacle{};
}

}  // namespace gm
