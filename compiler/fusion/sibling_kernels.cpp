#include <algorithm>

#include "compiler/fusion/rules.h"

namespace gm {
namespace {

constexpr const char* kRule = "sibling-kernels";

// The operands that two siblings may have of their own: data with a prologue, and states. With all
// others in common their loops run over the same tokens and sequences.
bool own_operand(const OpDef& def, size_t i) {
  return def.operands[i].takes_prologue || def.operands[i].kind == OperandDef::Kind::state;
}

// The values both read; empty if they are no siblings.
std::vector<ValueId> common_operands(const OpDef& def, const Op& a, const Op& b) {
  std::vector<ValueId> common;
  if (a.kind != b.kind || a.inputs.size() != b.inputs.size()) return {};
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    if (own_operand(def, i)) continue;
    if (a.inputs[i] != b.inputs[i]) return {};
    common.push_back(a.inputs[i]);
  }
  return common;
}

}  // namespace

void fuse_sibling_kernels(Partition& p) {
  const Graph& graph = p.graph();
  // The last op of each kind: siblings stand near each other, and the same ops of other layers,
  // which read the same positions and pages, depend on one another.
  std::map<std::string, OpId, std::less<>> last;
  for (const Op& op : graph.ops()) {
    const OpDef& def = p.def(op);
    if (def.op_class != OpClass::kernel_like || !is_anchor(def)) continue;
    const auto before = last.find(op.kind);
    if (before != last.end()) {
      const Op& sibling = graph.op(before->second);
      const std::vector<ValueId> common = common_operands(def, sibling, op);
      const int theirs = p.group_of(sibling.id), mine = p.group_of(op.id);
      if (!common.empty() && !p.reads_from(mine, theirs) && p.can_merge({theirs, mine})) {
        std::string names;
        for (ValueId value : common) {
          names += fmt::format("{}%{}", names.empty() ? "" : ", ", graph.value(value).name);
        }
        p.merge(kRule, {theirs, mine}, Reason::saves_launch,
                fmt::format("both {} over {}; launches 2 -> 1", op.kind, names), common.front());
      }
    }
    last.insert_or_assign(op.kind, op.id);
  }
}

}  // namespace gm
