#include <array>

#include "ir/graph_text.h"
#include "ir/tile_text.h"
#include "tools/dev/op_reference/pages.h"

namespace gm {
namespace {

struct Class {
  OpClass op_class;
  std::string_view title, about;
};

constexpr std::array kClasses = {
    Class{OpClass::pointwise, "Pointwise",
          "One element of the result from elements of the operands, by a scalar body. Fusion may "
          "compute such an op where "
          "its result is loaded, or before its operand is stored."},
    Class{OpClass::view, "Views",
          "Index maps. They move nothing and are never a kernel: whoever reads one reads what it "
          "looks at."},
    Class{OpClass::row_reduction, "Row reductions",
          "One or more reductions over the last axis, then a scalar body for each element of the "
          "row. Fusion may compute "
          "such an op in front of whatever reads whole rows of it."},
    Class{OpClass::contraction, "Contractions",
          "A sum of products over `k` with a weight, in f32 and in an order that depends on the "
          "extent of `k` alone. The "
          "anchor of its kernel."},
    Class{OpClass::kernel_like, "Kernel-like",
          "Ops with loops, state or data-dependent indices, which bring an L2 lowering and a "
          "reference of their own. The "
          "anchor of their kernel, unless they are row-wise; an operand or result says below if a "
          "neighbour may be fused into it."},
};

// The operands of a body by their names.
class NamedReads final : public ReadContext {
 public:
  NamedReads(const OpInstance& op, std::span<const TensorType> results)
      : op_(op), results_(results) {}
  const OpInstance& op() const override { return op_; }
  const TensorType& result(size_t i) const override { return results_[i]; }
  Expr read(size_t operand, std::vector<Expr> indices) override {
    const ScalarType type =
        is_float(op_.input(operand).dtype) ? ScalarType::f32 : ScalarType::index;
    return Expr::load(op_.def().operands[std::min(operand, op_.def().operands.size() - 1)].name,
                      std::move(indices), type);
  }

 private:
  const OpInstance& op_;
  std::span<const TensorType> results_;
};

std::vector<Expr> axes(std::string_view base, size_t count) {
  std::vector<Expr> result;
  for (size_t i = 0; i < count; ++i)
    result.push_back(Expr::index(SymExpr::symbol(fmt::format("{}{}", base, i))));
  return result;
}

std::string element(std::string_view name, std::span<const Expr> indices) {
  std::string text;
  for (const Expr& index : indices)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", print_index(index));
  return fmt::format("%{}[{}]", name, text);
}

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::dot:
      return "dot";
    case ReduceOp::max:
      return "max";
    case ReduceOp::argmax:
      return "argmax";
  }
  GM_CHECK(false, "reduction {}", static_cast<int>(op));
}

// What a structured op computes for the types of its first test case.
std::string body(const OpDef& def) {
  if (def.op_class == OpClass::kernel_like) return {};
  const OpDef::Case& c = def.cases.at(0);
  const OpInstance op(def, c.inputs, c.attrs);
  const auto results = infer_types(def, c.inputs, c.attrs, {});
  GM_CHECK(results.has_value(), "the first case of {}: {}", def.name, results.error().to_string());
  NamedReads reads(op, *results);
  const std::string& y = def.results[0].name;
  const std::vector<Expr> at = axes("i", (*results)[0].shape.size());

  std::string lines = fmt::format("%{} : {}", y, (*results)[0].to_string());
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    lines += fmt::format(", %{} : {}", def.operands[std::min(i, def.operands.size() - 1)].name,
                         c.inputs[i].to_string());
  }
  for (const auto& [name, value] : c.attrs)
    lines += fmt::format(", {} = {}", name, print_attr(value));
  lines += '\n';

  if (def.op_class == OpClass::contraction) {
    const std::span<const Expr> row(at.data(), at.size() - 1);
    const Expr k = Expr::index(SymExpr::symbol("k"));
    const auto a = def.a_index(reads, row, k);
    const auto w = def.w_index(reads, row, at.back(), k);
    return lines + fmt::format("{} = sum over k < {} of mul({}, {})\n", element(y, at),
                               def.extent_k(op).to_string(), print_value(reads.read(0, a)),
                               print_value(reads.read(1, w)));
  }
  if (def.op_class != OpClass::row_reduction) {
    return lines + fmt::format("{} = {}\n", element(y, at), print_value(def.element(reads, at)));
  }
  const std::span<const Expr> row(at.data(), at.size() - 1);
  std::vector<Expr> reduced;
  for (const OpDef::RowReduce& reduction : def.reductions) {
    const std::string name = fmt::format("r{}", reduced.size());
    const Expr value = reduction.value(reads, row, Expr::index(SymExpr::symbol("k")), reduced);
    lines += fmt::format("{} = {} over k < {} of {}\n", element(name, row), to_string(reduction.op),
                         c.inputs[0].shape.back().to_string(), print_value(value));
    reduced.push_back(Expr::tile(name, {row.begin(), row.end()}, ScalarType::f32));
  }
  return lines +
         fmt::format("{} = {}\n", element(y, at), print_value(def.row_element(reads, at, reduced)));
}

std::string kind_name(const OperandDef& operand) {
  switch (operand.kind) {
    case OperandDef::Kind::floating:
      return "float";
    case OperandDef::Kind::integer:
      return "integer";
    case OperandDef::Kind::state:
      return "state";
    case OperandDef::Kind::any:
      return "float or integer";
  }
  GM_CHECK(false, "kind of {}", operand.name);
}

std::string attr_type(const Attr& attr) {
  constexpr std::array<std::string_view, std::variant_size_v<Attr>> kNames = {
      "flag", "integer", "number", "text", "integers", "numbers"};
  return std::string(kNames[attr.index()]);
}

std::string signature(const OpDef& def) {
  std::string results, operands, attrs;
  for (const ResultDef& r : def.results)
    results += fmt::format("{}%{}", results.empty() ? "" : ", ", r.name);
  for (const OperandDef& o : def.operands)
    operands += fmt::format("{}%{}{}", operands.empty() ? "" : ", ", o.name, o.optional ? "?" : "");
  for (const AttrDef& a : def.attrs) {
    attrs += attrs.empty() ? "" : ", ";
    attrs += a.required ? a.name : fmt::format("{} = {}", a.name, print_attr(a.default_value));
  }
  return fmt::format("{} = {}({}){}", results, def.name, operands,
                     attrs.empty() ? "" : fmt::format(" {{{}}}", attrs));
}

// Text of a table's cell.
std::string cell(std::string_view text) {
  std::string result;
  for (char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

std::string op_section(const OpDef& def) {
  std::string text = fmt::format("\n### {}\n\n```text\n{}\n```\n\n{}\n\n| | | |\n|---|---|---|\n",
                                 def.name, signature(def), def.doc);
  for (const OperandDef& o : def.operands) {
    std::string notes = kind_name(o);
    if (o.optional) notes += ", optional";
    if (o.layout == WeightLayout::panels) notes += ", a weight is stored in panels";
    if (o.layout == WeightLayout::transposed) notes += ", a weight is stored transposed";
    if (o.takes_prologue) notes += ", takes a prologue";
    text += fmt::format("| `%{}` | {} | {} |\n", o.name, notes, cell(o.doc));
  }
  for (const AttrDef& a : def.attrs) {
    text += fmt::format("| `{}` | {}{} | {} |\n", a.name, attr_type(a.default_value),
                        a.required ? ", required" : "", cell(a.doc));
  }
  for (const ResultDef& r : def.results) {
    std::string notes = r.state
                            ? fmt::format("result, next version of `%{}`",
                                          def.operands[static_cast<size_t>(r.state_operand)].name)
                            : "result";
    if (r.takes_epilogue) notes += ", takes an epilogue";
    text += fmt::format("| `%{}` | {} | {} |\n", r.name, notes, cell(r.doc));
  }
  if (def.row_wise) text += "\nRow-wise: whoever reads its rows may compute them itself.\n";
  if (const std::string formula = body(def); !formula.empty())
    text += fmt::format("\n```text\n{}```\n", formula);
  return text;
}

}  // namespace

std::string ops_page(const OpTable& table) {
  std::string page = fmt::format(
      "# Ops\n\n"
      "<!-- Generated from the declarations in ops/defs/ by op_reference; a test compares. Change "
      "those. -->\n\n"
      "The {} ops of L0 graphs, by class. Each is declared once, in `ops/defs/NAME.cpp`; shape "
      "inference, checks, the\n"
      "reference in f32 and f64, costs, what fusion may do, the L2 lowering and this page follow "
      "from it.\n\n"
      "An op computes in f32 and rounds once, to the dtype of its result. Attributes that equal "
      "their default are not\n"
      "written. Under a structured op stands its body for the types of its first test case, with "
      "`%x[...]` an element\n"
      "as f32; [ir.md](ir.md) explains the notation.\n\n"
      "| class | ops |\n|---|---|\n",
      table.defs().size());
  for (const Class& c : kClasses) {
    std::string names;
    for (const OpDef& def : table.defs()) {
      if (def.op_class == c.op_class)
        names += fmt::format("{}[{}](#{})", names.empty() ? "" : ", ", def.name, def.name);
    }
    page += fmt::format("| {} | {} |\n", c.title, names);
  }
  for (const Class& c : kClasses) {
    page += fmt::format("\n## {}\n\n{}\n", c.title, c.about);
    for (const OpDef& def : table.defs()) {
      if (def.op_class == c.op_class) page += op_section(def);
    }
  }
  return page;
}

}  // namespace gm
