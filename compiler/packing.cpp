#include "compiler/packing.h"

#include <algorithm>
#include <set>

#include "ir/region.h"

namespace gm {
namespace {

struct Use {
  const Value* weight = nullptr;
  std::set<WeightLayout> layouts;
};

std::string_view layout_name(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::dense:
      return "dense";
    case WeightLayout::panels:
      return "panels";
    case WeightLayout::transposed:
      return "transposed";
  }
  GM_CHECK(false, "layout {}", static_cast<int>(layout));
}

int64_t extent(const Value& weight, size_t axis) {
  const auto value = weight.type.shape[axis].constant();
  GM_CHECK(value.has_value(), "weight {} has a symbolic shape", weight.name);
  return *value;
}

int64_t panels_of(const Value& weight) {
  return (extent(weight, weight.type.shape.size() - 2) + kPanelWidth - 1) / kPanelWidth;
}

WeightPart part_of(const Value& weight, int64_t panel_offset) {
  const WeightSource& s = *weight.source;
  return {s.tensor, s.stored_shape, s.slice_axis, s.slice_begin, s.slice_end,
          s.values, panel_offset,   s.series,     s.groups,      s.ranges};
}

// What stacks together: panels of one input, one dtype, and equal shapes but for N.
std::string stack_key(const Graph& graph, const Op& op, const Value& weight) {
  std::string key = fmt::format("{}|{}|", op.kind, graph.value(op.inputs[0]).name);
  for (size_t i = 2; i < op.inputs.size(); ++i) key += graph.value(op.inputs[i]).name + "|";
  const size_t rank = weight.type.shape.size();
  key += fmt::format("{}", to_string(weight.type.dtype));
  for (size_t i = 0; i < rank; ++i) {
    if (i + 2 != rank) key += fmt::format(",{}", extent(weight, i));
  }
  return key;
}

class Packer {
 public:
  void look_at(const Graph& graph) {
    for (const Value& value : graph.values()) {
      if (value.kind != ValueKind::weight) continue;
      Use& use = uses_[value.name];
      if (use.weight == nullptr) {
        use.weight = &value;
      } else {
        GM_CHECK(use.weight->type == value.type && use.weight->source == value.source,
                 "weight {} differs between programs", value.name);
      }
    }
    for (const Op& op : graph.ops()) look_at(graph, op);
  }

  Packing finish() {
    Packing packing;
    std::map<std::string, std::string, std::less<>>
        buffer_of;  // weight -> its stack's first weight
    for (const auto& [key, members] : stacks_) {
      for (const std::string& name : members) {
        if (layout_of(name) == WeightLayout::panels) buffer_of.try_emplace(name, members.front());
      }
    }
    std::map<std::string, std::vector<std::string>> buffers;
    for (const std::string& name : order_) {
      const auto stack = buffer_of.find(name);
      buffers[stack == buffer_of.end() ? name : stack->second].push_back(name);
    }
    for (const auto& [first, names] : buffers) add_buffer(packing, names);
    return packing;
  }

 private:
  void look_at(const Graph& graph, const Op& op) {
    const OpDef& def = *graph.table().find(op.kind);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Value& value = graph.value(op.inputs[i]);
      if (value.kind != ValueKind::weight) continue;
      Use& use = uses_[value.name];
      if (use.layouts.empty()) order_.push_back(value.name);
      use.layouts.insert(def.operands[i].layout);
      if (def.op_class != OpClass::contraction || i != 1) continue;
      if (!stacked_.insert(value.name).second) continue;  // the first use decides its neighbours
      const std::string key = stack_key(graph, op, value) + "|" + graph.name;
      stacks_[key].push_back(value.name);
    }
  }

  // Panels win (a gather reads through them); a conflict of other layouts falls to dense.
  WeightLayout layout_of(const std::string& name) const {
    const auto& layouts = uses_.at(name).layouts;
    if (layouts.contains(WeightLayout::panels)) return WeightLayout::panels;
    return layouts.size() == 1 ? *layouts.begin() : WeightLayout::dense;
  }

  void add_buffer(Packing& packing, const std::vector<std::string>& names) {
    const WeightLayout layout = layout_of(names.front());
    const Value& first = *uses_.at(names.front()).weight;
    WeightBuffer buffer{.name = names.front(),
                        .dtype = first.type.dtype,
                        .shape = {},
                        .layout = std::string(layout_name(layout)),
                        .parts = {}};
    for (size_t i = 0; i < first.type.shape.size(); ++i) buffer.shape.push_back(extent(first, i));
    int64_t panels = 0;
    for (const std::string& name : names) {
      const Value& weight = *uses_.at(name).weight;
      buffer.parts.push_back(part_of(weight, layout == WeightLayout::panels ? panels : 0));
      packing.weights[name] = {buffer.name, layout, layout == WeightLayout::panels ? panels : 0};
      if (layout == WeightLayout::panels) panels += panels_of(weight);
    }
    if (layout == WeightLayout::panels) {
      buffer.shape[buffer.shape.size() - 2] = panels;
      buffer.shape.push_back(kPanelWidth);
    } else if (layout == WeightLayout::transposed) {
      GM_CHECK(buffer.shape.size() == 2, "{} is transposed but has {} axes", buffer.name,
               buffer.shape.size());
      std::swap(buffer.shape[0], buffer.shape[1]);
    }
    packing.buffers.push_back(std::move(buffer));
  }

  std::map<std::string, Use, std::less<>> uses_;
  std::vector<std::string> order_;  // of first use
  std::map<std::string, std::vector<std::string>> stacks_;
  std::set<std::string> stacked_;
};

}  // namespace

const WeightBuffer& Packing::buffer(std::string_view name) const {
  const auto found = std::ranges::lower_bound(buffers, name, {}, &WeightBuffer::name);
  GM_CHECK(found != buffers.end() && found->name == name, "no weight buffer {}", name);
  return *found;
}

std::vector<Expr> packed_indices(const PackedWeight& weight, std::vector<Expr> logical) {
  switch (weight.layout) {
    case WeightLayout::dense:
      return logical;
    case WeightLayout::transposed:
      std::swap(logical[0], logical[1]);
      return logical;
    case WeightLayout::panels:
      break;
  }
  const size_t n_axis = logical.size() - 2;
  const Expr n = logical[n_axis];
  logical[n_axis] = Expr::index(weight.panel_offset) + floordiv(n, kPanelWidth);
  logical.push_back(mod(n, kPanelWidth));
  return logical;
}

Result<Packing> pack_weights(const std::vector<const Graph*>& graphs) {
  Packer packer;
  for (const Graph* graph : graphs) packer.look_at(*graph);
  Packing packing = packer.finish();
  std::ranges::sort(packing.buffers, {}, &WeightBuffer::name);
  return packing;
}

}  // namespace gm
