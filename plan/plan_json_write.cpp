#include "plan/json_fields.h"
#include "plan/plan_json.h"

namespace gm {
namespace {

template <class T, class F>
Json array_of(const std::vector<T>& list, F write) {
  Json array = Json::array();
  for (const T& item : list) array.push_back(write(item));
  return array;
}

Json contract_json(const InputContract& c) {
  Json json = Json::object();
  json["lo"] = sym_json(c.lo);
  if (c.hi) json["hi"] = sym_json(*c.hi);
  json["monotone"] = c.monotone;
  if (c.total) json["total"] = sym_json(*c.total);
  json["distinct"] = c.distinct;
  json["masked"] = c.masked;
  json["consecutive"] = c.consecutive;
  return json;
}

Json symbol_json(const SymInfo& symbol) {
  Json json = Json::object();
  json["name"] = symbol.name;
  json["role"] = to_string(symbol.role);
  json["lo"] = sym_json(symbol.lo);
  if (symbol.hi) json["hi"] = sym_json(*symbol.hi);
  json["multiple_of"] = symbol.multiple_of;
  return json;
}

Json slot_json(const Slot& slot) {
  Json json = Json::object();
  json["name"] = slot.name;
  json["kind"] = to_string(slot.kind);
  json["dtype"] = to_string(slot.dtype);
  json["shape"] = array_of(slot.shape, sym_json);
  if (slot.arena_offset != -1) json["arena_offset"] = slot.arena_offset;
  if (slot.contract) json["contract"] = contract_json(*slot.contract);
  return json;
}

Json node_json(const Node& node) {
  Json json = Json::object();
  json["kernel"] = node.kernel;
  json["label"] = node.label;
  json["args"] = array_of(node.args, [](const NodeArg& arg) {
    return Json{{"slot", arg.slot}, {"access", to_string(arg.access)}};
  });
  json["after"] = node.after;
  json["in_place"] = array_of(node.in_place, [](const std::pair<uint32_t, uint32_t>& pair) {
    return Json{{"write", pair.first}, {"read", pair.second}};
  });
  return json;
}

Json one_program_json(const Program& program) {
  Json json = Json::object();
  json["name"] = program.name;
  json["graph"] = program.graph;
  json["arena_bytes"] = program.arena_bytes;
  Json symbols = Json::array();
  for (const SymInfo& symbol : program.symbols.symbols()) symbols.push_back(symbol_json(symbol));
  json["symbols"] = std::move(symbols);
  json["slots"] = array_of(program.slots, slot_json);
  json["nodes"] = array_of(program.nodes, node_json);
  return json;
}

Json kernel_json(const PlanKernel& kernel) {
  Json json = Json::object();
  json["name"] = kernel.name;
  json["symbol"] = kernel.symbol;
  json["dims"] = kernel.dims;
  json["params"] = kernel.params;
  json["part_items"] = array_of(kernel.part_items, sym_json);
  json["scratch_bytes"] = kernel.scratch_bytes;
  json["text"] = kernel.text_member;
  return json;
}

Json state_json(const StateBuffer& state) {
  Json json = Json::object();
  json["name"] = state.name;
  json["dtype"] = to_string(state.dtype);
  json["shape"] = array_of(state.shape, sym_json);
  return json;
}

Json part_json(const WeightPart& part) {
  Json json = Json::object();
  if (!part.tensor.empty()) json["tensor"] = part.tensor;
  json["stored_shape"] = part.stored_shape;
  if (part.slice_axis != -1) {
    json["slice"] = {
        {"axis", part.slice_axis}, {"begin", part.slice_begin}, {"end", part.slice_end}};
  }
  if (part.series != 0) json["series"] = part.series;
  if (part.groups != 0) json["groups"] = {{"count", part.groups}, {"ranges", part.ranges}};
  if (!part.values.empty()) json["values"] = part.values;
  json["panel_offset"] = part.panel_offset;
  return json;
}

}  // namespace

Json manifest_json(const Plan& plan, const MemberDigests& digests) {
  Json json = Json::object();
  json["format"] = {{"major", kPlanFormatMajor}, {"minor", kPlanFormatMinor}};
  json["compiler"] = plan.compiler;
  json["stage"] = plan.stage;
  json["target"] = plan.target;
  json["target_features"] = plan.target_features;
  json["llvm_version"] = plan.llvm_version;
  json["dtype"] = plan.dtype;
  json["numerics"] = plan.numerics;
  json["fusion"] = plan.fusion;
  Json model = Json::object();
  model["architecture"] = plan.model.architecture;
  model["vocab"] = plan.model.vocab;
  model["hidden"] = plan.model.hidden;
  model["layers"] = plan.model.layers;
  model["max_position"] = plan.model.max_position;
  model["stop_ids"] = plan.model.stop_ids;
  model["layer_types"] = plan.model.layer_types;
  json["model"] = std::move(model);
  json["limits"] = {{"max_context", plan.limits.max_context},
                    {"max_seqs", plan.limits.max_seqs},
                    {"max_tokens", plan.limits.max_tokens},
                    {"page_tokens", plan.limits.page_tokens}};
  Json members = Json::object();
  for (const auto& [name, hex] : digests) members[name] = hex;
  json["members"] = std::move(members);
  return json;
}

Json program_json(const Plan& plan) {
  Json json = Json::object();
  json["programs"] = array_of(plan.programs, one_program_json);
  json["kernels"] = array_of(plan.kernels, kernel_json);
  json["states"] = array_of(plan.states, state_json);
  return json;
}

Json weights_json(const Plan& plan) {
  Json json = Json::object();
  json["weights"] = array_of(plan.weights, [](const WeightBuffer& weight) {
    Json buffer = Json::object();
    buffer["name"] = weight.name;
    buffer["dtype"] = to_string(weight.dtype);
    buffer["shape"] = weight.shape;
    buffer["layout"] = weight.layout;
    buffer["parts"] = array_of(weight.parts, part_json);
    return buffer;
  });
  return json;
}

}  // namespace gm
