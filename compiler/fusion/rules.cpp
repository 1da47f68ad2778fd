#include "compiler/fusion/rules.h"

#include <array>

namespace gm {
namespace {

// In this order: siblings first, since they decide which anchors share a kernel; then what
// follows an anchor; then whole rows and chains in front of one.
constexpr std::array kFusionRules = {
    FusionRule{"sibling-contractions", "contractions of one input over stacked weights",
               &fuse_sibling_contractions},
    FusionRule{"sibling-kernels", "ops with loops of their own, of one kind over the same operands",
               &fuse_sibling_kernels},
    FusionRule{"elementwise-chain", "elementwise ops where their operands are computed or used",
               &fuse_elementwise_chains},
    FusionRule{"row-reduction-chain", "norms and softmax in front of what reads their rows",
               &fuse_row_reductions},
};

// Why no rule proposed this edge.
std::pair<Reason, std::string> classify(const Partition& p, OpId producer,
                                        const Partition::Use& use) {
  const OpDef& from = p.def(p.graph().op(producer));
  const OpDef& to = p.def(p.graph().op(use.op));
  if (to.op_class == OpClass::kernel_like &&
      to.operands[std::min(use.operand, to.operands.size() - 1)].kind == OperandDef::Kind::state) {
    return {Reason::crosses_state_write,
            fmt::format("{} reads the state that {} writes", to.name, from.name)};
  }
  if (to.op_class == OpClass::kernel_like) {
    return {Reason::slot_not_supported,
            fmt::format("{} takes no prologue for '{}'", to.name, to.operands[use.operand].name)};
  }
  if (p.has_anchor(p.group_of(producer)) && to.op_class == OpClass::contraction) {
    return {
        Reason::producer_needs_whole_row,
        "a work item holds some columns of the producer, the consumer reduces over all of them"};
  }
  if (to.op_class == OpClass::row_reduction) {
    return {Reason::producer_needs_whole_row,
            fmt::format("{} reduces a row that no work item of {} holds", to.name, from.name)};
  }
  return {Reason::index_maps_differ,
          fmt::format("{} and {} walk their elements in different ways", from.name, to.name)};
}

std::pair<Reason, std::string> switched_off(const Partition&, OpId, const Partition::Use&) {
  return {Reason::pass_disabled, "fusion is off"};
}

}  // namespace

std::span<const FusionRule> fusion_rules() { return kFusionRules; }

Regions form_regions(const Graph& graph) { return Partition(graph).finish(&switched_off); }

Regions fuse(const Graph& graph) {
  Partition partition(graph);
  for (const FusionRule& rule : kFusionRules) rule.run(partition);
  return std::move(partition).finish(&classify);
}

}  // namespace gm
