#include "compiler/lowering/region_lowering.h"

#include <algorithm>

#include "compiler/lowering/kernel_writer.h"

namespace gm {
namespace {

// Columns of an elementwise work item.
constexpr int64_t kColumnBlock = 1024;

// LoweringContext of a kernel-like anchor.
class AnchorContext final : public LoweringContext {
 public:
  AnchorContext(KernelWriter& writer, const Op& anchor)
      : writer_(writer), anchor_(anchor), reader_(writer.reader(), writer.graph(), anchor) {}
  const OpInstance& op() const override { return reader_.op(); }
  const TensorType& result(size_t i) const override { return reader_.result(i); }
  Expr read(size_t operand, std::vector<Expr> indices) override {
    return reader_.read(operand, std::move(indices));
  }
  void part(std::string_view name, std::vector<std::pair<std::string, SymExpr>> grid,
            const std::function<void(BlockBuilder&, std::span<const Expr>)>& body) override;
  void write(BlockBuilder& b, size_t result, std::vector<Axis> axes, std::vector<Expr> indices,
             Expr value) override;
  Expr read_state(size_t operand, std::vector<Expr> indices) override;
  void write_state(BlockBuilder& b, size_t result, std::vector<Axis> axes,
                   std::vector<Expr> indices, Expr value) override;

 private:
  KernelWriter& writer_;
  const Op& anchor_;
  OpReader reader_;
};

void AnchorContext::part(std::string_view name, std::vector<std::pair<std::string, SymExpr>> grid,
                         const std::function<void(BlockBuilder&, std::span<const Expr>)>& body) {
  writer_.begin_part(name, grid);
  body(writer_.builder(), writer_.grid_indices());
  writer_.end_part();
}

void AnchorContext::write(BlockBuilder& b, size_t result, std::vector<Axis> axes,
                          std::vector<Expr> indices, Expr value) {
  const Value& target = writer_.graph().value(anchor_.outputs[result]);
  std::vector<ValueId> outputs = writer_.outputs_from(target.id);
  // What follows a row-wise op may need other results too, and computes all of them itself.
  if (reader_.op().def().row_wise)
    std::erase_if(outputs, [&](ValueId output) { return output != target.id; });
  if (is_float(target.type.dtype)) value = Expr::round(target.type.dtype, std::move(value));
  writer_.reader().bind(target.id, indices, std::move(value));
  writer_.store(b, outputs, axes, indices);
  writer_.reader().unbind();
}

Expr AnchorContext::read_state(size_t operand, std::vector<Expr> indices) {
  return Expr::load(writer_.params().state(anchor_.inputs[operand], Access::read),
                    std::move(indices), ScalarType::f32);
}

void AnchorContext::write_state(BlockBuilder& b, size_t result, std::vector<Axis> axes,
                                std::vector<Expr> indices, Expr value) {
  b.store(writer_.params().state(anchor_.outputs[result], Access::write), std::move(axes),
          std::move(indices), std::move(value));
}

void lower_elements(KernelWriter& w, ValueId output) {
  const Graph& graph = w.graph();
  const TensorType& type = graph.value(output).type;
  GM_CHECK(!type.shape.empty(), "scalar values are not lowered: {}", graph.value(output).name);
  const SymExpr columns = type.shape.back();
  const OpDef& def = w.def(*graph.producer(output));
  // A row reduction (here or on the way) is computed once a row, so its row is not cut.
  const bool cut = def.op_class == OpClass::pointwise && !w.reduces_rows(output);
  std::vector<std::pair<std::string, SymExpr>> grid;
  for (size_t i = 0; i + 1 < type.shape.size(); ++i) grid.emplace_back("t", type.shape[i]);
  if (cut) grid.emplace_back("cb", SymExpr::ceildiv(columns, kColumnBlock));
  w.begin_part(w.part_name(output), grid);
  std::vector<Expr> indices = w.grid_indices();
  SymExpr extent = columns;
  Expr column0 = Expr::index(0);
  if (cut) {
    column0 = indices.back() * Expr::index(kColumnBlock);
    const SymExpr block = w.grid().back().extent;
    extent =
        block.constant() == 1 ? columns : SymExpr::min(kColumnBlock, columns - *column0.as_sym());
    indices.pop_back();
  }
  const Axis i = w.builder().axis("i", extent);
  indices.push_back(column0 + at(i));
  w.store(w.builder(), {output}, {i}, indices);
  w.end_part();
}

}  // namespace

std::vector<ValueId> region_outputs(const Graph& graph, const Region& region) {
  auto inside = [&](OpId op) {
    return std::ranges::any_of(region.members, [&](const Member& m) { return m.op == op; });
  };
  // A view of a value is a use of it by whoever uses the view.
  std::function<bool(ValueId)> used_outside = [&](ValueId value) {
    if (graph.is_output(value)) return true;
    return std::ranges::any_of(graph.users(value), [&](OpId user) {
      const Op& op = graph.op(user);
      if (is_view(graph, op)) return used_outside(op.outputs[0]);
      return !inside(user);
    });
  };
  std::vector<ValueId> outputs;
  for (const Member& m : region.members) {
    for (ValueId value : graph.op(m.op).outputs) {
      if (!graph.value(value).is_state && used_outside(value)) outputs.push_back(value);
    }
  }
  std::ranges::sort(outputs);
  return outputs;
}

LoweredRegion lower_region(const Graph& graph, const Packing& packing, const Region& region) {
  KernelWriter writer(graph, packing, region);
  lower_contractions(writer);
  for (const Member& m : region.members) {
    const Op& op = graph.op(m.op);
    const OpDef& def = writer.def(op);
    if (def.op_class != OpClass::kernel_like) continue;
    // What reads a row-wise op in this region computes its rows where it needs them.
    if (def.row_wise &&
        std::ranges::none_of(op.outputs, [&](ValueId v) { return writer.is_output(v); }))
      continue;
    AnchorContext context(writer, op);
    def.lower(context);
  }
  for (ValueId output : writer.outputs()) {
    if (!writer.is_written(output)) lower_elements(writer, output);
  }
  return writer.finish();
}

}  // namespace gm
