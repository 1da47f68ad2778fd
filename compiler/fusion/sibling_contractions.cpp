#include <algorithm>

#include "compiler/fusion/rules.h"

namespace gm {
namespace {

constexpr const char* kRule = "sibling-contractions";

// The contractions that multiply `value` with a weight and are alike in every other operand, by
// operand list.
std::vector<std::vector<OpId>> sibling_sets(const Partition& p, ValueId value) {
  const Graph& graph = p.graph();
  std::vector<std::vector<OpId>> sets;
  for (OpId user : graph.users(value)) {
    const Op& op = graph.op(user);
    if (p.def(op).op_class != OpClass::contraction || op.inputs[0] != value) continue;
    if (graph.value(op.inputs[1]).kind != ValueKind::weight) continue;
    const auto same = std::ranges::find_if(sets, [&](const std::vector<OpId>& set) {
      const Op& first = graph.op(set.front());
      return first.kind == op.kind && std::equal(first.inputs.begin() + 2, first.inputs.end(),
                                                 op.inputs.begin() + 2, op.inputs.end());
    });
    if (same == sets.end()) {
      sets.push_back({user});
    } else {
      same->push_back(user);
    }
  }
  return sets;
}

const TensorType& weight_type(const Graph& graph, OpId op) {
  return graph.value(graph.op(op).inputs[1]).type;
}

std::string describe(const Graph& graph, ValueId value, const std::vector<OpId>& ops) {
  std::string columns;
  int64_t total = 0;
  for (OpId op : ops) {
    const SymExpr n = graph.value(graph.op(op).outputs[0]).type.shape.back();
    columns += (columns.empty() ? "" : "+") + n.to_string();
    total += n.constant().value_or(0);
  }
  return fmt::format(
      "same input %{} {}; N {} = {}; K {}; weights stacked in panels; launches {} -> 1",
      graph.value(value).name, graph.value(value).type.to_string(), columns, total,
      weight_type(graph, ops.front()).shape.back().to_string(), ops.size());
}

}  // namespace

void fuse_sibling_contractions(Partition& p) {
  const Graph& graph = p.graph();
  for (const Value& value : graph.values()) {
    for (const std::vector<OpId>& all : sibling_sets(p, value.id)) {
      std::vector<OpId> ops;
      std::set<int> groups;
      for (OpId op : all) {
        if (weight_type(graph, op).dtype != weight_type(graph, all.front()).dtype) {
          p.refuse(
              kRule, all.front(), op, Reason::dtype_differs,
              fmt::format("weights are {} and {}", to_string(weight_type(graph, all.front()).dtype),
                          to_string(weight_type(graph, op).dtype)));
          continue;
        }
        ops.push_back(op);
        groups.insert(p.group_of(op));
      }
      if (ops.size() < 2) continue;
      if (p.can_merge(groups)) {
        p.merge(kRule, groups, Reason::saves_launch, describe(graph, value.id, ops), value.id);
      } else {
        p.refuse(kRule, ops.front(), ops.back(), Reason::cycle,
                 "one of the siblings depends on another");
      }
    }
  }
}

}  // namespace gm
