#include "compiler/fusion/absorb.h"

#include <algorithm>

namespace gm {

bool takes_prologue(const Partition& p, const Partition::Use& use) {
  const OpDef& def = p.def(p.graph().op(use.op));
  switch (def.op_class) {
    case OpClass::pointwise:
    case OpClass::view:
    case OpClass::row_reduction:
      return true;
    case OpClass::contraction:
      return use.operand != 1;  // rows of the left side, or which weight a row meets
    case OpClass::kernel_like:
      return use.operand < def.operands.size() && def.operands[use.operand].takes_prologue;
  }
  GM_CHECK(false, "op class of {}", def.name);
}

std::vector<ValueId> values_used_outside(const Partition& p, int group) {
  std::vector<ValueId> values;
  for (OpId id : p.members(group)) {
    for (ValueId output : p.graph().op(id).outputs) {
      const auto uses = p.uses(output);
      const bool outside = std::ranges::any_of(
          uses, [&](const Partition::Use& use) { return p.group_of(use.op) != group; });
      if (outside || p.visible(output)) values.push_back(output);
    }
  }
  return values;
}

bool absorb_into_users(Partition& p, int group, const char* rule, bool multi_output) {
  const Graph& graph = p.graph();
  std::set<int> users;
  bool visible = false;
  std::vector<Partition::Use> uses;
  for (ValueId value : values_used_outside(p, group)) {
    visible |= p.visible(value);
    for (const Partition::Use& use : p.uses(value)) {
      if (p.group_of(use.op) == group) continue;
      uses.push_back(use);
      users.insert(p.group_of(use.op));
    }
  }
  auto refuse = [&](Reason reason, const std::string& detail, int user_group) {
    for (ValueId value : values_used_outside(p, group)) {
      for (const Partition::Use& use : p.uses(value)) {
        if (p.group_of(use.op) == user_group)
          p.refuse(rule, graph.producer(value)->id, use.op, reason, detail);
      }
    }
    return false;
  };
  if (users.empty()) return false;
  if (!multi_output && (visible || users.size() > 1)) {
    for (int user : users) {
      refuse(Reason::output_visible,
             visible ? "the value leaves the graph"
                     : fmt::format("{} kernels read it; each would compute it again", users.size()),
             user);
    }
    return false;
  }
  for (int user : users) {
    const auto blocked = std::ranges::find_if(uses, [&](const Partition::Use& use) {
      return p.group_of(use.op) == user && !takes_prologue(p, use);
    });
    if (blocked != uses.end()) {
      const Op& op = graph.op(blocked->op);
      refuse(Reason::slot_not_supported,
             fmt::format("{} has no place for a prologue at operand {}", op.kind, blocked->operand),
             user);
      continue;
    }
    // What comes from the users' own anchor is at hand only at the elements that are stored, which
    // is for an epilogue.
    if (p.has_anchor(user) && p.reads_from(group, user)) {
      refuse(Reason::index_maps_differ,
             "it reads what the kernel computes at other elements than are stored", user);
      continue;
    }
    if (!p.can_merge({group, user})) {
      refuse(Reason::cycle, "the fused region would wait for its own result", user);
      continue;
    }
    const auto values = values_used_outside(p, group);
    const auto others = std::ranges::find_if(values, [&](ValueId v) {
      return p.visible(v) || std::ranges::any_of(p.uses(v), [&](const Partition::Use& use) {
               return p.group_of(use.op) != group && p.group_of(use.op) != user;
             });
    });
    const bool kept = others != values.end();
    const ValueId value = kept ? *others : values.front();
    p.merge(rule, {group, user}, kept ? Reason::saves_launch : Reason::saves_traffic,
            kept ? fmt::format("%{} is computed where it is used and kept as a second output",
                               graph.value(value).name)
                 : fmt::format("%{} {} never leaves the kernel", graph.value(value).name,
                               graph.value(value).type.to_string()),
            value);
    return true;
  }
  return false;
}

}  // namespace gm
