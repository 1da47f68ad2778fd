#include "ir/region.h"

#include <algorithm>
#include <numeric>

#include "ir/opdef.h"

namespace gm {

std::string_view to_string(Role role) {
  switch (role) {
    case Role::anchor:
      return "anchor";
    case Role::prologue:
      return "prologue";
    case Role::epilogue:
      return "epilogue";
    case Role::member:
      return "member";
  }
  GM_CHECK(false, "role {}", static_cast<int>(role));
}

std::string_view to_string(Verdict verdict) {
  return verdict == Verdict::accepted ? "accepted" : "rejected";
}

std::string reason_name(Reason reason) { return fmt::format("F{}", static_cast<int>(reason)); }

std::string_view reason_summary(Reason reason) {
  switch (reason) {
#define GM_REASON(number, name, summary) \
  case Reason::name:                     \
    return summary;
#include "ir/reasons.def"
#undef GM_REASON
  }
  GM_CHECK(false, "reason {}", static_cast<int>(reason));
}

std::string_view reason_label(Reason reason) {
  switch (reason) {
#define GM_REASON(number, name, summary) \
  case Reason::name:                     \
    return #name;
#include "ir/reasons.def"
#undef GM_REASON
  }
  GM_CHECK(false, "reason {}", static_cast<int>(reason));
}

bool is_view(const Graph& graph, const Op& op) {
  const OpDef* def = graph.table().find(op.kind);
  return def != nullptr && def->op_class == OpClass::view;
}

ValueId view_base(const Graph& graph, ValueId value) {
  for (const Op* op = graph.producer(value); op != nullptr && is_view(graph, *op);
       op = graph.producer(value)) {
    value = op->inputs[0];
  }
  return value;
}

std::vector<int> Regions::region_of(const Graph& graph) const {
  std::vector<int> result(graph.ops().size(), -1);
  for (size_t r = 0; r < regions.size(); ++r) {
    for (const Member& m : regions[r].members) {
      if (index_of(m.op) < result.size()) result[index_of(m.op)] = static_cast<int>(r);
    }
  }
  return result;
}

namespace {

// The regions of a text are its writer's; those of a pass are not.
constexpr const char* kFix =
    "correct the text; if a pass made these regions, that is a bug of ours: --dump-dir shows which";

Error fault(Code code, const Regions& regions, size_t r, std::string text) {
  return err(code, Location::of_path("regions", regions.regions[r].name), kFix, "{}", text);
}

Result<> verify_partition(const Graph& graph, const Regions& regions) {
  std::vector<int> seen(graph.ops().size(), -1);
  for (size_t r = 0; r < regions.regions.size(); ++r) {
    if (regions.regions[r].members.empty()) {
      return fault(Code::region_partition, regions, r, "the region has no op");
    }
    for (const Member& m : regions.regions[r].members) {
      if (index_of(m.op) >= seen.size()) {
        return fault(Code::region_partition, regions, r,
                     fmt::format("op {} does not exist", index_of(m.op)));
      }
      const Op& op = graph.op(m.op);
      if (is_view(graph, op)) {
        return fault(Code::region_partition, regions, r,
                     fmt::format("'{}' is a view and belongs to no region", op.where));
      }
      int& owner = seen[index_of(m.op)];
      if (owner >= 0) {
        return fault(Code::region_partition, regions, r,
                     fmt::format("'{}' is in region '{}' too", op.where,
                                 regions.regions[static_cast<size_t>(owner)].name));
      }
      owner = static_cast<int>(r);
    }
  }
  for (const Op& op : graph.ops()) {
    if (!is_view(graph, op) && seen[index_of(op.id)] < 0) {
      return err(Code::region_partition, Location::of_path("regions", op.where), kFix,
                 "no region holds '{}'", op.where);
    }
  }
  return {};
}

// Dependence order implies convexity: if each region only needs regions listed before it, no path
// leaves one and returns.
Result<> verify_order(const Graph& graph, const Regions& regions) {
  const std::vector<int> region_of = regions.region_of(graph);
  for (size_t r = 0; r < regions.regions.size(); ++r) {
    for (const Member& m : regions.regions[r].members) {
      for (ValueId input : graph.op(m.op).inputs) {
        const Op* producer = graph.producer(view_base(graph, input));
        if (producer == nullptr) continue;
        if (region_of[index_of(producer->id)] > static_cast<int>(r)) {
          return fault(Code::region_order, regions, r,
                       fmt::format("'{}' needs '{}', which a later region computes",
                                   graph.op(m.op).where, producer->where));
        }
      }
    }
  }
  return {};
}

Result<> verify_ledger(const Graph& graph, const Regions& regions) {
  std::vector<uint32_t> parent(graph.ops().size());
  std::iota(parent.begin(), parent.end(), 0u);
  auto find = [&](uint32_t x) {
    while (parent[x] != x) x = parent[x] = parent[parent[x]];
    return x;
  };
  for (size_t i = 0; i < regions.ledger.size(); ++i) {
    const Decision& d = regions.ledger[i];
    const Location where = Location::of_path("ledger", fmt::format("#{}", i));
    for (OpId op : d.ops) {
      if (index_of(op) >= parent.size()) {
        return err(Code::region_ledger, where, kFix,
                   "decision #{} names op {}, which does not exist", i, index_of(op));
      }
    }
    if (d.verdict != Verdict::accepted) {
      if (static_cast<int>(d.reason) < 200) {
        return err(Code::region_ledger, where, kFix,
                   "decision #{} is rejected without a reason for it", i);
      }
      continue;
    }
    for (OpId op : d.ops) parent[find(index_of(op))] = find(index_of(d.ops.front()));
  }
  const std::vector<int> region_of = regions.region_of(graph);
  std::vector<int> region_of_root(parent.size(), -1);
  std::vector<uint32_t> root_of_region(regions.regions.size(), UINT32_MAX);
  for (const Op& op : graph.ops()) {
    const int r = region_of[index_of(op.id)];
    if (r < 0) continue;
    const uint32_t root = find(index_of(op.id));
    int& owner = region_of_root[root];
    uint32_t& theirs = root_of_region[static_cast<size_t>(r)];
    if ((owner >= 0 && owner != r) || (theirs != UINT32_MAX && theirs != root)) {
      return fault(Code::region_ledger, regions, static_cast<size_t>(r),
                   fmt::format("replaying the ledger does not put '{}' here", op.where));
    }
    owner = r;
    theirs = root;
  }
  return {};
}

}  // namespace

Result<> verify_regions(const Graph& graph, const Regions& regions) {
  GM_TRY(verify_partition(graph, regions));
  GM_TRY(verify_order(graph, regions));
  return verify_ledger(graph, regions);
}

}  // namespace gm
