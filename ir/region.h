// L1: which ops become one kernel, and the ledger of the decisions that led there. Regions
// partition the ops of a graph that are not views (a view is an index map, never a kernel). The
// ledger is complete enough to be replayed: the accepted decisions, applied in order to one region
// an op, give these regions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace gm {

// anchor: the op whose loops the kernel has · prologue: computed where the anchor loads · epilogue:
// computed where it stores · member: a region with no anchor (elementwise and row-reduction chains)
enum class Role : uint8_t { anchor, prologue, epilogue, member };
std::string_view to_string(Role role);

struct Member {
  OpId op{};
  Role role{};
  bool operator==(const Member&) const = default;
};

struct Region {
  std::string name;             // "layers.0.linear_attn.in_proj_qkv+3"
  std::vector<Member> members;  // ascending op ids
  std::string implementation = "generated";
  bool operator==(const Region&) const = default;
};

enum class Reason : uint16_t {
#define GM_REASON(number, name, summary) name = number,
#include "ir/reasons.def"
#undef GM_REASON
};
std::string reason_name(Reason reason);        // "F202"
std::string_view reason_label(Reason reason);  // "index-maps-differ"
std::string_view reason_summary(Reason reason);

enum class Verdict : uint8_t { accepted, rejected };
std::string_view to_string(Verdict verdict);

struct Decision {
  uint32_t id = 0;   // position in the ledger
  std::string rule;  // "sibling-contractions"
  Verdict verdict{};
  Reason reason{};
  std::string detail;            // the reason with its values filled in
  std::vector<OpId> ops;         // what it would put together; ascending
  std::optional<ValueId> value;  // the edge it is about, if it is about one
  bool operator==(const Decision&) const = default;
};

struct Regions {
  std::vector<Region> regions;  // in an order that respects their dependences
  std::vector<Decision> ledger;

  // The region that holds an op, or -1 for a view.
  std::vector<int> region_of(const Graph& graph) const;
};

// True for ops that are index maps only.
bool is_view(const Graph& graph, const Op& op);
// The value that a chain of views looks at.
ValueId view_base(const Graph& graph, ValueId value);

// L1 invariants, 21xx: a partition of the non-view ops; convex (no path leaves a region and comes
// back), hence acyclic; listed in dependence order; every rejected decision has a reason; replaying
// the ledger gives these regions.
Result<> verify_regions(const Graph& graph, const Regions& regions);

}  // namespace gm
