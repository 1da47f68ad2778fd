#include <algorithm>
#include <ranges>

#include "compiler/fusion/absorb.h"
#include "compiler/fusion/rules.h"

namespace gm {
namespace {

constexpr const char* kRule = "row-reduction-chain";

bool reduces_rows(const Partition& p, int group) {
  return std::ranges::any_of(p.members(group), [&](OpId op) {
    const OpDef& def = p.def(p.graph().op(op));
    return def.op_class == OpClass::row_reduction || def.row_wise;
  });
}

}  // namespace

void fuse_row_reductions(Partition& p) {
  for (const Op& op : std::ranges::reverse_view(p.graph().ops())) {
    const int group = p.group_of(op.id);
    if (group < 0 || p.has_anchor(group)) continue;
    if (reduces_rows(p, group)) absorb_into_users(p, group, kRule, true);
  }
  // Norms that moved may have freed elementwise chains in front of them.
  for (const Op& op : std::ranges::reverse_view(p.graph().ops())) {
    const int group = p.group_of(op.id);
    if (group < 0 || p.has_anchor(group) || reduces_rows(p, group)) continue;
    absorb_into_users(p, group, kRule, false);
  }
}

}  // namespace gm
