#include "compiler/lowering/region_lowering.h"

#include <algorithm>
#include <numeric>

#include "base/hash.h"
#include "compiler/lowering/element.h"

namespace gm {
namespace {

// Rows of a contraction's left side that one work item holds, so that a streamed weight serves
// several tokens.
constexpr int64_t kRowBlock = 4;
// Columns of an elementwise work item.
constexpr int64_t kColumnBlock = 1024;

class Lowering;

// LoweringContext of a kernel-like anchor.
class AnchorContext final : public LoweringContext {
 public:
  AnchorContext(Lowering& lowering, const Op& anchor);
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
  Lowering& lowering_;
  const Op& anchor_;
  OpReader reader_;
};

class Lowering {
 public:
  Lowering(const Graph& graph, const Packing& packing, const Region& region)
      : graph_(graph),
        packing_(packing),
        region_(region),
        params_(graph, packing),
        reader_(graph, packing, members(region), params_),
        outputs_(region_outputs(graph, region)),
        written_(outputs_.size(), false) {}

  LoweredRegion run() {
    for (const std::vector<OpId>& group : contraction_groups()) lower_contractions(group);
    for (const Member& m : region_.members) {
      const Op& op = graph_.op(m.op);
      const OpDef& def = *graph_.table().find(op.kind);
      if (def.op_class != OpClass::kernel_like) continue;
      AnchorContext context(*this, op);
      def.lower(context);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!written_[i]) lower_elements(outputs_[i]);
    }
    return finish();
  }

 private:
  friend class AnchorContext;

  static std::set<OpId> members(const Region& region) {
    std::set<OpId> ops;
    for (const Member& m : region.members) ops.insert(m.op);
    return ops;
  }

  bool is_member(OpId op) const {
    return std::ranges::any_of(region_.members, [&](const Member& m) { return m.op == op; });
  }

  void mark_written(ValueId value) {
    const auto found = std::ranges::find(outputs_, value);
    if (found != outputs_.end()) written_[static_cast<size_t>(found - outputs_.begin())] = true;
  }

  // Whether some value on the way from the region's borders to `value` satisfies `wanted`.
  bool comes_from(ValueId value, const std::function<bool(ValueId)>& wanted) const {
    if (wanted(value)) return true;
    const Op* op = graph_.producer(value);
    if (op == nullptr || (!is_member(op->id) && !is_view(graph_, *op))) return false;
    return std::ranges::any_of(op->inputs,
                               [&](ValueId input) { return comes_from(input, wanted); });
  }

  // The region's outputs that are computed from `source`; state leaves through write_state.
  std::vector<ValueId> outputs_from(ValueId source) const {
    std::vector<ValueId> values;
    for (ValueId output : outputs_) {
      if (comes_from(output, [&](ValueId v) { return v == source; })) values.push_back(output);
    }
    return values;
  }

  // A row reduction lies on the way to `value`.
  bool reduces_rows(ValueId value) const {
    return comes_from(value, [&](ValueId v) {
      const Op* op = graph_.producer(v);
      return op != nullptr && is_member(op->id) &&
             graph_.table().find(op->kind)->op_class == OpClass::row_reduction;
    });
  }

  // A weight's element in panel `panel`, column `n` of it.
  Expr panel_load(const Op& op, const OpDef& def, OpReader& reader, const std::vector<Expr>& row,
                  const Expr& panel, const Expr& n, const Expr& k) {
    const Value& weight = graph_.value(op.inputs[1]);
    GM_CHECK(weight.kind == ValueKind::weight, "{} multiplies with {}, which is no weight",
             op.where, weight.name);
    std::vector<Expr> indices =
        packed_indices(packing_.weights.at(weight.name),
                       def.w_index(reader, row, panel * Expr::index(kPanelWidth), k));
    indices.back() = n;
    return Expr::load(params_.weight(weight.id), std::move(indices), ScalarType::f32);
  }

  // Contractions whose results meet in one epilogue share a part.
  std::vector<std::vector<OpId>> contraction_groups() const {
    std::vector<OpId> anchors;
    for (const Member& m : region_.members) {
      if (graph_.table().find(graph_.op(m.op).kind)->op_class == OpClass::contraction)
        anchors.push_back(m.op);
    }
    std::vector<size_t> group(anchors.size());
    std::iota(group.begin(), group.end(), size_t{0});
    for (ValueId output : outputs_) {
      size_t first = anchors.size();
      for (size_t i = 0; i < anchors.size(); ++i) {
        const ValueId result = graph_.op(anchors[i]).outputs[0];
        if (!comes_from(output, [&](ValueId v) { return v == result; })) continue;
        if (first == anchors.size()) first = group[i];
        const size_t old = group[i];
        std::ranges::replace(group, old, first);
      }
    }
    std::vector<std::vector<OpId>> groups;
    for (size_t g = 0; g < anchors.size(); ++g) {
      std::vector<OpId> ops;
      for (size_t i = 0; i < anchors.size(); ++i) {
        if (group[i] == g) ops.push_back(anchors[i]);
      }
      if (!ops.empty()) groups.push_back(std::move(ops));
    }
    return groups;
  }

  void begin_part(std::string_view name, const std::vector<std::pair<std::string, SymExpr>>& grid) {
    part_ = Part{};
    builder_ = BlockBuilder();
    part_.name = std::string(name);
    for (int n = 2;
         std::ranges::any_of(kernel_.parts, [&](const Part& p) { return p.name == part_.name; });
         ++n) {
      part_.name = fmt::format("{}_{}", name, n);
    }
    // Tiles and axes keep clear of what parameters are or may come to be called.
    for (const std::string& taken : parameter_names()) builder_.fresh(taken);
    for (const auto& [base, extent] : grid) part_.grid.push_back({builder_.fresh(base), extent});
    reader_.begin(&builder_);
  }

  std::set<std::string> parameter_names() const {
    std::set<std::string> names;
    for (const Member& m : region_.members) {
      const Op& op = graph_.op(m.op);
      for (const auto& values : {op.inputs, op.outputs}) {
        for (ValueId value : values) {
          const Value& base =
              graph_.value(KernelParams::state_root(graph_, view_base(graph_, value)));
          const bool weight = base.kind == ValueKind::weight;
          names.insert(
              KernelParams::base_name(weight ? packing_.weights.at(base.name).buffer : base.name));
        }
      }
    }
    return names;
  }

  std::vector<Expr> grid_indices() const {
    std::vector<Expr> indices;
    for (const Axis& axis : part_.grid) indices.push_back(at(axis));
    return indices;
  }

  void end_part() {
    part_.body = builder_.take();
    kernel_.parts.push_back(std::move(part_));
  }

  std::string part_name(ValueId value) const {
    const std::string& name = graph_.value(value).name;
    return name.substr(name.rfind('.') + 1);
  }

  // Stores the outputs that follow from a bound value, at the same indices.
  void store_outputs(BlockBuilder& b, const std::vector<ValueId>& outputs,
                     const std::vector<Axis>& axes, const std::vector<Expr>& indices) {
    for (ValueId output : outputs) {
      Expr value = reader_.element(output, indices);
      b.store(params_.activation(output, Access::write), axes, indices, std::move(value));
      mark_written(output);
    }
  }

  void lower_contractions(const std::vector<OpId>& anchors);
  void lower_elements(ValueId output);
  LoweredRegion finish();

  const Graph& graph_;
  const Packing& packing_;
  const Region& region_;
  KernelParams params_;
  ElementReader reader_;
  std::vector<ValueId> outputs_;
  std::vector<bool> written_;
  Kernel kernel_;
  Part part_;
  BlockBuilder builder_;
};

void Lowering::lower_contractions(const std::vector<OpId>& anchors) {
  const Op& first = graph_.op(anchors.front());
  const OpDef& def = *graph_.table().find(first.kind);
  const TensorType& type = graph_.value(first.outputs[0]).type;
  const SymExpr columns = type.shape.back();
  const std::vector<SymExpr> rows(type.shape.begin(), type.shape.end() - 1);
  // A weight that is chosen by row (experts) cannot serve several rows at once.
  const bool blocked = rows.size() == 1 && first.inputs.size() == 2;

  std::vector<std::pair<std::string, SymExpr>> grid{{"nb", SymExpr::ceildiv(columns, kPanelWidth)}};
  for (const SymExpr& extent : rows) {
    grid.emplace_back(blocked ? "tb" : "t", blocked ? SymExpr::ceildiv(extent, kRowBlock) : extent);
  }
  begin_part(part_name(first.outputs[0]), grid);
  const std::vector<Expr> g = grid_indices();
  const Expr column0 = g[0] * Expr::index(kPanelWidth);
  const SymExpr row_extent =
      blocked ? SymExpr::min(kRowBlock, rows[0] - SymExpr(kRowBlock) * *g[1].as_sym()) : SymExpr(1);
  auto row_at = [&](const Axis& m) {
    if (blocked) return std::vector<Expr>{g[1] * Expr::index(kRowBlock) + at(m)};
    return std::vector<Expr>(g.begin() + 1, g.end());
  };

  std::string left;
  {
    OpReader reader(reader_, graph_, first);
    const Axis m = builder_.axis("m", row_extent);
    const Axis k = builder_.axis("k", def.extent_k(reader.op()));
    Expr value = reader_.element(first.inputs[0], def.a_index(reader, row_at(m), at(k)));
    left = builder_.tile("a", {m, k}, std::move(value));
  }
  std::vector<std::string> sums;
  for (OpId anchor : anchors) {
    const Op& op = graph_.op(anchor);
    OpReader reader(reader_, graph_, op);
    const Axis m = builder_.axis("m", row_extent);
    const Axis n = builder_.axis("n", kPanelWidth);
    const Axis k = builder_.axis("k", def.extent_k(reader.op()));
    // Panels are padded to the full width, so that the loop over columns has a constant extent.
    Expr weight = panel_load(op, def, reader, row_at(m), g[0], at(n), at(k));
    sums.push_back(builder_.reduce("acc", {m, n}, k, ReduceOp::dot,
                                   {ReduceOrder::Kind::chain, kChainBlock},
                                   at(left, {at(m), at(k)}), std::move(weight)));
  }
  std::vector<ValueId> outputs;
  for (OpId anchor : anchors) {
    for (ValueId output : outputs_from(graph_.op(anchor).outputs[0])) {
      if (std::ranges::find(outputs, output) == outputs.end()) outputs.push_back(output);
    }
  }
  std::ranges::sort(outputs);
  SymExpr column_extent =
      SymExpr::min(kPanelWidth, columns - SymExpr(kPanelWidth) * *g[0].as_sym());
  if (const auto n = columns.constant(); n && *n % kPanelWidth == 0) column_extent = kPanelWidth;
  if (const auto n = columns.constant(); n && *n < kPanelWidth) column_extent = columns;
  for (ValueId output : outputs) {
    const Axis m = builder_.axis("m", row_extent);
    const Axis n = builder_.axis("n", column_extent);
    std::vector<Expr> indices = row_at(m);
    indices.push_back(column0 + at(n));
    for (size_t i = 0; i < anchors.size(); ++i) {
      const Value& result = graph_.value(graph_.op(anchors[i]).outputs[0]);
      reader_.bind(
          result.id, indices,
          Expr::round(result.type.dtype, at(sums[i], {blocked ? at(m) : Expr::index(0), at(n)})));
    }
    std::vector<Axis> axes{m, n};
    if (!blocked) axes = {n};
    store_outputs(builder_, {output}, axes, indices);
    reader_.unbind();
  }
  end_part();
}

void Lowering::lower_elements(ValueId output) {
  const TensorType& type = graph_.value(output).type;
  GM_CHECK(!type.shape.empty(), "scalar values are not lowered: {}", graph_.value(output).name);
  const SymExpr columns = type.shape.back();
  const OpDef& def = *graph_.table().find(graph_.producer(output)->kind);
  // A row reduction (here or on the way) is computed once a row, so its row is not cut.
  const bool cut = def.op_class == OpClass::pointwise && !reduces_rows(output);
  std::vector<std::pair<std::string, SymExpr>> grid;
  for (size_t i = 0; i + 1 < type.shape.size(); ++i) grid.emplace_back("t", type.shape[i]);
  if (cut) grid.emplace_back("cb", SymExpr::ceildiv(columns, kColumnBlock));
  begin_part(part_name(output), grid);
  std::vector<Expr> indices = grid_indices();
  SymExpr extent = columns;
  Expr column0 = Expr::index(0);
  if (cut) {
    column0 = indices.back() * Expr::index(kColumnBlock);
    const SymExpr block = part_.grid.back().extent;
    extent =
        block.constant() == 1 ? columns : SymExpr::min(kColumnBlock, columns - *column0.as_sym());
    indices.pop_back();
  }
  const Axis i = builder_.axis("i", extent);
  indices.push_back(column0 + at(i));
  store_outputs(builder_, {output}, {i}, indices);
  end_part();
}

LoweredRegion Lowering::finish() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    GM_CHECK(written_[i], "{} is not written by its kernel", graph_.value(outputs_[i]).name);
  }
  LoweredRegion lowered;
  for (const KernelParams::Entry& e : params_.entries()) {
    kernel_.params.push_back(e.param);
    lowered.bindings.push_back({e.value, e.weight_buffer});
  }
  kernel_.symbols = graph_.symbols;
  std::string anchors;
  for (const Member& m : region_.members) {
    if (m.role != Role::anchor && m.role != Role::member) continue;
    if (!anchors.empty()) anchors += "_";
    anchors += graph_.op(m.op).kind;
    if (anchors.size() > 40) break;
  }
  kernel_.name = "kernel";
  kernel_.name = fmt::format("{}_{}", anchors, digest(print_kernel(kernel_)).substr(0, 12));
  lowered.kernel = std::move(kernel_);
  return lowered;
}

AnchorContext::AnchorContext(Lowering& lowering, const Op& anchor)
    : lowering_(lowering), anchor_(anchor), reader_(lowering.reader_, lowering.graph_, anchor) {}

void AnchorContext::part(std::string_view name, std::vector<std::pair<std::string, SymExpr>> grid,
                         const std::function<void(BlockBuilder&, std::span<const Expr>)>& body) {
  lowering_.begin_part(name, grid);
  body(lowering_.builder_, lowering_.grid_indices());
  lowering_.end_part();
}

void AnchorContext::write(BlockBuilder& b, size_t result, std::vector<Axis> axes,
                          std::vector<Expr> indices, Expr value) {
  const Value& target = lowering_.graph_.value(anchor_.outputs[result]);
  const std::vector<ValueId> outputs = lowering_.outputs_from(target.id);
  if (is_float(target.type.dtype)) value = Expr::round(target.type.dtype, std::move(value));
  lowering_.reader_.bind(target.id, indices, std::move(value));
  lowering_.store_outputs(b, outputs, axes, indices);
  lowering_.reader_.unbind();
}

Expr AnchorContext::read_state(size_t operand, std::vector<Expr> indices) {
  return Expr::load(lowering_.params_.state(anchor_.inputs[operand], Access::read),
                    std::move(indices), ScalarType::f32);
}

void AnchorContext::write_state(BlockBuilder& b, size_t result, std::vector<Axis> axes,
                                std::vector<Expr> indices, Expr value) {
  b.store(lowering_.params_.state(anchor_.outputs[result], Access::write), std::move(axes),
          std::move(indices), std::move(value));
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
  return Lowering(graph, packing, region).run();
}

}  // namespace gm
