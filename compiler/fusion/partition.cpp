#include "compiler/fusion/partition.h"

#include <algorithm>
#include <queue>

namespace gm {

Partition::Partition(const Graph& graph)
    : graph_(graph),
      group_(graph.ops().size(), -1),
      members_(graph.ops().size()),
      successors_(graph.ops().size()) {
  for (const Op& op : graph.ops()) {
    const uint32_t i = index_of(op.id);
    if (!is_view(graph, op)) {
      group_[i] = static_cast<int>(i);
      members_[i] = {op.id};
    }
    for (ValueId output : op.outputs) {
      for (OpId user : graph.users(output)) successors_[i].push_back(index_of(user));
    }
    // Whoever reads a version of a state comes before the op that overwrites it.
    for (size_t r = 0; r < op.outputs.size() && r < def(op).results.size(); ++r) {
      const int state = def(op).results[r].state_operand;
      if (state < 0) continue;
      for (OpId reader : graph.users(op.inputs[static_cast<size_t>(state)])) {
        if (reader != op.id) successors_[index_of(reader)].push_back(i);
      }
    }
  }
}

bool Partition::has_anchor(int group) const {
  return std::ranges::any_of(members(group),
                             [&](OpId op) { return is_anchor(def(graph_.op(op))); });
}

std::vector<Partition::Use> Partition::uses(ValueId value) const {
  std::vector<Use> result;
  for (OpId user : graph_.users(value)) {
    const Op& op = graph_.op(user);
    if (is_view(graph_, op)) {
      for (Use use : uses(op.outputs[0])) {
        use.through_view = true;
        result.push_back(use);
      }
      continue;
    }
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == value) result.push_back({user, i, false});
    }
  }
  std::ranges::sort(result, [](const Use& a, const Use& b) {
    return std::tuple(a.op, a.operand, a.through_view) <
           std::tuple(b.op, b.operand, b.through_view);
  });
  return result;
}

bool Partition::visible(ValueId value) const {
  if (graph_.is_output(value)) return true;
  return std::ranges::any_of(graph_.users(value), [&](OpId user) {
    const Op& op = graph_.op(user);
    return is_view(graph_, op) && visible(op.outputs[0]);
  });
}

bool Partition::reads_from(int group, int other) const {
  return std::ranges::any_of(members(group), [&](OpId id) {
    return std::ranges::any_of(graph_.op(id).inputs, [&](ValueId input) {
      const Op* from = graph_.producer(view_base(graph_, input));
      return from != nullptr && group_of(from->id) == other;
    });
  });
}

bool Partition::can_merge(const std::set<int>& groups) const {
  // A path of views alone from one merged group to another is an edge inside; a path through
  // another group's op is not.
  std::vector<bool> seen_inside(graph_.ops().size(), false),
      seen_outside(graph_.ops().size(), false);
  std::vector<bool> seen_group(graph_.ops().size(), false);
  std::vector<std::pair<uint32_t, bool>> stack;
  auto push = [&](uint32_t op, bool outside) {
    outside |= group_[op] >= 0;
    auto seen = outside ? seen_outside.begin() + op : seen_inside.begin() + op;
    if (*seen) return;
    *seen = true;
    stack.emplace_back(op, outside);
  };
  for (int group : groups) {
    for (OpId op : members(group)) {
      for (uint32_t next : successors_[index_of(op)]) {
        if (!groups.contains(group_[next])) push(next, false);
      }
    }
  }
  while (!stack.empty()) {
    const auto [op, outside] = stack.back();
    stack.pop_back();
    const int group = group_[op];
    // A group waits for all its inputs, so whatever one member reaches, all of it reaches.
    if (group >= 0 && !seen_group[static_cast<size_t>(group)]) {
      seen_group[static_cast<size_t>(group)] = true;
      for (OpId member : members(group)) push(index_of(member), true);
    }
    for (uint32_t next : successors_[op]) {
      if (!groups.contains(group_[next])) {
        push(next, outside);
      } else if (outside) {
        return false;
      }
    }
  }
  return true;
}

void Partition::merge(std::string rule, const std::set<int>& groups, Reason reason,
                      std::string detail, std::optional<ValueId> value) {
  const int target = *groups.begin();
  std::vector<OpId> all;
  for (int group : groups) all.insert(all.end(), members(group).begin(), members(group).end());
  std::ranges::sort(all);
  for (int group : groups) members_[static_cast<size_t>(group)].clear();
  for (OpId op : all) group_[index_of(op)] = target;
  members_[static_cast<size_t>(target)] = all;
  accepted_.push_back({.id = static_cast<uint32_t>(accepted_.size()),
                       .rule = std::move(rule),
                       .verdict = Verdict::accepted,
                       .reason = reason,
                       .detail = std::move(detail),
                       .ops = std::move(all),
                       .value = value});
}

void Partition::refuse(std::string rule, OpId producer, OpId user, Reason reason,
                       std::string detail) {
  refused_[{index_of(producer), index_of(user)}] = {std::move(rule), reason, std::move(detail)};
}

bool Partition::depends_on_anchor(OpId id, int group) const {
  const Op& op = graph_.op(id);
  if (is_anchor(def(op))) return group_of(id) == group;
  return std::ranges::any_of(op.inputs, [&](ValueId input) {
    const Op* producer = graph_.producer(view_base(graph_, input));
    return producer != nullptr && group_of(producer->id) == group &&
           depends_on_anchor(producer->id, group);
  });
}

Region Partition::make_region(int group) const {
  Region region;
  const bool anchored = has_anchor(group);
  size_t anchors = 0;
  for (OpId id : members(group)) {
    const Op& op = graph_.op(id);
    const bool anchor = is_anchor(def(op));
    const Role role = anchor ? Role::anchor
                      : !anchored
                          ? Role::member
                          : (depends_on_anchor(id, group) ? Role::epilogue : Role::prologue);
    if (anchor && anchors++ == 0) region.name = op.where;
    region.members.push_back({id, role});
  }
  if (!anchored) region.name = graph_.op(members(group).back()).where;
  if (anchors > 1) region.name += fmt::format("+{}", anchors - 1);
  return region;
}

Regions Partition::finish(
    const std::function<std::pair<Reason, std::string>(const Partition&, OpId, const Use&)>&
        classify) && {
  Regions result;
  // Kahn's order over groups, the smallest op first among those that are ready. Views pass their
  // waiting on.
  std::vector<std::set<int>> waits(graph_.ops().size());
  std::map<int, std::set<int>> next;
  std::map<int, int> missing;
  std::function<void(uint32_t, int)> connect = [&](uint32_t op, int from) {
    for (uint32_t s : successors_[op]) {
      const int to = group_[s];
      if (to < 0) {
        connect(s, from);
      } else if (to != from && next[from].insert(to).second) {
        ++missing[to];
      }
    }
  };
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (const Op& op : graph_.ops()) {
    if (group_of(op.id) >= 0) connect(index_of(op.id), group_of(op.id));
  }
  size_t groups = 0;
  for (size_t g = 0; g < members_.size(); ++g) {
    if (members_[g].empty()) continue;
    ++groups;
    if (missing[static_cast<int>(g)] == 0) ready.push(static_cast<int>(g));
  }
  while (!ready.empty()) {
    const int group = ready.top();
    ready.pop();
    result.regions.push_back(make_region(group));
    for (int to : next[group]) {
      if (--missing[to] == 0) ready.push(to);
    }
  }
  GM_CHECK(result.regions.size() == groups, "{} of {} groups wait for each other",
           groups - result.regions.size(), groups);

  result.ledger = std::move(accepted_);
  for (const Op& op : graph_.ops()) {
    if (group_of(op.id) < 0) continue;
    for (ValueId output : op.outputs) {
      std::set<OpId> done;
      for (const Use& use : uses(output)) {
        if (group_of(use.op) == group_of(op.id) || !done.insert(use.op).second) continue;
        const auto refusal = refused_.find({index_of(op.id), index_of(use.op)});
        Decision d{.id = static_cast<uint32_t>(result.ledger.size()),
                   .rule = "",
                   .verdict = Verdict::rejected,
                   .reason = {},
                   .detail = "",
                   .ops = {op.id, use.op},
                   .value = output};
        if (refusal != refused_.end()) {
          d.rule = refusal->second.rule;
          d.reason = refusal->second.reason;
          d.detail = refusal->second.detail;
        } else {
          std::tie(d.reason, d.detail) = classify(*this, op.id, use);
        }
        result.ledger.push_back(std::move(d));
        refused_.erase({index_of(op.id), index_of(use.op)});
      }
    }
  }
  // What is left is about ops with no edge between them: siblings.
  for (const auto& [pair, refusal] : refused_) {
    if (group_[pair.first] == group_[pair.second]) continue;
    const OpId first{std::min(pair.first, pair.second)}, second{std::max(pair.first, pair.second)};
    result.ledger.push_back({.id = static_cast<uint32_t>(result.ledger.size()),
                             .rule = refusal.rule,
                             .verdict = Verdict::rejected,
                             .reason = refusal.reason,
                             .detail = refusal.detail,
                             .ops = {first, second},
                             .value = {}});
  }
  return result;
}

}  // namespace gm
