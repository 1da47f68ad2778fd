#include "plan/check_parts.h"
#include "plan/json_fields.h"
#include "plan/plan_json.h"

namespace gm {
namespace {

constexpr std::array kDTypes = {DType::f32, DType::bf16, DType::f16, DType::i32, DType::i8};
constexpr std::array kKinds = {SlotKind::weight, SlotKind::activation, SlotKind::state,
                               SlotKind::input, SlotKind::output};
constexpr std::array kAccesses = {SlotAccess::read, SlotAccess::write, SlotAccess::read_write};
constexpr std::array kRoles = {SymRole::tokens, SymRole::seqs,  SymRole::rows,     SymRole::context,
                               SymRole::pages,  SymRole::slots, SymRole::constant, SymRole::loop};

Result<std::vector<SymExpr>> syms_field(const JsonView& object, std::string_view key) {
  return list_field<SymExpr>(object, key, read_sym);
}

Result<SymExpr> sym_field(const JsonView& object, std::string_view key) {
  GM_ASSIGN(const JsonView at, object.at(key));
  return read_sym(at);
}

Result<std::optional<SymExpr>> optional_sym_field(const JsonView& object, std::string_view key) {
  if (!object.has(key)) return std::optional<SymExpr>();
  GM_ASSIGN(SymExpr e, sym_field(object, key));
  return std::optional<SymExpr>(std::move(e));
}

Result<InputContract> read_contract(const JsonView& at) {
  GM_TRY(known_keys(at, {"lo", "hi", "monotone", "total", "distinct", "masked", "consecutive"}));
  InputContract c;
  GM_ASSIGN(c.lo, sym_field(at, "lo"));
  GM_ASSIGN(c.hi, optional_sym_field(at, "hi"));
  GM_ASSIGN(c.monotone, boolean_field(at, "monotone"));
  GM_ASSIGN(c.total, optional_sym_field(at, "total"));
  GM_ASSIGN(c.distinct, boolean_field(at, "distinct"));
  GM_ASSIGN(c.masked, boolean_field(at, "masked"));
  GM_ASSIGN(c.consecutive, boolean_field(at, "consecutive"));
  return c;
}

Result<SymTable> read_symbols(const JsonView& program) {
  GM_ASSIGN(const JsonView array, program.at("symbols"));
  GM_ASSIGN(const std::vector<JsonView> items, array.items());
  if (items.size() > check::kMaxSymbols) {
    return field_error(array, "{} symbols; at most {} are allowed", items.size(),
                       check::kMaxSymbols);
  }
  SymTable table;
  for (const JsonView& at : items) {
    GM_TRY(known_keys(at, {"name", "role", "lo", "hi", "multiple_of"}));
    SymInfo info;
    GM_ASSIGN(const JsonView name, at.at("name"));
    GM_ASSIGN(info.name, name.string());
    const Result<SymExpr> parsed = SymExpr::parse(info.name);
    if (!parsed || parsed->as_symbol() != info.name) {
      return field_error(name, "\"{}\" is not a symbol's name", info.name);
    }
    if (table.find(info.name) != nullptr) {
      return field_error(name, "symbol {} is declared twice", info.name);
    }
    GM_ASSIGN(info.role, enum_field(at, "role", kRoles));
    GM_ASSIGN(info.lo, sym_field(at, "lo"));
    GM_ASSIGN(info.hi, optional_sym_field(at, "hi"));
    GM_ASSIGN(info.multiple_of, integer_field(at, "multiple_of", 1));
    table.declare(std::move(info));
  }
  return table;
}

Result<Slot> read_slot(const JsonView& at) {
  GM_TRY(known_keys(at, {"name", "kind", "dtype", "shape", "arena_offset", "contract"}));
  Slot slot;
  GM_ASSIGN(slot.name, string_field(at, "name"));
  GM_ASSIGN(slot.kind, enum_field(at, "kind", kKinds));
  GM_ASSIGN(slot.dtype, enum_field(at, "dtype", kDTypes));
  GM_ASSIGN(slot.shape, syms_field(at, "shape"));
  if (at.has("arena_offset")) {
    GM_ASSIGN(slot.arena_offset, integer_field(at, "arena_offset", 0));
  }
  if (at.has("contract")) {
    GM_ASSIGN(const JsonView contract, at.at("contract"));
    GM_ASSIGN(slot.contract, read_contract(contract));
  }
  return slot;
}

// An index into a list of `count`.
Result<uint32_t> read_index(const JsonView& at, size_t count, std::string_view what) {
  GM_ASSIGN(const int64_t index, at.integer(0, UINT32_MAX));
  if (static_cast<size_t>(index) >= count) {
    return err(Code::plan_reference, at.where(), std::string(kRecompile),
               "{} {} is not there: the program has {}", what, index, count);
  }
  return static_cast<uint32_t>(index);
}

Result<uint32_t> index_field(const JsonView& object, std::string_view key, size_t count,
                             std::string_view what) {
  GM_ASSIGN(const JsonView at, object.at(key));
  return read_index(at, count, what);
}

Result<Node> read_node(const JsonView& at, size_t slots, size_t nodes) {
  GM_TRY(known_keys(at, {"kernel", "label", "args", "after", "in_place"}));
  Node node;
  GM_ASSIGN(node.kernel, string_field(at, "kernel"));
  GM_ASSIGN(node.label, string_field(at, "label"));
  GM_ASSIGN(node.args,
            list_field<NodeArg>(at, "args", [&](const JsonView& item) -> Result<NodeArg> {
              GM_TRY(known_keys(item, {"slot", "access"}));
              NodeArg arg;
              GM_ASSIGN(arg.slot, index_field(item, "slot", slots, "slot"));
              GM_ASSIGN(arg.access, enum_field(item, "access", kAccesses));
              return arg;
            }));
  GM_ASSIGN(node.after, list_field<uint32_t>(at, "after", [&](const JsonView& item) {
              return read_index(item, nodes, "node");
            }));
  using Pair = std::pair<uint32_t, uint32_t>;
  GM_ASSIGN(node.in_place,
            list_field<Pair>(at, "in_place", [&](const JsonView& item) -> Result<Pair> {
              GM_TRY(known_keys(item, {"write", "read"}));
              GM_ASSIGN(const uint32_t write, index_field(item, "write", slots, "slot"));
              GM_ASSIGN(const uint32_t read, index_field(item, "read", slots, "slot"));
              return Pair(write, read);
            }));
  return node;
}

Result<Program> read_program(const JsonView& at) {
  GM_TRY(known_keys(at, {"name", "graph", "arena_bytes", "symbols", "slots", "nodes"}));
  Program program;
  GM_ASSIGN(program.name, string_field(at, "name"));
  GM_ASSIGN(program.graph, string_field(at, "graph"));
  GM_ASSIGN(program.arena_bytes, integer_field(at, "arena_bytes", 0));
  GM_ASSIGN(program.symbols, read_symbols(at));
  GM_ASSIGN(program.slots, list_field<Slot>(at, "slots", read_slot));
  GM_ASSIGN(const JsonView nodes, at.at("nodes"));
  const size_t count = nodes.json().size();
  GM_ASSIGN(program.nodes, list_field<Node>(at, "nodes", [&](const JsonView& item) {
              return read_node(item, program.slots.size(), count);
            }));
  return program;
}

Result<PlanKernel> read_kernel(const JsonView& at) {
  GM_TRY(
      known_keys(at, {"name", "symbol", "dims", "params", "part_items", "scratch_bytes", "text"}));
  PlanKernel kernel;
  GM_ASSIGN(kernel.name, string_field(at, "name"));
  GM_ASSIGN(kernel.symbol, string_field(at, "symbol"));
  GM_ASSIGN(kernel.dims, strings_field(at, "dims"));
  GM_ASSIGN(kernel.params, strings_field(at, "params"));
  GM_ASSIGN(kernel.part_items, syms_field(at, "part_items"));
  GM_ASSIGN(kernel.scratch_bytes, integer_field(at, "scratch_bytes", 0));
  GM_ASSIGN(kernel.text_member, string_field(at, "text"));
  return kernel;
}

Result<StateBuffer> read_state(const JsonView& at) {
  GM_TRY(known_keys(at, {"name", "dtype", "shape"}));
  StateBuffer state;
  GM_ASSIGN(state.name, string_field(at, "name"));
  GM_ASSIGN(state.dtype, enum_field(at, "dtype", kDTypes));
  GM_ASSIGN(state.shape, syms_field(at, "shape"));
  return state;
}

Result<std::pair<int64_t, int64_t>> read_range(const JsonView& at) {
  GM_ASSIGN(const std::vector<JsonView> ends, at.items());
  if (ends.size() != 2)
    return field_error(at, "expected [first, end], found {} numbers", ends.size());
  GM_ASSIGN(const int64_t begin, ends[0].integer(0));
  GM_ASSIGN(const int64_t end, ends[1].integer(0));
  return std::pair(begin, end);
}

Result<WeightPart> read_part(const JsonView& at) {
  GM_TRY(known_keys(
      at, {"tensor", "stored_shape", "slice", "series", "groups", "values", "panel_offset"}));
  WeightPart part;
  if (at.has("tensor")) {
    GM_ASSIGN(part.tensor, string_field(at, "tensor"));
  }
  GM_ASSIGN(part.stored_shape, integers_field(at, "stored_shape", 0));
  if (at.has("slice")) {
    GM_ASSIGN(const JsonView slice, at.at("slice"));
    GM_TRY(known_keys(slice, {"axis", "begin", "end"}));
    GM_ASSIGN(const int64_t axis, integer_field(slice, "axis", 0, INT32_MAX));
    part.slice_axis = static_cast<int>(axis);
    GM_ASSIGN(part.slice_begin, integer_field(slice, "begin", 0));
    GM_ASSIGN(part.slice_end, integer_field(slice, "end", 0));
  }
  if (at.has("series")) {
    GM_ASSIGN(part.series, integer_field(at, "series", 1));
  }
  if (at.has("groups")) {
    GM_ASSIGN(const JsonView groups, at.at("groups"));
    GM_TRY(known_keys(groups, {"count", "ranges"}));
    GM_ASSIGN(part.groups, integer_field(groups, "count", 1));
    GM_ASSIGN(part.ranges, (list_field<std::pair<int64_t, int64_t>>(groups, "ranges", read_range)));
  }
  if (at.has("values")) {
    GM_ASSIGN(part.values,
              list_field<double>(at, "values", [](const JsonView& item) { return item.number(); }));
  }
  GM_ASSIGN(part.panel_offset, integer_field(at, "panel_offset", 0));
  return part;
}

Result<WeightBuffer> read_weight(const JsonView& at) {
  GM_TRY(known_keys(at, {"name", "dtype", "shape", "layout", "parts"}));
  WeightBuffer weight;
  GM_ASSIGN(weight.name, string_field(at, "name"));
  GM_ASSIGN(weight.dtype, enum_field(at, "dtype", kDTypes));
  GM_ASSIGN(weight.shape, integers_field(at, "shape", 0));
  GM_ASSIGN(weight.layout, string_field(at, "layout"));
  GM_ASSIGN(weight.parts, list_field<WeightPart>(at, "parts", read_part));
  return weight;
}

}  // namespace

Result<> read_program_member(const JsonView& member, Plan& plan) {
  GM_TRY(known_keys(member, {"programs", "kernels", "states"}));
  GM_ASSIGN(plan.programs, list_field<Program>(member, "programs", read_program));
  GM_ASSIGN(plan.kernels, list_field<PlanKernel>(member, "kernels", read_kernel));
  GM_ASSIGN(plan.states, list_field<StateBuffer>(member, "states", read_state));
  return {};
}

Result<> read_weights_member(const JsonView& member, Plan& plan) {
  GM_TRY(known_keys(member, {"weights"}));
  GM_ASSIGN(plan.weights, list_field<WeightBuffer>(member, "weights", read_weight));
  return {};
}

}  // namespace gm
