// The ops of a graph in groups that are to become one kernel each, and the ledger of how they came
// together. Rules propose; the partition says whether a merge keeps the groups free of cycles, does
// it and writes it down.
#pragma once

#include <map>
#include <set>

#include "ir/opdef.h"
#include "ir/region.h"

namespace gm {

class Partition {
 public:
  explicit Partition(const Graph& graph);

  const Graph& graph() const { return graph_; }
  const OpDef& def(const Op& op) const { return *graph_.table().find(op.kind); }

  // Groups are named by their smallest op. A view is in none.
  int group_of(OpId op) const { return group_[index_of(op)]; }
  const std::vector<OpId>& members(int group) const { return members_[static_cast<size_t>(group)]; }
  // An op is in it whose loops the kernel must have (is_anchor).
  bool has_anchor(int group) const;

  // The ops (not views) that use a value, also through views; ascending, each once. `operands` of
  // the last op in the chain.
  struct Use {
    OpId op;
    size_t operand;
    bool through_view;
  };
  std::vector<Use> uses(ValueId value) const;
  // The value is an output of the graph, or some view of it is.
  bool visible(ValueId value) const;

  // Some op of `group` reads a value of `other`.
  bool reads_from(int group, int other) const;
  // No path leads from one of the groups through others back into one of them.
  bool can_merge(const std::set<int>& groups) const;
  // Merges and records the decision.
  void merge(std::string rule, const std::set<int>& groups, Reason reason, std::string detail,
             std::optional<ValueId> value);
  // Remembers why the edge from `producer` to `user` stays a border; the last word before the end
  // counts.
  void refuse(std::string rule, OpId producer, OpId user, Reason reason, std::string detail);

  // Regions in dependence order; the ledger ends with one rejected record for each edge between two
  // regions.
  Regions finish(const std::function<std::pair<Reason, std::string>(const Partition&, OpId,
                                                                    const Use&)>& classify) &&;

 private:
  Region make_region(int group) const;
  bool depends_on_anchor(OpId op, int group) const;

  const Graph& graph_;
  std::vector<int> group_;
  std::vector<std::vector<OpId>> members_;
  std::vector<std::vector<uint32_t>>
      successors_;  // op to op, with reads of a state version before its write
  std::vector<Decision> accepted_;
  struct Refusal {
    std::string rule;
    Reason reason;
    std::string detail;
  };
  std::map<std::pair<uint32_t, uint32_t>, Refusal> refused_;
};

}  // namespace gm
