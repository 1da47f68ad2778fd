#include "compiler/memory_plan.h"

#include <algorithm>

#include "compiler/passes/passes.h"

namespace gm {
namespace {

SlotAccess slot_access(Access access) {
  switch (access) {
    case Access::read:
      return SlotAccess::read;
    case Access::write:
      return SlotAccess::write;
    case Access::read_write:
      return SlotAccess::read_write;
  }
  GM_CHECK(false, "access {}", static_cast<int>(access));
}

InputContract input_contract(const Contract& c) {
  return {c.lo, c.hi, c.monotone, c.total, c.distinct, c.masked, c.consecutive};
}

// Calls `visit` with every expression of a block, and the store it belongs to (or nothing).
void visit_exprs(const Block& block,
                 const std::function<void(const Expr&, const StoreStmt*)>& visit) {
  for (const Stmt& stmt : block) {
    std::visit(
        [&](const auto& s) {
          using S = std::decay_t<decltype(s)>;
          if constexpr (std::is_same_v<S, StoreStmt>) {
            visit(s.value, &s);
            for (const Expr& e : s.indices) visit(e, nullptr);
          } else if constexpr (std::is_same_v<S, ReduceStmt>) {
            visit(s.a, nullptr);
            if (s.b) visit(s.b, nullptr);
          } else if constexpr (std::is_same_v<S, UpdateStmt>) {
            visit(s.value, nullptr);
            for (const Expr& e : s.indices) visit(e, nullptr);
          } else if constexpr (std::is_same_v<S, ForStmt>) {
            visit(s.lo, nullptr);
            visit(s.hi, nullptr);
            visit_exprs(s.body, visit);
          } else if constexpr (std::is_same_v<S, IfStmt>) {
            visit(s.condition, nullptr);
            visit_exprs(s.body, visit);
          } else {
            visit(s.value, nullptr);
          }
        },
        stmt.node);
  }
}

class Planner {
 public:
  explicit Planner(const Unit& unit) : unit_(unit) { program_.symbols = unit.graph.symbols; }

  Result<Program> run() {
    program_.name = unit_.name;
    program_.graph = fmt::format("graph.{}.gm", unit_.name);
    for (size_t n = 0; n < unit_.kernels->size(); ++n) add_node(n, (*unit_.kernels)[n]);
    for (size_t n = 0; n < unit_.kernels->size(); ++n)
      GM_TRY(place_results(n, (*unit_.kernels)[n]));
    return std::move(program_);
  }

 private:
  struct Life {
    size_t first_write = SIZE_MAX, last_use = 0;
    int64_t bytes = 0;
  };

  uint32_t slot_for(const LoweredRegion::Binding& binding, const Param& param) {
    Slot slot{.name = "",
              .kind = SlotKind::activation,
              .dtype = param.dtype,
              .shape = param.shape,
              .arena_offset = -1,
              .contract = {}};
    if (!binding.value) {
      slot.kind = SlotKind::weight;
      slot.name = binding.weight_buffer;
    } else {
      const Value& value = unit_.graph.value(*binding.value);
      slot.name = value.name;
      if (value.kind == ValueKind::state) slot.kind = SlotKind::state;
      if (value.kind == ValueKind::input) {
        slot.kind = SlotKind::input;
        if (value.contract) slot.contract = input_contract(*value.contract);
      }
      for (const GraphOutput& output : unit_.graph.outputs()) {
        if (output.is_state || output.value != value.id) continue;
        slot.kind = SlotKind::output;
        slot.name = output.name;
        break;
      }
    }
    for (size_t i = 0; i < program_.slots.size(); ++i) {
      if (program_.slots[i].name == slot.name && program_.slots[i].kind == slot.kind)
        return static_cast<uint32_t>(i);
    }
    program_.slots.push_back(std::move(slot));
    lives_.emplace_back();
    return static_cast<uint32_t>(program_.slots.size() - 1);
  }

  void add_node(size_t n, const LoweredRegion& lowered) {
    Node node{.kernel = lowered.kernel.name,
              .args = {},
              .after = {},
              .in_place = {},
              .label = unit_.regions->regions[n].name};
    for (size_t i = 0; i < lowered.bindings.size(); ++i) {
      const Param& param = lowered.kernel.params[i];
      const uint32_t slot = slot_for(lowered.bindings[i], param);
      node.args.push_back({slot, slot_access(param.access)});
      if (param.access != Access::read)
        lives_[slot].first_write = std::min(lives_[slot].first_write, n);
      lives_[slot].last_use = n;
    }
    // The CPU runs nodes one after the other; every dependence is on the way.
    if (n > 0) node.after = {static_cast<uint32_t>(n - 1)};
    program_.nodes.push_back(std::move(node));
  }

  Result<int64_t> bytes_at_largest(const Slot& slot) const {
    int64_t bytes = size_bytes(slot.dtype);
    for (const SymExpr& extent : slot.shape) {
      const SymRange range = program_.symbols.range(extent);
      if (!range.hi || __builtin_mul_overflow(bytes, *range.hi, &bytes)) {
        return err(Code::memory_unbounded, Location::of_path(program_.name, slot.name),
                   "give every symbol of the graph a range with an end",
                   "the size of '{}' has no bound: {}", slot.name, extent.to_string());
      }
    }
    return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  }

  // The lowest gap among the slots that are alive at `node`.
  int64_t lowest_gap(size_t node, int64_t bytes) const {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t i = 0; i < program_.slots.size(); ++i) {
      const Slot& slot = program_.slots[i];
      if (slot.arena_offset >= 0 && lives_[i].last_use >= node)
        taken.emplace_back(slot.arena_offset, slot.arena_offset + lives_[i].bytes);
    }
    std::ranges::sort(taken);
    int64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (begin - offset >= bytes) break;
      offset = std::max(offset, end);
    }
    return offset;
  }

  Result<> place_results(size_t n, const LoweredRegion& lowered) {
    Node& node = program_.nodes[n];
    for (size_t i = 0; i < node.args.size(); ++i) {
      const uint32_t index = node.args[i].slot;
      Slot& slot = program_.slots[index];
      if (slot.kind != SlotKind::activation || lives_[index].first_write != n ||
          slot.arena_offset >= 0)
        continue;
      GM_ASSIGN(lives_[index].bytes, bytes_at_largest(slot));
      if (const auto donor = dying_operand(n, lowered, i)) {
        slot.arena_offset = program_.slots[*donor].arena_offset;
        node.in_place.emplace_back(index, *donor);
      } else {
        slot.arena_offset = lowest_gap(n, lives_[index].bytes);
      }
      program_.arena_bytes =
          std::max(program_.arena_bytes, slot.arena_offset + lives_[index].bytes);
    }
    return {};
  }

  std::optional<uint32_t> dying_operand(size_t n, const LoweredRegion& lowered,
                                        size_t written) const {
    const Node& node = program_.nodes[n];
    for (size_t i = 0; i < node.args.size(); ++i) {
      const uint32_t slot = node.args[i].slot;
      if (program_.slots[slot].kind != SlotKind::activation ||
          node.args[i].access != SlotAccess::read)
        continue;
      if (lives_[slot].last_use != n) continue;
      if (std::ranges::any_of(node.in_place, [&](const auto& pair) { return pair.second == slot; }))
        continue;
      if (may_share_memory(lowered.kernel, lowered.kernel.params[i],
                           lowered.kernel.params[written]))
        return slot;
    }
    return {};
  }

  const Unit& unit_;
  Program program_;
  std::vector<Life> lives_;
};

}  // namespace

bool may_share_memory(const Kernel& kernel, const Param& read, const Param& written) {
  if (read.dtype != written.dtype || read.shape != written.shape) return false;
  const StoreStmt* only = nullptr;
  int stores = 0;
  bool same = true;
  for (const Part& part : kernel.parts) {
    visit_exprs(part.body, [&](const Expr& e, const StoreStmt* store) {
      const bool stores_it = store != nullptr && store->buffer == written.name;
      if (stores_it) {
        ++stores;
        only = store;
      }
      visit_nodes(e, [&](const Expr& node) {
        if (node->kind != ExprKind::load || node->name != read.name) return;
        if (!stores_it || node->args != store->indices) same = false;
      });
    });
  }
  return same && stores == 1 && only != nullptr;
}

Result<Program> plan_program(const Unit& unit) { return Planner(unit).run(); }

Result<Module> plan_memory(const Module& module) {
  Module result = module;
  for (Unit& unit : result.units) {
    GM_ASSIGN(unit.program, plan_program(unit));
  }
  return result;
}

std::string print_program(const Program& program) {
  std::string text =
      fmt::format("program @{} arena {} bytes {{\n", program.name, program.arena_bytes);
  for (const Slot& slot : program.slots) {
    std::string shape;
    for (const SymExpr& e : slot.shape) shape += (shape.empty() ? "" : ", ") + e.to_string();
    text += fmt::format("  slot %{} : {}[{}] {}", slot.name, to_string(slot.dtype), shape,
                        to_string(slot.kind));
    if (slot.arena_offset >= 0) text += fmt::format(" at {}", slot.arena_offset);
    text += "\n";
  }
  for (const Node& node : program.nodes) {
    std::string args;
    for (const NodeArg& arg : node.args) {
      args += fmt::format("{}{} %{}", args.empty() ? "" : ", ", to_string(arg.access),
                          program.slots[arg.slot].name);
    }
    text += fmt::format("  node {}({}) @ \"{}\"", node.kernel, args, node.label);
    for (const auto& [written, read] : node.in_place) {
      text += fmt::format(" in_place(%{} over %{})", program.slots[written].name,
                          program.slots[read].name);
    }
    text += "\n";
  }
  return text + "}\n";
}

}  // namespace gm
