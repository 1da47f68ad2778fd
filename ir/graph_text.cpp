#include "ir/graph_text.h"

#include "ir/contract_text.h"
#include "ir/opdef.h"
#include "ir/tile_text.h"

namespace gm {
namespace {

template <class List, class Print>
std::string join(const List& list, Print print) {
  std::string text;
  for (const auto& item : list) {
    if (!text.empty()) text += ", ";
    text += print(item);
  }
  return text;
}

// Graphs that are being shown because they are wrong may name values that they lack.
std::string name_of(const Graph& graph, ValueId id) {
  if (index_of(id) >= graph.values().size()) return fmt::format("%missing.{}", index_of(id));
  return "%" + graph.value(id).name;
}

std::string print_source(const WeightSource& source) {
  std::string text;
  if (source.values.empty() || source != WeightSource{.values = source.values}) {
    text += fmt::format(" from {} [{}]", quote(source.tensor),
                        join(source.stored_shape, [](int64_t d) { return fmt::format("{}", d); }));
    if (source.slice_axis >= 0)
      text += fmt::format(" rows axis {} [{}, {})", source.slice_axis, source.slice_begin,
                          source.slice_end);
    if (source.series != 0) text += fmt::format(" series {}", source.series);
    if (source.groups != 0) {
      text += fmt::format(" groups {} [{}]", source.groups, join(source.ranges, [](const auto& r) {
                            return fmt::format("[{}, {})", r.first, r.second);
                          }));
    }
  }
  if (!source.values.empty())
    text += fmt::format(" values [{}]", join(source.values, [](double v) { return real_text(v); }));
  return text;
}

std::string print_attrs(const OpDef* def, const Attrs& attrs) {
  std::string text;
  for (const auto& [name, attr] : attrs) {
    bool is_default = false;
    if (def != nullptr) {
      for (const AttrDef& declared : def->attrs)
        is_default |= declared.name == name && !declared.required && declared.default_value == attr;
    }
    if (is_default) continue;
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, print_attr(attr));
  }
  return text;
}

std::string output_name(const std::string& name) {
  return is_name(name, true) ? name : quote(name);
}

}  // namespace

std::string print_attr(const Attr& attr) {
  struct Printer {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return real_text(v); }
    std::string operator()(const std::string& v) const { return quote(v); }
    std::string operator()(const std::vector<int64_t>& v) const {
      return fmt::format("[{}]", join(v, *this));
    }
    std::string operator()(const std::vector<double>& v) const {
      return fmt::format("[{}]", join(v, *this));
    }
  };
  return std::visit(Printer{}, attr);
}

std::string print_op(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  std::string text;
  if (!op.outputs.empty())
    text += join(op.outputs, [&](ValueId v) { return name_of(graph, v); }) + " = ";
  text +=
      fmt::format("{}({})", op.kind, join(op.inputs, [&](ValueId v) { return name_of(graph, v); }));
  const std::string attrs = print_attrs(graph.table().find(op.kind), op.attrs);
  if (!attrs.empty()) text += fmt::format(" {{{}}}", attrs);
  if (!op.outputs.empty())
    text += " : " + join(op.outputs, [&](ValueId v) { return graph.value(v).type.to_string(); });
  if (!op.where.empty()) text += " @ " + quote(op.where);
  return text;
}

std::string print_value_line(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  const std::string typed = fmt::format("%{} : {}", value.name, value.type.to_string());
  switch (value.kind) {
    case ValueKind::result:
      return print_op(graph, value.producer);
    case ValueKind::input:
      return "input " + typed + (value.contract ? " " + print_contract(*value.contract) : "");
    case ValueKind::weight:
      return "weight " + typed + (value.source ? print_source(*value.source) : "");
    case ValueKind::state:
      return "state " + typed;
  }
  return typed;
}

std::string print_graph(const Graph& graph) {
  std::string out = fmt::format("graph @{} {{\n", graph.name);
  const auto line = [&out](const std::string& text) { out += "  " + text + "\n"; };
  for (const SymInfo& symbol : graph.symbols.symbols()) line(print_symbol(symbol));

  // Values in the order of their ids, so that the text gives the same ids again; an op stands at
  // its first result, an op without results before the next one that has some.
  size_t next_op = 0;
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::result) {
      line(print_value_line(graph, value.id));
      continue;
    }
    for (; next_op <= index_of(value.producer); ++next_op)
      line(print_op(graph, OpId(static_cast<uint32_t>(next_op))));
  }
  for (; next_op < graph.ops().size(); ++next_op)
    line(print_op(graph, OpId(static_cast<uint32_t>(next_op))));

  for (const GraphOutput& output : graph.outputs())
    line(fmt::format("output {}{} = {}", output.is_state ? "state " : "", output_name(output.name),
                     name_of(graph, output.value)));
  return out + "}\n";
}

}  // namespace gm
