#include <set>

#include "plan/check_parts.h"

namespace gm::check {
namespace {

std::string shape_text(const std::vector<SymExpr>& shape) {
  std::string text = "[";
  for (const SymExpr& extent : shape) {
    if (text.size() > 1) text += ", ";
    text += extent.to_string();
  }
  return text + "]";
}

// The number of entries of a pool is chosen when it is made, not when the plan is.
bool is_pool_extent(const SymInfo& symbol) {
  return symbol.role == SymRole::slots || symbol.role == SymRole::pages;
}

// In any expression, all symbols are declared.
Result<> check_declared(const Context& c, const SymExpr& e, const std::string& below,
                        std::string_view what) {
  if (e.is_too_large()) {
    return c.fault(Code::plan_size, below, "{} is too large a symbolic integer", what);
  }
  for (const std::string& symbol : e.symbols()) {
    if (c.program.symbols.find(symbol) == nullptr) {
      return c.fault(Code::plan_reference, below, "{} is {}, but the program has no symbol {}",
                     what, e.to_string(), symbol);
    }
  }
  return {};
}

Result<> check_contract(const Context& c, const Slot& slot, const std::string& below) {
  const InputContract& contract = *slot.contract;
  if (slot.kind != SlotKind::input || slot.dtype != DType::i32) {
    return c.fault(Code::plan_slot, below, "{} {} of {} has a contract; only i32 inputs have one",
                   to_string(slot.kind), slot.name, to_string(slot.dtype));
  }
  if (contract.total && !contract.monotone) {
    return c.fault(Code::plan_slot, below, "input {} has a total but is not monotone", slot.name);
  }
  GM_TRY(check_declared(c, contract.lo, below, "a contract's lower bound"));
  if (contract.hi) GM_TRY(check_declared(c, *contract.hi, below, "a contract's upper bound"));
  if (contract.total) GM_TRY(check_declared(c, *contract.total, below, "a contract's total"));
  return {};
}

Result<> check_state_slot(const Context& c, const Slot& slot, const std::string& below) {
  const StateBuffer* state = c.plan.find_state(slot.name);
  if (state == nullptr) {
    return c.fault(Code::plan_reference, below, "state slot {} names no state of the plan",
                   slot.name);
  }
  if (state->dtype != slot.dtype || state->shape != slot.shape) {
    return c.fault(Code::plan_state, below, "state slot {} is {}{}, but its buffer is {}{}",
                   slot.name, to_string(slot.dtype), shape_text(slot.shape),
                   to_string(state->dtype), shape_text(state->shape));
  }
  return {};
}

Result<> check_weight_slot(const Context& c, const Slot& slot, const std::string& below) {
  const WeightBuffer* weight = c.plan.find_weight(slot.name);
  if (weight == nullptr) {
    return c.fault(Code::plan_reference, below, "weight slot {} names no weight of the plan",
                   slot.name);
  }
  const std::vector<SymExpr> shape(weight->shape.begin(), weight->shape.end());
  if (weight->dtype != slot.dtype || shape != slot.shape) {
    return c.fault(Code::plan_weight, below, "weight slot {} is {}{}, but its buffer is {}{}",
                   slot.name, to_string(slot.dtype), shape_text(slot.shape),
                   to_string(weight->dtype), shape_text(shape));
  }
  return {};
}

}  // namespace

Result<> check_symbols(const Context& c) {
  const auto symbols = c.program.symbols.symbols();
  if (symbols.size() > kMaxSymbols) {
    return c.fault(Code::plan_symbol, ".symbols", "{} symbols; at most {} are allowed",
                   symbols.size(), kMaxSymbols);
  }
  for (size_t i = 0; i < symbols.size(); ++i) {
    const SymInfo& symbol = symbols[i];
    const std::string below = fmt::format(".symbols[{}]", i);
    if (symbol.role == SymRole::loop) {
      return c.fault(Code::plan_symbol, below, "{} is the axis of a loop, not a dim", symbol.name);
    }
    const SymRange range = c.program.symbols.range(SymExpr::symbol(symbol.name));
    if (!range.lo || *range.lo < 0) {
      return c.fault(Code::plan_symbol, below, "symbol {} can be negative", symbol.name);
    }
    if (!range.hi && !is_pool_extent(symbol)) {
      return c.fault(Code::plan_symbol, below, "symbol {} has no upper bound", symbol.name);
    }
    if (range.hi && *range.hi < *range.lo) {
      return c.fault(Code::plan_symbol, below, "symbol {} goes from {} to {}", symbol.name,
                     *range.lo, *range.hi);
    }
  }
  return {};
}

Result<> check_slots(const Context& c) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < c.program.slots.size(); ++i) {
    const Slot& slot = c.program.slots[i];
    const std::string below = fmt::format(".slots[{}]", i);
    if (slot.name.empty() || !names.insert(slot.name).second) {
      return c.fault(Code::plan_slot, below + ".name",
                     "two slots have the name \"{}\", or it is empty", slot.name);
    }
    if (slot.dtype == DType::pred) {
      return c.fault(Code::plan_slot, below + ".dtype",
                     "slot {} has dtype pred, which has no form in memory", slot.name);
    }
    if (slot.shape.size() > kMaxRank) {
      return c.fault(Code::plan_slot, below + ".shape",
                     "slot {} has {} axes; at most {} are allowed", slot.name, slot.shape.size(),
                     kMaxRank);
    }
    for (const SymExpr& extent : slot.shape) {
      GM_TRY(check_declared(c, extent, below + ".shape", "an extent of slot " + slot.name));
    }
    if (slot.kind != SlotKind::activation && slot.arena_offset != -1) {
      return c.fault(slot.kind == SlotKind::state ? Code::plan_state : Code::plan_slot,
                     below + ".arena_offset",
                     "{} {} lies at offset {} of the arena, where only "
                     "activations belong",
                     to_string(slot.kind), slot.name, slot.arena_offset);
    }
    if (slot.contract) GM_TRY(check_contract(c, slot, below + ".contract"));
    if (slot.kind == SlotKind::state) {
      GM_TRY(check_state_slot(c, slot, below));
    } else if (slot.kind == SlotKind::weight) {
      GM_TRY(check_weight_slot(c, slot, below));
    } else if (!largest_bytes(c.program.symbols, slot)) {
      return c.fault(Code::plan_size, below + ".shape",
                     "slot {} of shape {} can be negative, has no bound, or leaves 64 bits",
                     slot.name, shape_text(slot.shape));
    }
  }
  return {};
}

Result<> check_nodes(const Context& c) {
  const Program& program = c.program;
  if (program.nodes.size() > kMaxNodes) {
    return c.fault(Code::plan_order, ".nodes", "{} nodes; at most {} are allowed",
                   program.nodes.size(), kMaxNodes);
  }
  std::map<std::string_view, const PlanKernel*> kernels;
  for (const PlanKernel& kernel : c.plan.kernels) kernels.emplace(kernel.name, &kernel);
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    const Node& node = program.nodes[n];
    const std::string below = fmt::format(".nodes[{}]", n);
    const auto found = kernels.find(node.kernel);
    if (found == kernels.end()) {
      return c.fault(Code::plan_reference, below + ".kernel",
                     "{} runs kernel {}, which the plan lacks", c.node_text(n), node.kernel);
    }
    const PlanKernel& kernel = *found->second;
    for (const std::string& dim : kernel.dims) {
      if (program.symbols.find(dim) == nullptr) {
        return c.fault(Code::plan_reference, below + ".kernel",
                       "{} runs kernel {}, which takes {}, but the program has no such symbol",
                       c.node_text(n), node.kernel, dim);
      }
    }
    if (node.args.size() != kernel.params.size()) {
      return c.fault(Code::plan_arguments, below + ".args",
                     "{} gives {} arguments, but kernel {} takes {}", c.node_text(n),
                     node.args.size(), node.kernel, kernel.params.size());
    }
    std::map<uint32_t, bool> given;  // slot -> whether written
    for (size_t i = 0; i < node.args.size(); ++i) {
      const NodeArg& arg = node.args[i];
      const std::string place = fmt::format("{}.args[{}].slot", below, i);
      if (arg.slot >= program.slots.size()) {
        return c.fault(Code::plan_reference, place, "{} names slot {} of {}", c.node_text(n),
                       arg.slot, program.slots.size());
      }
      const Slot& slot = program.slots[arg.slot];
      const bool writes = arg.access != SlotAccess::read;
      if (writes && (slot.kind == SlotKind::weight || slot.kind == SlotKind::input)) {
        return c.fault(Code::plan_read_only, place, "{} writes {} {}", c.node_text(n),
                       to_string(slot.kind), slot.name);
      }
      const auto [at, first] = given.emplace(arg.slot, writes);
      if (!first && (writes || at->second)) {
        return c.fault(Code::plan_arguments, place,
                       "{} has slot {} as two arguments, of which one is written", c.node_text(n),
                       slot.name);
      }
    }
    for (size_t i = 0; i < node.after.size(); ++i) {
      if (node.after[i] >= n) {
        return c.fault(Code::plan_order, fmt::format("{}.after[{}]", below, i),
                       "{} waits for node {}, which is not listed before it", c.node_text(n),
                       node.after[i]);
      }
    }
    for (size_t i = 0; i < node.in_place.size(); ++i) {
      const auto [written, read] = node.in_place[i];
      if (written >= program.slots.size() || read >= program.slots.size()) {
        return c.fault(Code::plan_reference, fmt::format("{}.in_place[{}]", below, i),
                       "{} pairs slots {} and {} of {}", c.node_text(n), written, read,
                       program.slots.size());
      }
    }
  }
  return {};
}

}  // namespace gm::check
