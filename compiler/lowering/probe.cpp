#include "compiler/lowering/probe.h"

#include <algorithm>

namespace gm {
namespace {

class Probe final : public ReadContext {
 public:
  Probe(const Graph& graph, const Op& op)
      : result_(graph.value(op.outputs[0]).type),
        types_([&] {
          std::vector<TensorType> types;
          for (ValueId input : op.inputs) types.push_back(graph.value(input).type);
          return types;
        }()),
        instance_(*graph.table().find(op.kind), types_, op.attrs) {}
  const OpInstance& op() const override { return instance_; }
  const TensorType& result(size_t) const override { return result_; }
  Expr read(size_t operand, std::vector<Expr> indices) override {
    const bool floats = is_float(types_[operand].dtype);
    return Expr::load(std::to_string(operand), std::move(indices),
                      floats ? ScalarType::f32 : ScalarType::index);
  }

 private:
  const TensorType& result_;
  std::vector<TensorType> types_;
  OpInstance instance_;
};

}  // namespace

Expr probe_element(const Graph& graph, const Op& op, std::span<const Expr> indices) {
  Probe probe(graph, op);
  return graph.table().find(op.kind)->element(probe, indices);
}

std::vector<std::vector<Expr>> elements_read(const Graph& graph, const Op& op, size_t operand,
                                             std::span<const Expr> indices) {
  std::vector<std::vector<Expr>> reads;
  const std::string name = std::to_string(operand);
  visit_nodes(probe_element(graph, op, indices), [&](const Expr& node) {
    if (node->kind != ExprKind::load || node->name != name) return;
    if (std::ranges::find(reads, node->args) == reads.end()) reads.push_back(node->args);
  });
  return reads;
}

}  // namespace gm
