#include <algorithm>
#include <map>

#include "plan/check_parts.h"

namespace gm::check {
namespace {

struct Use {
  size_t node;
  SlotAccess access;
};

// Of each slot, in the order of nodes.
std::vector<std::vector<Use>> uses_of(const Program& program) {
  std::vector<std::vector<Use>> uses(program.slots.size());
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    for (const NodeArg& arg : program.nodes[n].args) {
      // The same slot may be read twice; what is written is given once (check_nodes).
      std::vector<Use>& list = uses[arg.slot];
      if (list.empty() || list.back().node != n) list.push_back({n, arg.access});
    }
  }
  return uses;
}

// "reads after node 2 (...) writes"
Error unordered(const Context& c, size_t slot, const Use& earlier, const Use& later) {
  const auto verb = [](SlotAccess access) {
    return access == SlotAccess::read ? "reads" : "writes";
  };
  return c.fault(Code::plan_dependence, fmt::format(".nodes[{}].after", later.node),
                 "{} {} slot {}, which {} {}, but does not wait for it", c.node_text(later.node),
                 verb(later.access), c.slot_name(slot), c.node_text(earlier.node),
                 verb(earlier.access));
}

// In the order of the list each write must come after the write before it and after all reads
// since; each read after the last write. All other pairs follow, since paths join.
Result<> check_slot_order(const Context& c, const Reachability& reachable, size_t slot,
                          const std::vector<Use>& uses) {
  const Use* last_write = nullptr;
  std::vector<const Use*> reads;
  for (const Use& use : uses) {
    if (last_write != nullptr && !reachable.before(last_write->node, use.node)) {
      return unordered(c, slot, *last_write, use);
    }
    if (use.access == SlotAccess::read) {
      reads.push_back(&use);
      continue;
    }
    for (const Use* read : reads) {
      if (!reachable.before(read->node, use.node)) return unordered(c, slot, *read, use);
    }
    reads.clear();
    last_write = &use;
  }
  return {};
}

int64_t aligned(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// An activation's bytes of the arena.
struct Extent {
  int64_t begin = 0, end = 0;
};

class Arena {
 public:
  Arena(const Context& c, const Reachability& reachable)
      : c_(c), reachable_(reachable), uses_(uses_of(c.program)), extents_(uses_.size()) {}

  Result<> check() {
    GM_TRY(place());
    GM_TRY(check_pairs());
    // Slots in the order in which they begin to live. `owners_` says of each byte which slot wrote
    // it last: one that takes it over must come after all uses of the owner. Of the owners before,
    // it then does so too, because each took over in the same way and its first write is one of its
    // uses.
    std::vector<size_t> order;
    for (size_t slot = 0; slot < extents_.size(); ++slot) {
      if (is_activation(slot) && !uses_[slot].empty() &&
          extents_[slot].begin < extents_[slot].end) {
        order.push_back(slot);
      }
    }
    std::ranges::stable_sort(order, {}, [&](size_t slot) { return uses_[slot].front().node; });
    for (const size_t slot : order) GM_TRY(take_over(slot));
    return {};
  }

 private:
  bool is_activation(size_t slot) const {
    return c_.program.slots[slot].kind == SlotKind::activation;
  }

  Result<> place() {
    int64_t peak = 0;
    for (size_t i = 0; i < extents_.size(); ++i) {
      if (!is_activation(i)) continue;
      const Slot& slot = c_.program.slots[i];
      const std::string below = fmt::format(".slots[{}].arena_offset", i);
      if (slot.arena_offset < 0 || slot.arena_offset % kArenaAlignment != 0) {
        return c_.fault(Code::plan_alignment, below,
                        "activation {} lies at offset {} of the arena, not at a multiple of {}",
                        slot.name, slot.arena_offset, kArenaAlignment);
      }
      const int64_t bytes = *largest_bytes(c_.program.symbols, slot);
      int64_t end = 0;
      if (__builtin_add_overflow(slot.arena_offset, bytes, &end) ||
          end > INT64_MAX - kArenaAlignment) {
        return c_.fault(Code::plan_size, below,
                        "activation {} at offset {} with {} bytes ends outside 64 bits", slot.name,
                        slot.arena_offset, bytes);
      }
      extents_[i] = {slot.arena_offset, end};
      peak = std::max(peak, aligned(end));
    }
    if (c_.program.arena_bytes != peak) {
      return c_.fault(Code::plan_arena, ".arena_bytes",
                      "the arena has {} bytes, but its activations end at {}",
                      c_.program.arena_bytes, peak);
    }
    return {};
  }

  Result<> check_pairs() {
    for (size_t n = 0; n < c_.program.nodes.size(); ++n) {
      const Node& node = c_.program.nodes[n];
      for (size_t i = 0; i < node.in_place.size(); ++i) {
        const auto [written, read] = node.in_place[i];
        GM_TRY(check_pair(n, written, read, fmt::format(".nodes[{}].in_place[{}]", n, i)));
      }
      // Two results in the place of one operand would share bytes with each other; take_over() sees
      // that.
    }
    return {};
  }

  Result<> check_pair(size_t n, uint32_t written, uint32_t read, const std::string& below) {
    const auto fault = [&](std::string why) {
      return c_.fault(Code::plan_in_place, below, "{} writes {} in the place of {}, but {}",
                      c_.node_text(n), c_.slot_name(written), c_.slot_name(read), why);
    };
    if (!is_activation(written) || !is_activation(read)) return fault("both must be activations");
    const auto accesses = [&](uint32_t slot, SlotAccess access) {
      return std::ranges::any_of(
          uses_[slot], [&](const Use& use) { return use.node == n && use.access == access; });
    };
    if (!accesses(written, SlotAccess::write) || uses_[written].front().node != n) {
      return fault(fmt::format("the node is not the first to write {}", c_.slot_name(written)));
    }
    if (!accesses(read, SlotAccess::read)) {
      return fault(fmt::format("the node does not read {} alone", c_.slot_name(read)));
    }
    for (const Use& use : uses_[read]) {
      if (use.node != n && !reachable_.before(use.node, n)) {
        return fault(
            fmt::format("{} may still use {}", c_.node_text(use.node), c_.slot_name(read)));
      }
    }
    const Slot& to = c_.program.slots[written];
    const Slot& from = c_.program.slots[read];
    if (to.arena_offset != from.arena_offset) {
      return fault(
          fmt::format("they lie at offsets {} and {}", to.arena_offset, from.arena_offset));
    }
    SymExpr to_bytes = size_bytes(to.dtype), from_bytes = size_bytes(from.dtype);
    for (const SymExpr& extent : to.shape) to_bytes = to_bytes * extent;
    for (const SymExpr& extent : from.shape) from_bytes = from_bytes * extent;
    if (c_.program.symbols.provably_equal(to_bytes, from_bytes) != Truth::yes) {
      return fault(
          fmt::format("they have {} and {} bytes", to_bytes.to_string(), from_bytes.to_string()));
    }
    return {};
  }

  // Whether all uses of `owner` have ended before `slot` is written the first time.
  Result<> check_ended(size_t owner, size_t slot) {
    const size_t birth = uses_[slot].front().node;
    const auto pair = std::pair(static_cast<uint32_t>(slot), static_cast<uint32_t>(owner));
    const auto& in_place = c_.program.nodes[birth].in_place;
    const bool shares = std::ranges::find(in_place, pair) != in_place.end();
    for (const Use& use : uses_[owner]) {
      if (reachable_.before(use.node, birth) || (use.node == birth && shares)) continue;
      return c_.fault(Code::plan_overlap, fmt::format(".slots[{}].arena_offset", slot),
                      "activation {} at bytes {} to {} of the arena, written by {}, overlaps {} at "
                      "bytes {} to {}, which {} uses and does not have to have ended",
                      c_.slot_name(slot), extents_[slot].begin, extents_[slot].end,
                      c_.node_text(birth), c_.slot_name(owner), extents_[owner].begin,
                      extents_[owner].end, c_.node_text(use.node));
    }
    return {};
  }

  Result<> take_over(size_t slot) {
    const auto [begin, end] = extents_[slot];
    auto at = owners_.upper_bound(begin);
    if (at != owners_.begin()) --at;
    while (at != owners_.end() && at->first < end) {
      const auto [from, owned] = *at;
      if (owned.end <= begin) {
        ++at;
        continue;
      }
      GM_TRY(check_ended(owned.slot, slot));
      at = owners_.erase(at);
      if (from < begin) owners_.emplace(from, Owned{begin, owned.slot});
      if (owned.end > end) at = owners_.emplace(end, owned).first;
    }
    owners_.emplace(begin, Owned{end, slot});
    return {};
  }

  struct Owned {
    int64_t end;
    size_t slot;
  };

  const Context& c_;
  const Reachability& reachable_;
  std::vector<std::vector<Use>> uses_;
  std::vector<Extent> extents_;
  std::map<int64_t, Owned> owners_;  // by first byte; disjoint
};

}  // namespace

Reachability::Reachability(const Program& program)
    : words_((program.nodes.size() + 63) / 64), rows_(words_ * program.nodes.size(), 0) {
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    uint64_t* row = rows_.data() + n * words_;
    for (const uint32_t earlier : program.nodes[n].after) {
      if ((row[earlier / 64] >> (earlier % 64) & 1) != 0) continue;  // and so are all before it
      const uint64_t* other = rows_.data() + earlier * words_;
      for (size_t w = 0; w <= earlier / 64; ++w) row[w] |= other[w];
      row[earlier / 64] |= uint64_t{1} << (earlier % 64);
    }
  }
}

Result<> check_dependences(const Context& c, const Reachability& reachable) {
  const std::vector<std::vector<Use>> uses = uses_of(c.program);
  for (size_t slot = 0; slot < uses.size(); ++slot) {
    const Slot& info = c.program.slots[slot];
    if (info.kind == SlotKind::activation || info.kind == SlotKind::output) {
      if (!uses[slot].empty() && uses[slot].front().access != SlotAccess::write) {
        return c.fault(Code::plan_unwritten, fmt::format(".nodes[{}]", uses[slot].front().node),
                       "{} reads {} {}, which no node before it writes",
                       c.node_text(uses[slot].front().node), to_string(info.kind), info.name);
      }
    }
    if (info.kind == SlotKind::output && uses[slot].empty()) {
      return c.fault(Code::plan_output, fmt::format(".slots[{}]", slot), "no node writes output {}",
                     info.name);
    }
    if (info.kind == SlotKind::input && info.name == "ids" && uses[slot].empty()) {
      return c.fault(Code::plan_input, fmt::format(".slots[{}]", slot),
                     "no node reads input ids, so the result would not depend on the text");
    }
    GM_TRY(check_slot_order(c, reachable, slot, uses[slot]));
  }
  return {};
}

Result<> check_arena(const Context& c, const Reachability& reachable) {
  return Arena(c, reachable).check();
}

}  // namespace gm::check
