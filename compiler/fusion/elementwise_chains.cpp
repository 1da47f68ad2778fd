#include <algorithm>
#include <ranges>

#include "compiler/fusion/absorb.h"
#include "compiler/fusion/rules.h"

namespace gm {
namespace {

constexpr const char* kRule = "elementwise-chain";

bool pointwise(const Partition& p, OpId op) {
  return p.def(p.graph().op(op)).op_class == OpClass::pointwise;
}

// The type at whose elements the group stores what follows its anchor; nothing without an anchor.
const TensorType* anchor_type(const Partition& p, int group, ValueId edge) {
  // The nearest anchor result on the way up from the edge.
  const Op* op = p.graph().producer(edge);
  if (op == nullptr || p.group_of(op->id) != group) return nullptr;
  const OpClass c = p.def(*op).op_class;
  if (c == OpClass::contraction || c == OpClass::kernel_like) return &p.graph().value(edge).type;
  for (ValueId input : op->inputs) {
    if (const TensorType* type = anchor_type(p, group, view_base(p.graph(), input))) return type;
  }
  return nullptr;
}

using Obstacle = std::optional<std::pair<Reason, std::string>>;

// Why `op` cannot compute at the elements at which `group` stores what follows its anchor; nothing
// if it can. `follows` are the ops outside of the group that would follow the anchor too.
Obstacle obstacle_at(const Partition& p, const Op& op, int group, const std::set<OpId>& follows) {
  const Graph& graph = p.graph();
  const TensorType& mine = graph.value(op.outputs[0]).type;
  for (ValueId input : op.inputs) {
    const ValueId base = view_base(graph, input);
    const Op* from = graph.producer(base);
    if (from == nullptr || (p.group_of(from->id) != group && !follows.contains(from->id))) continue;
    if (p.def(op).op_class != OpClass::pointwise) {
      return {{Reason::producer_needs_whole_row,
               fmt::format("{} needs rows of %{} that no work item holds", op.kind,
                           graph.value(base).name)}};
    }
    const TensorType* stored = anchor_type(p, group, base);
    if (base != input) {
      return {{Reason::index_maps_differ,
               fmt::format("{} reads %{} through a view", op.kind, graph.value(base).name)}};
    }
    const std::vector<SymExpr>& shape = stored != nullptr ? stored->shape : mine.shape;
    if (mine.shape != shape || graph.value(input).type.shape != shape) {
      return {{Reason::index_maps_differ,
               fmt::format("%{} is {}, its operand %{} is {}", graph.value(op.outputs[0]).name,
                           mine.to_string(), graph.value(input).name,
                           graph.value(input).type.to_string())}};
    }
  }
  return {};
}

// Why the group of `op` cannot join the group that computes `edge`. All that comes to depend on an
// anchor must follow it element by element, not only `op` itself.
Obstacle obstacle(const Partition& p, const Op& op, ValueId edge) {
  const Graph& graph = p.graph();
  const Op& producer = *graph.producer(edge);
  const int group = p.group_of(producer.id);
  const OpDef& def = p.def(producer);
  if (def.op_class == OpClass::kernel_like) {
    const ResultDef& result = def.results[static_cast<size_t>(graph.value(edge).result_index)];
    if (!result.takes_epilogue) {
      return {{Reason::slot_not_supported,
               fmt::format("{} has no place for an epilogue behind '{}'", def.name, result.name)}};
    }
  }
  if (!p.has_anchor(group)) return obstacle_at(p, op, group, {});
  std::set<OpId> follows;
  for (OpId id : p.members(p.group_of(op.id))) {
    const Op& member = graph.op(id);
    const bool depends = std::ranges::any_of(member.inputs, [&](ValueId input) {
      const Op* from = graph.producer(view_base(graph, input));
      return from != nullptr && (p.group_of(from->id) == group || follows.contains(from->id));
    });
    if (!depends) continue;
    if (auto why = obstacle_at(p, member, group, follows)) return why;
    follows.insert(id);
  }
  return {};
}

// Epilogues and forward chains: an elementwise op joins the last of its producers that can take it.
void join_producer(Partition& p, const Op& op) {
  const Graph& graph = p.graph();
  std::vector<ValueId> edges;
  for (ValueId input : op.inputs) {
    const ValueId base = view_base(graph, input);
    const Op* producer = graph.producer(base);
    if (producer != nullptr && std::ranges::find(edges, base) == edges.end()) edges.push_back(base);
  }
  std::ranges::sort(edges, std::greater<>{});
  for (ValueId edge : edges) {
    const Op& producer = *graph.producer(edge);
    const int theirs = p.group_of(producer.id), mine = p.group_of(op.id);
    if (theirs == mine) continue;
    if (const auto why = obstacle(p, op, edge)) {
      p.refuse(kRule, producer.id, op.id, why->first, why->second);
      continue;
    }
    if (p.has_anchor(theirs) && p.has_anchor(mine)) {
      p.refuse(kRule, producer.id, op.id, Reason::slot_not_supported,
               fmt::format("{} already follows another kernel's anchor", op.kind));
      continue;
    }
    if (!p.can_merge({theirs, mine})) {
      p.refuse(kRule, producer.id, op.id, Reason::cycle,
               "the fused region would wait for its own result");
      continue;
    }
    const auto uses = p.uses(edge);
    const bool last = !p.visible(edge) && std::ranges::all_of(uses, [&](const Partition::Use& use) {
      return use.op == op.id || p.group_of(use.op) == theirs;
    });
    p.merge(kRule, {theirs, mine}, last ? Reason::saves_traffic : Reason::saves_launch,
            fmt::format("{} runs on %{} before it is stored{}", op.kind, graph.value(edge).name,
                        last ? ", which then needs no memory" : ""),
            edge);
  }
}

}  // namespace

void fuse_elementwise_chains(Partition& p) {
  for (const Op& op : p.graph().ops()) {
    if (pointwise(p, op.id)) join_producer(p, op);
  }
  // What is left in front of an anchor or a chain: from the last op to the first, so that whole
  // chains move together.
  for (const Op& op : std::ranges::reverse_view(p.graph().ops())) {
    const int group = p.group_of(op.id);
    if (group < 0 || p.has_anchor(group) ||
        !std::ranges::all_of(p.members(group), [&](OpId m) { return pointwise(p, m); }))
      continue;
    absorb_into_users(p, group, kRule, false);
  }
}

}  // namespace gm
