#include "ir/graph_rebuild.h"

#include "ir/opdef.h"

namespace gm {

Result<Graph> rebuild(const Graph& old, const std::function<std::optional<Op>(const Op&)>& edit) {
  std::vector<std::optional<Op>> edited;
  std::vector<bool> read(old.values().size(), false);
  for (const Op& op : old.ops()) {
    edited.push_back(edit(op));
    if (!edited.back()) continue;
    for (ValueId input : edited.back()->inputs) read[index_of(input)] = true;
  }
  Graph graph(old.table());
  graph.name = old.name;
  graph.symbols = old.symbols;
  std::vector<ValueId> moved(old.values().size());
  for (const Value& value : old.values()) {
    ValueId& to = moved[index_of(value.id)];
    if (value.kind == ValueKind::input)
      to = graph.add_input(value.name, value.type, value.contract);
    if (value.kind == ValueKind::state) to = graph.add_state(value.name, value.type);
    if (value.kind == ValueKind::weight && read[index_of(value.id)])
      to = graph.add_weight(value.name, value.type, *value.source);
  }
  for (std::optional<Op>& op : edited) {
    if (!op) continue;
    std::vector<ValueId> inputs;
    for (ValueId input : op->inputs) inputs.push_back(moved[index_of(input)]);
    std::vector<std::string> names;
    for (ValueId output : op->outputs) names.push_back(old.value(output).name);
    GM_ASSIGN(const std::vector<ValueId> outputs,
              graph.add_op(op->kind, std::move(inputs), std::move(op->attrs), std::move(op->where),
                           std::move(names), op->location));
    for (size_t i = 0; i < outputs.size(); ++i) moved[index_of(op->outputs[i])] = outputs[i];
  }
  for (const GraphOutput& output : old.outputs()) {
    if (output.is_state) {
      graph.add_state_output(output.name, moved[index_of(output.value)]);
    } else {
      graph.add_output(output.name, moved[index_of(output.value)]);
    }
  }
  return graph;
}

}  // namespace gm
