#include "ir/graph.h"

#include <algorithm>

#include "ir/lexer.h"
#include "ir/nearest.h"
#include "ir/opdef.h"

namespace gm {

std::string TensorType::to_string() const {
  std::string text(gm::to_string(dtype));
  text += '[';
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += ", ";
    text += shape[i].to_string();
  }
  return text + ']';
}

ValueId Graph::add_value(Value value) {
  GM_CHECK(is_name(value.name), "\"{}\" is no name of a value", value.name);
  GM_CHECK(!by_name_.contains(value.name), "value %{} is there already", value.name);
  value.id = ValueId(static_cast<uint32_t>(values_.size()));
  by_name_.emplace(value.name, value.id);
  values_.push_back(std::move(value));
  users_.emplace_back();
  return values_.back().id;
}

ValueId Graph::add_input(std::string value_name, TensorType type,
                         std::optional<Contract> contract) {
  Value value;
  value.name = std::move(value_name);
  value.type = std::move(type);
  value.kind = ValueKind::input;
  value.contract = std::move(contract);
  return add_value(std::move(value));
}

ValueId Graph::add_weight(std::string value_name, TensorType type, WeightSource source) {
  Value value;
  value.name = std::move(value_name);
  value.type = std::move(type);
  value.kind = ValueKind::weight;
  value.source = std::move(source);
  return add_value(std::move(value));
}

ValueId Graph::add_state(std::string value_name, TensorType type) {
  Value value;
  value.name = std::move(value_name);
  value.type = std::move(type);
  value.kind = ValueKind::state;
  value.is_state = true;
  return add_value(std::move(value));
}

Result<std::vector<ValueId>> Graph::add_op(std::string_view kind, std::vector<ValueId> inputs,
                                           Attrs attrs, std::string where,
                                           std::vector<std::string> result_names,
                                           Location location) {
  if (location.empty()) location = Location::of_path({}, where);
  const OpDef* def = table_->find(kind);
  if (def == nullptr) {
    const std::string nearest = nearest_name(kind, table_->names());
    return err(Code::graph_op_unknown, std::move(location),
               nearest.empty() ? std::string() : fmt::format("the nearest op is {}", nearest),
               "there is no op {}", kind);
  }
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const ValueId input : inputs) types.push_back(value(input).type);
  GM_ASSIGN(std::vector<TensorType> results, infer_types(*def, types, attrs, location));
  GM_CHECK(result_names.size() <= results.size(), "{} names for the {} results of {}",
           result_names.size(), results.size(), kind);

  Op op;
  op.id = OpId(static_cast<uint32_t>(ops_.size()));
  op.kind = kind;
  op.inputs = std::move(inputs);
  op.attrs = std::move(attrs);
  op.where = std::move(where);
  op.location = std::move(location);
  for (size_t i = 0; i < results.size(); ++i) {
    Value result;
    if (i < result_names.size()) result.name = std::move(result_names[i]);
    if (result.name.empty()) {
      result.name = fmt::format("v{}", values_.size());
      while (by_name_.contains(result.name)) result.name += '_';
    }
    result.type = std::move(results[i]);
    result.producer = op.id;
    result.result_index = static_cast<int>(i);
    result.is_state = def->results[i].state;
    op.outputs.push_back(add_value(std::move(result)));
  }
  for (const ValueId input : op.inputs) {
    std::vector<OpId>& users_of = users_[index_of(input)];
    if (users_of.empty() || users_of.back() != op.id) users_of.push_back(op.id);
  }
  ops_.push_back(std::move(op));
  return ops_.back().outputs;
}

OpId Graph::add_op_unchecked(Op op, std::vector<Value> results) {
  op.id = OpId(static_cast<uint32_t>(ops_.size()));
  op.outputs.clear();
  for (size_t i = 0; i < results.size(); ++i) {
    Value& result = results[i];
    result.id = ValueId(static_cast<uint32_t>(values_.size()));
    result.kind = ValueKind::result;
    result.producer = op.id;
    result.result_index = static_cast<int>(i);
    by_name_.emplace(result.name, result.id);  // of two of one name, the first is found
    op.outputs.push_back(result.id);
    values_.push_back(std::move(result));
    users_.emplace_back();
  }
  for (const ValueId input : op.inputs) {
    if (index_of(input) >= users_.size()) continue;
    std::vector<OpId>& users_of = users_[index_of(input)];
    if (users_of.empty() || users_of.back() != op.id) users_of.push_back(op.id);
  }
  ops_.push_back(std::move(op));
  return ops_.back().id;
}

void Graph::add_output(std::string output_name, ValueId value) {
  outputs_.push_back({std::move(output_name), value, false});
}

void Graph::add_state_output(std::string state_name, ValueId value) {
  outputs_.push_back({std::move(state_name), value, true});
}

const Op& Graph::op(OpId id) const {
  GM_CHECK(index_of(id) < ops_.size(), "op {} of {}", index_of(id), ops_.size());
  return ops_[index_of(id)];
}

const Value& Graph::value(ValueId id) const {
  GM_CHECK(index_of(id) < values_.size(), "value {} of {}", index_of(id), values_.size());
  return values_[index_of(id)];
}

const Op* Graph::producer(ValueId id) const {
  const Value& v = value(id);
  return v.kind == ValueKind::result ? &op(v.producer) : nullptr;
}

std::span<const OpId> Graph::users(ValueId id) const {
  GM_CHECK(index_of(id) < users_.size(), "value {} of {}", index_of(id), users_.size());
  return users_[index_of(id)];
}

std::optional<ValueId> Graph::find_value(std::string_view value_name) const {
  const auto found = by_name_.find(value_name);
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

bool Graph::is_output(ValueId id) const {
  return std::any_of(outputs_.begin(), outputs_.end(),
                     [id](const GraphOutput& output) { return output.value == id; });
}

}  // namespace gm
