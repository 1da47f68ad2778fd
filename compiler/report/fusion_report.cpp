#include "compiler/report/fusion_report.h"

#include <algorithm>

namespace gm {
namespace {

std::string hyphenated(std::string_view label) {
  std::string text(label);
  std::ranges::replace(text, '_', '-');
  return text;
}

Json region_json(const Unit& unit, size_t index) {
  const Region& region = unit.regions->regions[index];
  Json members = Json::array();
  for (const Member& m : region.members) {
    const Op& op = unit.graph.op(m.op);
    const Value& value = unit.graph.value(op.outputs[0]);
    members.push_back({{"op", op.kind},
                       {"where", op.where},
                       {"value", value.name},
                       {"type", value.type.to_string()},
                       {"role", std::string(to_string(m.role))}});
  }
  Json outputs = Json::array();
  for (ValueId value : region_outputs(unit.graph, region))
    outputs.push_back(unit.graph.value(value).name);
  Json json = {{"name", region.name},
               {"implementation", region.implementation},
               {"members", std::move(members)},
               {"outputs", std::move(outputs)}};
  json["kernel"] = unit.kernels ? Json((*unit.kernels)[index].kernel.name) : Json(nullptr);
  return json;
}

Json decision_json(const Graph& graph, const Decision& d) {
  Json ops = Json::array();
  for (OpId op : d.ops) ops.push_back(graph.op(op).where);
  return {{"id", d.id},
          {"rule", d.rule},
          {"verdict", std::string(to_string(d.verdict))},
          {"code", reason_name(d.reason)},
          {"reason", hyphenated(reason_label(d.reason))},
          {"detail", d.detail},
          {"value", d.value ? Json(graph.value(*d.value).name) : Json(nullptr)},
          {"ops", std::move(ops)}};
}

}  // namespace

Json fusion_report(const Module& module) {
  Json programs = Json::array();
  for (const Unit& unit : module.units) {
    if (!unit.regions) continue;
    int64_t views = 0;
    for (const Op& op : unit.graph.ops()) views += is_view(unit.graph, op) ? 1 : 0;
    Json regions = Json::array();
    for (size_t i = 0; i < unit.regions->regions.size(); ++i)
      regions.push_back(region_json(unit, i));
    Json decisions = Json::array();
    for (const Decision& d : unit.regions->ledger)
      decisions.push_back(decision_json(unit.graph, d));
    programs.push_back({{"name", unit.name},
                        {"ops", static_cast<int64_t>(unit.graph.ops().size()) - views},
                        {"views", views},
                        {"kernels", unit.regions->regions.size()},
                        {"regions", std::move(regions)},
                        {"decisions", std::move(decisions)}});
  }
  return {{"schema", kReportSchema}, {"programs", std::move(programs)}};
}

}  // namespace gm
