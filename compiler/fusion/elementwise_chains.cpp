#include <algorithm>
#include <ranges>

#include "compiler/fusion/absorb.h"
#include "compiler/fusion/epilogue.h"
#include "compiler/fusion/rules.h"

namespace gm {
namespace {

constexpr const char* kRule = "elementwise-chain";

bool pointwise(const Partition& p, OpId op) {
  return p.def(p.graph().op(op)).op_class == OpClass::pointwise;
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
    if (const auto why = epilogue_obstacle(p, op, edge)) {
      p.refuse(kRule, producer.id, op.id, why->first, why->second);
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
