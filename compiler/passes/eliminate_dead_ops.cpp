#include "compiler/passes/passes.h"

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
    const Graph& old = unit.graph;
    const std::vector<bool> live = live_ops(old);
    Graph graph(old.table());
    graph.name = old.name;
    graph.symbols = old.symbols;
    std::vector<ValueId> moved(old.values().size());
    for (const Value& value : old.values()) {
      // Step inputs stay even when nothing reads them: they are the step signature.
      if (value.kind == ValueKind::input)
        moved[index_of(value.id)] = graph.add_input(value.name, value.type, value.contract);
      if (value.kind == ValueKind::state)
        moved[index_of(value.id)] = graph.add_state(value.name, value.type);
      if (value.kind != ValueKind::weight) continue;
      bool used = false;
      for (OpId user : old.users(value.id)) used |= live[index_of(user)];
      if (used) moved[index_of(value.id)] = graph.add_weight(value.name, value.type, *value.source);
    }
    for (const Op& op : old.ops()) {
      if (!live[index_of(op.id)]) continue;
      std::vector<ValueId> inputs;
      for (ValueId input : op.inputs) inputs.push_back(moved[index_of(input)]);
      std::vector<std::string> names;
      for (ValueId output : op.outputs) names.push_back(old.value(output).name);
      GM_ASSIGN(const std::vector<ValueId> outputs,
                graph.add_op(op.kind, std::move(inputs), op.attrs, op.where, std::move(names),
                             op.location));
      for (size_t i = 0; i < outputs.size(); ++i) moved[index_of(op.outputs[i])] = outputs[i];
    }
    for (const GraphOutput& output : old.outputs()) {
      if (output.is_state) {
        graph.add_state_output(output.name, moved[index_of(output.value)]);
      } else {
        graph.add_output(output.name, moved[index_of(output.value)]);
      }
    }
    unit.graph = std::move(graph);
  }
  return result;
}

}  // namespace gm
