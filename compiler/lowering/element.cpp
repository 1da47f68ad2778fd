#include "compiler/lowering/element.h"

#include <algorithm>

#include "compiler/lowering/probe.h"

namespace gm {
namespace {

Access join(Access a, Access b) { return a == b ? a : Access::read_write; }

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool has_transcendental(const Graph& graph, const Op& op) {
  const std::vector<Expr> indices(graph.value(op.outputs[0]).type.shape.size(), Expr::index(0));
  bool found = false;
  visit_nodes(probe_element(graph, op, indices), [&](const Expr& node) {
    if (node->kind != ExprKind::unary) return;
    switch (node->unary_op) {
      case UnaryOp::exp:
      case UnaryOp::log1p:
      case UnaryOp::sin:
      case UnaryOp::cos:
        found = true;
        break;
      default:
        break;
    }
  });
  return found;
}

}  // namespace

std::string KernelParams::base_name(std::string_view name) {
  constexpr std::string_view kPrefix = "layers.";
  if (!name.starts_with(kPrefix)) return std::string(name);
  size_t end = kPrefix.size();
  while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
  if (end == kPrefix.size() || end >= name.size() || name[end] != '.') return std::string(name);
  return std::string(name.substr(end + 1));
}

std::string KernelParams::add(Entry entry) {
  std::string base = base_name(entry.param.name);
  std::string name = base;
  for (int n = 2;
       std::ranges::any_of(entries_, [&](const Entry& e) { return e.param.name == name; }); ++n) {
    name = fmt::format("{}_{}", base, n);
  }
  entry.param.name = name;
  entries_.push_back(std::move(entry));
  return name;
}

std::string KernelParams::activation(ValueId value, Access access) {
  for (Entry& e : entries_) {
    if (e.value != value) continue;
    e.param.access = join(e.param.access, access);
    return e.param.name;
  }
  const Value& v = graph_.value(value);
  Param param{v.name,
              v.type.dtype,
              v.type.shape,
              access,
              v.kind == ValueKind::input ? Residency::step : Residency::activation,
              v.contract};
  return add({std::move(param), value, {}});
}

ValueId KernelParams::state_root(const Graph& graph, ValueId value) {
  while (graph.value(value).is_state) {
    const Op* op = graph.producer(value);
    if (op == nullptr) break;
    const auto result = static_cast<size_t>(graph.value(value).result_index);
    value = op->inputs[static_cast<size_t>(
        graph.table().find(op->kind)->results[result].state_operand)];
  }
  return value;
}

std::string KernelParams::state(ValueId value, Access access) {
  const ValueId root = state_root(graph_, value);
  for (Entry& e : entries_) {
    if (e.value != root) continue;
    e.param.access = join(e.param.access, access);
    return e.param.name;
  }
  const Value& v = graph_.value(root);
  Param param{v.name, v.type.dtype, v.type.shape, access, Residency::state, {}};
  return add({std::move(param), root, {}});
}

std::string KernelParams::weight(ValueId value) {
  const std::string& buffer = packing_.weights.at(graph_.value(value).name).buffer;
  for (const Entry& e : entries_) {
    if (e.weight_buffer == buffer) return e.param.name;
  }
  const WeightBuffer& b = packing_.buffer(buffer);
  Param param{buffer,       b.dtype,           {b.shape.begin(), b.shape.end()},
              Access::read, Residency::weight, {}};
  return add({std::move(param), {}, buffer});
}

OpReader::OpReader(ElementReader& reader, const Graph& graph, const Op& op)
    : reader_(reader),
      graph_(graph),
      op_(op),
      input_types_([&] {
        std::vector<TensorType> types;
        for (ValueId input : op.inputs) types.push_back(graph.value(input).type);
        return types;
      }()),
      instance_(*graph.table().find(op.kind), input_types_, op.attrs) {}

void ElementReader::begin(BlockBuilder* block) {
  block_ = block;
  bound_.clear();
  rows_.clear();
  reduced_.clear();
  inlined_.clear();
}

void ElementReader::bind(ValueId value, Element element) {
  bound_.push_back({value, std::move(element)});
}

void ElementReader::bind(ValueId value, std::vector<Expr> indices, Expr expr) {
  bind(value,
       [this, value, at = std::move(indices), e = std::move(expr)](const std::vector<Expr>& asked) {
         GM_CHECK(at == asked, "{} is read where it is not computed", graph_.value(value).name);
         return e;
       });
}

void ElementReader::unbind() { bound_.clear(); }

Expr ElementReader::load(const Value& value, const std::vector<Expr>& indices) {
  if (value.kind == ValueKind::weight) {
    return Expr::load(params_.weight(value.id),
                      packed_indices(packing_.weights.at(value.name), indices),
                      is_float(value.type.dtype) ? ScalarType::f32 : ScalarType::index);
  }
  GM_CHECK(!value.is_state, "state {} is read as a plain value", value.name);
  return Expr::load(params_.activation(value.id, Access::read), indices,
                    is_float(value.type.dtype) ? ScalarType::f32 : ScalarType::index);
}

Expr ElementReader::element(ValueId id, const std::vector<Expr>& indices) {
  const Value& value = graph_.value(id);
  GM_CHECK(indices.size() == value.type.shape.size(), "{} has {} axes, not {}", value.name,
           value.type.shape.size(), indices.size());
  for (const Bound& b : bound_) {
    if (b.value == id) return b.element(indices);
  }
  for (const Row& r : rows_) {
    if (r.value != id || !block_->is_open(r.scope)) continue;
    if (!std::equal(r.row.begin(), r.row.end(), indices.begin(), indices.end() - 1)) continue;
    std::vector<Expr> at_tile = r.index;
    at_tile.push_back(indices.back());
    return at(r.tile, std::move(at_tile));
  }
  const Op* op = graph_.producer(id);
  if (op == nullptr || (!members_.contains(op->id) && !is_view(graph_, *op)))
    return load(value, indices);

  const OpDef& def = *graph_.table().find(op->kind);
  OpReader reader(*this, graph_, *op);
  Expr body;
  switch (def.op_class) {
    case OpClass::pointwise:
    case OpClass::view:
      body = def.element(reader, indices);
      break;
    case OpClass::row_reduction: {
      const std::vector<Expr> row(indices.begin(), indices.end() - 1);
      body = def.row_element(reader, indices, reduce_row(*op, def, row));
      break;
    }
    case OpClass::kernel_like:
      if (def.row_wise) return inline_row(*op, def, value, indices);
      [[fallthrough]];
    case OpClass::contraction:
      GM_CHECK(false, "{} is read in the kernel that computes it", value.name);
  }
  if (def.op_class == OpClass::view || !is_float(value.type.dtype)) return body;
  if (body->kind == ExprKind::round && body->dtype == value.type.dtype) return body;
  return Expr::round(value.type.dtype, std::move(body));
}

ElementReader::Spread ElementReader::spread(const std::vector<Expr>& row) {
  Spread s;
  // One fresh axis for each axis of the statement, and for each quotient axis / c that stands for a
  // head.
  std::vector<std::pair<Expr, size_t>> seen;
  auto axis_for = [&](const Expr& what, std::string_view base, SymExpr extent) {
    for (const auto& [expr, axis] : seen) {
      if (expr == what) return at(s.axes[axis]);
    }
    seen.emplace_back(what, s.axes.size());
    s.axes.push_back(block_->axis(base, std::move(extent)));
    s.index.push_back(what);
    return at(s.axes.back());
  };
  for (const Expr& coordinate : row) {
    const auto sym = coordinate.as_sym();
    std::vector<std::string> varying;
    visit_nodes(coordinate, [&](const Expr& node) {
      if (node->kind != ExprKind::index) return;
      for (const std::string& name : node->sym.symbols()) {
        if (block_->axis_extent(name) != nullptr && !contains(varying, name))
          varying.push_back(name);
      }
    });
    if (varying.empty()) {
      s.row.push_back(coordinate);
      continue;
    }
    if (sym && varying.size() == 1 && !sym->linear_in(varying[0])) {
      // floordiv(k, c): one entry a head, not one a column.
      const SymRange range = SymTable{}.range(sym->substitute({{varying[0], 0}}));
      SymTable axes;
      axes.declare({.name = varying[0],
                    .role = SymRole::loop,
                    .lo = 0,
                    .hi = *block_->axis_extent(varying[0]) - 1});
      const SymRange all = axes.range(*sym);
      if (range.lo == 0 && all.hi) {
        s.row.push_back(axis_for(coordinate, "h", *all.hi + 1));
        continue;
      }
    }
    std::map<std::string, SymExpr, std::less<>> fresh;
    for (const std::string& name : varying) {
      const Expr moved =
          axis_for(Expr::index(SymExpr::symbol(name)), name, *block_->axis_extent(name));
      fresh.emplace(name, *moved.as_sym());
    }
    s.row.push_back(substitute(coordinate, fresh));
  }
  return s;
}

bool ElementReader::is_expensive(ValueId id) const {
  const Op* op = graph_.producer(id);
  if (op == nullptr || (!members_.contains(op->id) && !is_view(graph_, *op))) return false;
  for (const Bound& b : bound_) {
    if (b.value == id) return false;
  }
  const OpDef& def = *graph_.table().find(op->kind);
  if (def.op_class == OpClass::row_reduction || def.row_wise) return true;
  if (def.op_class == OpClass::pointwise && has_transcendental(graph_, *op)) return true;
  return std::ranges::any_of(op->inputs, [&](ValueId input) { return is_expensive(input); });
}

void ElementReader::hold_row(ValueId value, const std::vector<Expr>& row, const Spread& s,
                             const SymExpr& extent) {
  std::vector<Axis> axes = s.axes;
  const Axis k = block_->axis("k", extent);
  axes.push_back(k);
  std::vector<Expr> indices = s.row;
  indices.push_back(at(k));
  const std::string tile = block_->tile("row", axes, element(value, indices));
  rows_.push_back({value, row, tile, s.index, block_->scope()});
  if (s.row != row) {
    std::vector<Expr> own;
    for (const Axis& axis : s.axes) own.push_back(at(axis));
    rows_.push_back({value, s.row, tile, std::move(own), block_->scope()});
  }
}

std::vector<Expr> ElementReader::reduce_row(const Op& op, const OpDef& def,
                                            const std::vector<Expr>& row) {
  for (const Reduced& r : reduced_) {
    if (r.op == op.id && r.row == row && block_->is_open(r.scope)) return r.results;
  }
  const Spread s = spread(row);
  const SymExpr extent = graph_.value(op.inputs[0]).type.shape.back();
  if (is_expensive(op.inputs[0])) hold_row(op.inputs[0], row, s, extent);

  OpReader reader(*this, graph_, op);
  std::vector<Expr> own_index;
  for (const Axis& axis : s.axes) own_index.push_back(at(axis));
  std::vector<Expr> inside, results;
  for (const OpDef::RowReduce& reduction : def.reductions) {
    const Axis k = block_->axis("k", extent);
    Expr value = reduction.value(reader, s.row, at(k), inside);
    const std::string tile = block_->reduce(
        "red", s.axes, k, reduction.op, {ReduceOrder::Kind::lanes, kReduceLanes}, std::move(value));
    inside.push_back(at(tile, own_index));
    results.push_back(at(tile, s.index));
  }
  reduced_.push_back({op.id, row, results, block_->scope()});
  return results;
}

}  // namespace gm
