#include "compiler/passes/passes.h"
#include "ir/graph_rebuild.h"

namespace gm {
namespace {

std::vector<bool> live_ops(const Graph& graph) {
  std::vector<bool> live(graph.ops().size(), false);
  std::vector<ValueId> work;
  for (const GraphOutput& output : graph.outputs()) work.push_back(output.value);
  while (!work.empty()) {
    const Op* op = graph.producer(work.back());
    work.pop_back();
    if (op == nullptr || live[index_of(op->id)]) continue;
    live[index_of(op->id)] = true;
    work.insert(work.end(), op->inputs.begin(), op->inputs.end());
  }
  return live;
}

}  // namespace

Result<Module> eliminate_dead_ops(const Module& module) {
  Module result = module;
  for (Unit& unit : result.units) {
    const std::vector<bool> live = live_ops(unit.graph);
    GM_ASSIGN(unit.graph, rebuild(unit.graph, [&](const Op& op) {
                return live[index_of(op.id)] ? std::optional(op) : std::nullopt;
              }));
  }
  return result;
}

}  // namespace gm
