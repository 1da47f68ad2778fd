#include "tools/common/bench_work.h"

#include <algorithm>
#include <map>

#include "ir/graph_text.h"
#include "ops/cost.h"
#include "ops/ops.h"

namespace gm {
namespace {

using Values = std::map<std::string, int64_t, std::less<>>;

Values values_of(const Graph& graph, const Plan& plan, const StepShape& shape) {
  Values values;
  for (const SymInfo& symbol : graph.symbols.symbols()) {
    const SymRange range = graph.symbols.range(SymExpr::symbol(symbol.name));
    int64_t value = range.lo.value_or(0);
    switch (symbol.role) {
      case SymRole::tokens:
        value = shape.tokens;
        break;
      case SymRole::seqs:
      case SymRole::slots:
        value = shape.seqs;
        break;
      case SymRole::rows:
        value = shape.rows;
        break;
      case SymRole::context:
        value = plan.limits.max_context;
        break;
      case SymRole::pages:
      case SymRole::constant:
      case SymRole::loop:
        break;
    }
    values[symbol.name] = value;
  }
  return values;
}

int64_t value_of(const SymExpr& e, const Values& values) {
  const std::optional<int64_t> value = e.evaluate(values);
  GM_CHECK(value.has_value(), "{} has no value in a step", e.to_string());
  return *value;
}

int64_t bytes_of(const TensorType& type, const Values& values) {
  return value_of(element_count(type), values) * size_bytes(type.dtype);
}

// What of a weight the op reads.
int64_t bytes_read(const Graph& graph, const Op& op, const Value& weight, const Values& values) {
  const int64_t whole = bytes_of(weight.type, values);
  const int64_t outermost = weight.type.shape.empty() ? 1 : value_of(weight.type.shape[0], values);
  const auto& result = graph.value(op.outputs[0]).type.shape;
  if (op.kind == "embedding")
    return whole / outermost * std::min(outermost, value_of(result[0], values));
  if (op.kind == "grouped_linear" && op.inputs[1] == weight.id) {
    return whole / outermost * std::min(outermost, value_of(result[0] * result[1], values));
  }
  return whole;
}

// The pairs of a token and a token that it sees; tokens are shared evenly by the sequences.
double pairs(const StepShape& shape) {
  const auto each = static_cast<double>(shape.tokens) / static_cast<double>(shape.seqs);
  return static_cast<double>(shape.tokens) * (static_cast<double>(shape.context) + (each + 1) / 2);
}

double multiply_adds(const Graph& graph, const Op& op, const Plan& plan, const StepShape& shape,
                     const Values& values) {
  const OpDef* const def = graph.table().find(op.kind);
  GM_CHECK(def != nullptr, "no op {}", op.kind);
  const bool counted = def->op_class == OpClass::contraction || op.kind == "attention" ||
                       op.kind == "gated_delta_rule" || op.kind == "causal_conv";
  if (!counted) return 0;
  std::vector<TensorType> inputs, results;
  for (const ValueId id : op.inputs) inputs.push_back(graph.value(id).type);
  for (const ValueId id : op.outputs) results.push_back(graph.value(id).type);
  const OpInstance instance(*def, inputs, op.attrs);
  const double flops = static_cast<double>(value_of(op_flops(instance, results), values));
  if (op.kind != "attention") return flops / 2;
  // Its cost is told as if each token saw the longest context, in whole pages.
  const int64_t page = plan.limits.page_tokens;
  const int64_t longest = (plan.limits.max_context + page - 1) / page * page;
  return flops / 2 / static_cast<double>(shape.tokens * longest) * pairs(shape);
}

}  // namespace

Result<StepWork> count_work(const Plan& plan, const std::string& program, const StepShape& shape) {
  const Program* const found = plan.find_program(program);
  GM_CHECK(found != nullptr, "no program {}", program);
  const auto text = plan.texts.find(found->graph);
  GM_CHECK(text != plan.texts.end(), "no text {}", found->graph);
  GM_ASSIGN(const Graph graph, parse_graph(text->second, found->graph, builtin_ops()));
  const Values values = values_of(graph, plan, shape);
  StepWork work;
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::weight) continue;
    int64_t most = 0;
    for (const OpId user : graph.users(value.id))
      most = std::max(most, bytes_read(graph, graph.op(user), value, values));
    work.weight_bytes += most;
  }
  for (const StateBuffer& state : plan.states) {
    int64_t entry = size_bytes(state.dtype);
    for (size_t i = 1; i < state.shape.size(); ++i) entry *= value_of(state.shape[i], values);
    if (state.shape.at(0) == SymExpr::symbol("pages")) {
      const int64_t token = entry / plan.limits.page_tokens;
      work.kv_bytes += token * (shape.seqs * shape.context + shape.tokens * 2);
    } else {
      work.state_bytes += entry * shape.seqs * 2;
    }
  }
  for (const Op& op : graph.ops())
    work.multiply_adds += multiply_adds(graph, op, plan, shape, values);
  return work;
}

}  // namespace gm
