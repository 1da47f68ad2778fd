#include "ir/opdef.h"

#include <algorithm>

#include "ir/nearest.h"

namespace gm {
namespace {

const AttrDef* find_attr(const OpDef& def, std::string_view name) {
  for (const AttrDef& attr : def.attrs) {
    if (attr.name == name) return &attr;
  }
  return nullptr;
}

std::string_view type_name(const Attr& attr) {
  constexpr std::string_view kNames[] = {"a flag",   "an integer",         "a number",
                                         "a string", "a list of integers", "a list of numbers"};
  static_assert(std::size(kNames) == std::variant_size_v<Attr>);
  return kNames[attr.index()];
}

template <class T>
const T& attribute(const OpDef& def, const Attrs& attrs, std::string_view name) {
  const AttrDef* declared = find_attr(def, name);
  GM_CHECK(declared != nullptr, "{} declares no attribute {}", def.name, name);
  const auto given = attrs.find(name);
  const Attr& attr = given == attrs.end() ? declared->default_value : given->second;
  const T* value = std::get_if<T>(&attr);
  GM_CHECK(value != nullptr, "attribute {} of {} is {}", name, def.name, type_name(attr));
  return *value;
}

std::string_view kind_text(OperandDef::Kind kind) {
  switch (kind) {
    case OperandDef::Kind::floating:
      return "floating-point numbers";
    case OperandDef::Kind::integer:
      return "integers";
    case OperandDef::Kind::state:
      return "a state of floating-point numbers";
    case OperandDef::Kind::any:
      return "numbers";
  }
  return "";
}

bool fits(OperandDef::Kind kind, DType dtype) {
  if (kind == OperandDef::Kind::any) return dtype != DType::pred;
  if (kind == OperandDef::Kind::integer) return dtype == DType::i32 || dtype == DType::i8;
  return is_float(dtype);
}

Result<> check_operands(const OpDef& def, std::span<const TensorType> inputs,
                        const Location& where) {
  const size_t most = def.operands.size();
  size_t least = most;
  while (least > 0 && def.operands[least - 1].optional) --least;
  if (inputs.size() < least || inputs.size() > most) {
    std::string names;
    for (const OperandDef& operand : def.operands) {
      names += fmt::format("{}{}{}", names.empty() ? "" : ", ", operand.name,
                           operand.optional ? " (optional)" : "");
    }
    return err(Code::graph_operand_count, where, fmt::format("the operands are: {}", names),
               "{} takes {} operands but has {}", def.name,
               least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most),
               inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const OperandDef& operand = def.operands[i];
    if (fits(operand.kind, inputs[i].dtype)) continue;
    return err(Code::graph_operand_kind, where, fmt::format("{}: {}", operand.name, operand.doc),
               "operand {} of {} must be {} but is {}", operand.name, def.name,
               kind_text(operand.kind), inputs[i].to_string());
  }
  return {};
}

Result<> check_attrs(const OpDef& def, const Attrs& attrs, const Location& where) {
  for (const auto& [name, attr] : attrs) {
    const AttrDef* declared = find_attr(def, name);
    if (declared == nullptr) {
      std::vector<std::string> known;
      for (const AttrDef& a : def.attrs) known.push_back(a.name);
      return err(Code::graph_attribute_unknown, where,
                 known.empty()
                     ? fmt::format("{} has no attributes", def.name)
                     : fmt::format("the nearest attribute is {}", nearest_name(name, known)),
                 "{} has no attribute {}", def.name, name);
    }
    if (declared->default_value.index() == attr.index()) continue;
    return err(Code::graph_attribute_type, where,
               fmt::format("{}: {}", declared->name, declared->doc),
               "attribute {} of {} must be {} but is {}", name, def.name,
               type_name(declared->default_value), type_name(attr));
  }
  for (const AttrDef& declared : def.attrs) {
    if (!declared.required || attrs.contains(declared.name)) continue;
    return err(Code::graph_attribute_missing, where,
               fmt::format("{}: {}", declared.name, declared.doc),
               "{} needs attribute {}, which is missing", def.name, declared.name);
  }
  return {};
}

}  // namespace

bool OpInstance::flag(std::string_view name) const { return attribute<bool>(*def_, *attrs_, name); }
int64_t OpInstance::integer(std::string_view name) const {
  return attribute<int64_t>(*def_, *attrs_, name);
}
double OpInstance::number(std::string_view name) const {
  return attribute<double>(*def_, *attrs_, name);
}
const std::string& OpInstance::text(std::string_view name) const {
  return attribute<std::string>(*def_, *attrs_, name);
}
const std::vector<int64_t>& OpInstance::integers(std::string_view name) const {
  return attribute<std::vector<int64_t>>(*def_, *attrs_, name);
}
const std::vector<double>& OpInstance::numbers(std::string_view name) const {
  return attribute<std::vector<double>>(*def_, *attrs_, name);
}

OpTable::OpTable(std::vector<OpDef> defs) : defs_(std::move(defs)) {
  std::sort(defs_.begin(), defs_.end(),
            [](const OpDef& a, const OpDef& b) { return a.name < b.name; });
  for (size_t i = 0; i < defs_.size(); ++i) {
    const OpDef& def = defs_[i];
    GM_CHECK(i == 0 || defs_[i - 1].name != def.name, "op {} is declared twice", def.name);
    for (size_t k = 1; k < def.operands.size(); ++k) {
      GM_CHECK(def.operands[k].optional || !def.operands[k - 1].optional,
               "{}: operand {} is optional but not trailing", def.name, def.operands[k - 1].name);
    }
    for (const ResultDef& result : def.results) {
      if (!result.state) continue;
      const int operand = result.state_operand;
      GM_CHECK(operand >= 0 && static_cast<size_t>(operand) < def.operands.size() &&
                   def.operands[static_cast<size_t>(operand)].kind == OperandDef::Kind::state,
               "{}: result {} names no state operand", def.name, result.name);
      GM_CHECK(!def.operands[static_cast<size_t>(operand)].optional,
               "{}: the operand that result {} is a version of is optional", def.name, result.name);
    }
  }
}

const OpDef* OpTable::find(std::string_view name) const {
  const auto found =
      std::lower_bound(defs_.begin(), defs_.end(), name,
                       [](const OpDef& def, std::string_view n) { return def.name < n; });
  return found == defs_.end() || found->name != name ? nullptr : &*found;
}

std::vector<std::string> OpTable::names() const {
  std::vector<std::string> names;
  names.reserve(defs_.size());
  for (const OpDef& def : defs_) names.push_back(def.name);
  return names;
}

bool is_anchor(const OpDef& def) {
  return def.op_class == OpClass::contraction ||
         (def.op_class == OpClass::kernel_like && !def.row_wise);
}

Result<std::vector<TensorType>> infer_types(const OpDef& def, std::span<const TensorType> inputs,
                                            const Attrs& attrs, const Location& where) {
  GM_TRY(check_operands(def, inputs, where));
  GM_TRY(check_attrs(def, attrs, where));
  GM_CHECK(def.infer != nullptr, "{} has no inference", def.name);
  auto types = def.infer(OpInstance(def, inputs, attrs));
  if (!types) {
    Diag diag{Code::graph_inference, fmt::format("{}: {}", def.name, types.error()), where, {}, {}};
    for (size_t i = 0; i < inputs.size(); ++i) {
      diag.notes.push_back(
          {fmt::format("{} is {}", def.operands[i].name, inputs[i].to_string()), {}});
    }
    return Error(std::move(diag));
  }
  GM_CHECK(types->size() == def.results.size(), "{} infers {} types for {} results", def.name,
           types->size(), def.results.size());
  for (size_t i = 0; i < types->size(); ++i) {
    for (const SymExpr& dim : (*types)[i].shape) {
      if (!dim.is_too_large()) continue;
      return err(Code::graph_extent, where, "make the operands smaller: an extent is below 2^62",
                 "{}: an extent of result {} is too large", def.name, def.results[i].name);
    }
  }
  return *std::move(types);
}

}  // namespace gm
