#include "compiler/lowering/kernel_writer.h"

#include <algorithm>

#include "base/hash.h"

namespace gm {
namespace {

std::set<OpId> ops_of(const Region& region) {
  std::set<OpId> ops;
  for (const Member& m : region.members) ops.insert(m.op);
  return ops;
}

}  // namespace

KernelWriter::KernelWriter(const Graph& graph, const Packing& packing, const Region& region)
    : graph_(graph),
      packing_(packing),
      region_(region),
      params_(graph, packing),
      reader_(graph, packing, ops_of(region), params_),
      outputs_(region_outputs(graph, region)),
      written_(outputs_.size(), false) {}

bool KernelWriter::is_member(OpId op) const {
  return std::ranges::any_of(region_.members, [&](const Member& m) { return m.op == op; });
}

bool KernelWriter::is_output(ValueId value) const {
  return std::ranges::find(outputs_, value) != outputs_.end();
}

bool KernelWriter::is_written(ValueId output) const {
  const auto found = std::ranges::find(outputs_, output);
  return found != outputs_.end() && written_[static_cast<size_t>(found - outputs_.begin())];
}

bool KernelWriter::comes_from(ValueId value, const std::function<bool(ValueId)>& wanted) const {
  if (wanted(value)) return true;
  const Op* op = graph_.producer(value);
  if (op == nullptr || (!is_member(op->id) && !is_view(graph_, *op))) return false;
  if (is_anchor(*graph_.table().find(op->kind))) return false;
  return std::ranges::any_of(op->inputs, [&](ValueId input) { return comes_from(input, wanted); });
}

std::vector<ValueId> KernelWriter::outputs_from(ValueId source) const {
  std::vector<ValueId> values;
  for (ValueId output : outputs_) {
    if (comes_from(output, [&](ValueId v) { return v == source; })) values.push_back(output);
  }
  return values;
}

bool KernelWriter::reduces_rows(ValueId value) const {
  return comes_from(value, [&](ValueId v) {
    const Op* op = graph_.producer(v);
    if (op == nullptr || !is_member(op->id)) return false;
    const OpDef& def = *graph_.table().find(op->kind);
    return def.op_class == OpClass::row_reduction || def.row_wise;
  });
}

void KernelWriter::begin_part(std::string_view name,
                              const std::vector<std::pair<std::string, SymExpr>>& grid) {
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

std::set<std::string> KernelWriter::parameter_names() const {
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

std::vector<Expr> KernelWriter::grid_indices() const {
  std::vector<Expr> indices;
  for (const Axis& axis : part_.grid) indices.push_back(at(axis));
  return indices;
}

void KernelWriter::end_part() {
  part_.body = builder_.take();
  kernel_.parts.push_back(std::move(part_));
}

std::string KernelWriter::part_name(ValueId value) const {
  const std::string& name = graph_.value(value).name;
  return name.substr(name.rfind('.') + 1);
}

void KernelWriter::store(BlockBuilder& b, const std::vector<ValueId>& outputs,
                         const std::vector<Axis>& axes, const std::vector<Expr>& indices) {
  for (ValueId output : outputs) {
    Expr value = reader_.element(output, indices);
    b.store(params_.activation(output, Access::write), axes, indices, std::move(value));
    written_[static_cast<size_t>(std::ranges::find(outputs_, output) - outputs_.begin())] = true;
  }
}

LoweredRegion KernelWriter::finish() {
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

}  // namespace gm
