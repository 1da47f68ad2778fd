#include "ir/graph_verify.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/algorithms.h"
#include "ir/graph_text.h"
#include "ir/lexer.h"
#include "ir/nearest.h"
#include "ir/opdef.h"

namespace gm {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  Result<> run() {
    GM_TRY(names());
    GM_TRY(operands());
    for (const Value& value : graph_.values()) GM_TRY(value_itself(value));
    for (const Op& op : graph_.ops()) GM_TRY(op_itself(op));
    GM_TRY(outputs());
    return states();
  }

 private:
  Location at(const Op& op) const {
    return op.location.empty() ? Location::of_path({}, op.where) : op.location;
  }
  Location at(const Value& value) const {
    const Op* producer = graph_.producer(value.id);
    return producer != nullptr ? at(*producer) : Location::of_path({}, "%" + value.name);
  }
  Diag about(Error error, const Op& op) const {
    return std::move(error.error()).note(print_op(graph_, op.id));
  }

  Result<> names() const {
    std::map<std::string_view, const Value*> seen;
    for (const Value& value : graph_.values()) {
      const auto [found, added] = seen.try_emplace(value.name, &value);
      if (!added)
        return Error(std::move(err(Code::graph_redefined, at(value), "give it another name",
                                   "value %{} is defined twice", value.name)
                                   .error())
                         .note("it was defined here first", at(*found->second)));
      if (!is_name(value.name))
        return err(Code::graph_redefined, at(value), "use letters, digits, '_' and '.' only",
                   "value {} has the name {}", index_of(value.id), quote(value.name));
    }
    return {};
  }

  Result<> operands() const {
    // The op of which one operand comes later; a circle is the reason that is worth naming.
    for (const Op& op : graph_.ops()) {
      for (const ValueId input : op.inputs) {
        if (index_of(input) >= graph_.values().size())
          return Error(
              about(err(Code::graph_undefined, at(op), "define the value before it is used",
                        "{} uses value {}, but there are only {}", op.kind, index_of(input),
                        graph_.values().size()),
                    op));
        const Op* producer = graph_.producer(input);
        if (producer == nullptr || index_of(producer->id) < index_of(op.id)) continue;
        const std::vector<uint32_t> cycle = find_cycle(op_digraph(graph_));
        if (cycle.empty())
          return Error(
              about(err(Code::graph_undefined, at(op), "move it behind that op",
                        "{} uses %{} before it is defined", op.kind, graph_.value(input).name),
                    op)
                  .note("it is defined here", at(*producer)));
        Diag diag = err(Code::graph_cycle, at(graph_.ops()[cycle.front()]),
                        "let one of them read a value that does not depend on it",
                        "{} ops depend on each other in a circle", cycle.size())
                        .error();
        for (size_t i = 0; i < std::min<size_t>(cycle.size(), 8); ++i) {
          const Op& member = graph_.ops()[cycle[i]];
          diag.notes.push_back({print_op(graph_, member.id), at(member)});
        }
        return Error(std::move(diag));
      }
    }
    return {};
  }

  Result<> declared(const SymExpr& e, const Value& value) const {
    for (const std::string& name : e.symbols()) {
      if (graph_.symbols.find(name) != nullptr) continue;
      std::vector<std::string> known;
      for (const SymInfo& symbol : graph_.symbols.symbols()) known.push_back(symbol.name);
      const std::string nearest = nearest_name(name, known);
      return err(Code::graph_symbol, at(value),
                 nearest.empty() ? fmt::format("declare symbol {}", name)
                                 : fmt::format("declare it; the nearest symbol is {}", nearest),
                 "%{} uses symbol {}, which is not declared", value.name, name);
    }
    return {};
  }

  Result<> value_itself(const Value& value) const {
    for (const SymExpr& dim : value.type.shape) {
      GM_TRY(declared(dim, value));
      if (dim.is_too_large() || graph_.symbols.provably_lt(dim, SymExpr(0)) == Truth::yes)
        return err(Code::graph_extent, at(value),
                   "declare its symbols with ranges that keep it within 64 bits and not negative",
                   "%{} is {}, of which an extent is {}", value.name, value.type.to_string(),
                   dim.is_too_large() ? "too large" : "negative");
    }
    if (value.kind == ValueKind::weight) return weight(value);
    if (value.kind == ValueKind::input && value.contract) return contract(value, *value.contract);
    return {};
  }

  Result<> weight(const Value& value) const {
    const auto fault = [&](std::string fix, std::string text) -> Result<> {
      return err(Code::graph_weight, at(value), std::move(fix), "weight %{} {}", value.name, text);
    };
    if (!value.source || (value.source->tensor.empty() && value.source->values.empty()))
      return fault("name the tensor that it is loaded from", "has no source");
    const WeightSource& source = *value.source;
    std::vector<int64_t> shape;
    for (const SymExpr& dim : value.type.shape) {
      const std::optional<int64_t> extent = dim.constant();
      if (!extent || *extent < 0)
        return fault(
            {}, fmt::format("has the extent {}, but only constants are possible", dim.to_string()));
      shape.push_back(*extent);
    }
    if (!source.values.empty()) {
      size_t left = source.values.size();
      for (const int64_t extent : shape) {
        const auto e = static_cast<size_t>(extent);
        if (e == 0 || left % e != 0) return wrong_count(value);
        left /= e;
      }
      return left == 1 ? Result<>() : wrong_count(value);
    }
    std::vector<int64_t> stored = source.stored_shape;
    if ((source.slice_axis >= 0) + (source.series != 0) + (source.groups != 0) > 1)
      return fault("take rows, a series or groups", "is taken in two ways at once");
    if (std::ranges::count(source.tensor, '*') != (source.series != 0) || source.series < 0)
      return fault("write one '*' for the number of each tensor of a series",
                   fmt::format("is a series of {} tensors named {}", source.series, source.tensor));
    if (source.series != 0) stored.insert(stored.begin(), source.series);
    if (source.groups != 0 || !source.ranges.empty()) {
      const int64_t rows = stored.empty() ? 0 : stored[0];
      if (source.groups < 1 || source.ranges.empty() || rows % source.groups != 0)
        return fault("give ranges of groups that divide the rows",
                     fmt::format("takes {} ranges of {} groups of the {} rows of {}",
                                 source.ranges.size(), source.groups, rows, source.tensor));
      int64_t taken = 0;
      for (const auto& [begin, end] : source.ranges) {
        if (begin < 0 || end <= begin || end > rows / source.groups)
          return fault("write ranges within a group",
                       fmt::format("takes rows [{}, {}) of groups of {} of {}", begin, end,
                                   rows / source.groups, source.tensor));
        // Each range takes at most all rows, so that many ranges only can leave 64 bits.
        if (__builtin_add_overflow(taken, (end - begin) * source.groups, &taken))
          return fault("take each row once",
                       fmt::format("takes too many rows of {}", source.tensor));
      }
      stored[0] = taken;
    }
    if (source.slice_axis >= 0) {
      const auto axis = static_cast<size_t>(source.slice_axis);
      if (axis >= stored.size() || source.slice_begin < 0 ||
          source.slice_end <= source.slice_begin || source.slice_end > stored[axis])
        return fault({}, fmt::format("takes rows [{}, {}) of axis {}, which {} does not have",
                                     source.slice_begin, source.slice_end, source.slice_axis,
                                     source.tensor));
      stored[axis] = source.slice_end - source.slice_begin;
    }
    const auto unit = [](int64_t extent) { return extent == 1; };
    std::erase_if(shape, unit);
    std::erase_if(stored, unit);
    if (shape == stored) return {};
    return fault({}, fmt::format("is {}, but what is taken of {} has the extents [{}]",
                                 value.type.to_string(), source.tensor, fmt::join(stored, ", ")));
  }

  Result<> wrong_count(const Value& value) const {
    return err(Code::graph_weight, at(value), "give one number for each element",
               "weight %{} is {}, but has {} numbers", value.name, value.type.to_string(),
               value.source->values.size());
  }

  Result<> contract(const Value& value, const Contract& c) const {
    GM_TRY(declared(c.lo, value));
    if (c.hi) GM_TRY(declared(*c.hi, value));
    if (c.total) GM_TRY(declared(*c.total, value));
    const auto fault = [&](std::string_view text) -> Result<> {
      return err(Code::graph_contract, at(value),
                 "write it as docs/ir.md describes contracts, or leave it away",
                 "the contract of %{} {}", value.name, text);
    };
    if (value.type.dtype != DType::i32) return fault("is for i32, which the input is not");
    if (c.monotone != c.total.has_value())
      return fault(c.monotone ? "says monotone, but gives no total"
                              : "gives a total, but does not say monotone");
    if (c.hi && graph_.symbols.provably_le(*c.hi, c.lo) == Truth::yes)
      return fault(fmt::format("leaves no number: [{}, {})", c.lo.to_string(), c.hi->to_string()));
    if (c.masked && graph_.symbols.provably_le(SymExpr(0), c.lo) == Truth::yes)
      return fault("says masked, but allows no negative number");
    return {};
  }

  Result<> op_itself(const Op& op) const {
    if (op.where.empty() && op.location.empty())
      return Error(
          about(err(Code::graph_location, Location::of_path({}, first_result(op)),
                    "give the place in the model", "{} does not say where it comes from", op.kind),
                op));
    const OpDef* def = graph_.table().find(op.kind);
    if (def == nullptr) {
      const std::string nearest = nearest_name(op.kind, graph_.table().names());
      return Error(about(err(Code::graph_op_unknown, at(op),
                             nearest.empty() ? "" : fmt::format("the nearest op is {}", nearest),
                             "there is no op {}", op.kind),
                         op));
    }
    std::vector<TensorType> types;
    for (const ValueId input : op.inputs) types.push_back(graph_.value(input).type);
    Result<std::vector<TensorType>> inferred = infer_types(*def, types, op.attrs, at(op));
    if (!inferred) return Error(about(Error(std::move(inferred).error()), op));
    if (op.outputs.size() != def->results.size())
      return Error(about(
          err(Code::graph_result_count, at(op), fmt::format("name {} results", def->results.size()),
              "{} has {} results, but this one {}", op.kind, def->results.size(),
              op.outputs.size()),
          op));
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const Value& result = graph_.value(op.outputs[i]);
      if (!same_type(result.type, (*inferred)[i]))
        return Error(
            about(err(Code::graph_type, at(op), fmt::format("write {}", (*inferred)[i].to_string()),
                      "%{} is {}, but {} gives {}", result.name, result.type.to_string(), op.kind,
                      (*inferred)[i].to_string()),
                  op));
      if (result.is_state != def->results[i].state)
        return Error(
            about(err(Code::graph_state_operand, at(op),
                      fmt::format("{} the word state", result.is_state ? "take away" : "add"),
                      "%{} is {}the version of a state, but result {} of {} is {}one", result.name,
                      result.is_state ? "" : "not ", def->results[i].name, op.kind,
                      def->results[i].state ? "" : "not "),
                  op));
    }
    return state_operands(op, *def);
  }

  Result<> state_operands(const Op& op, const OpDef& def) const {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Value& operand = graph_.value(op.inputs[i]);
      const bool wanted = def.operands[i].kind == OperandDef::Kind::state;
      if (operand.is_state == wanted) continue;
      return Error(about(err(Code::graph_state_operand, at(op),
                             wanted ? "hand over a state input or its latest version"
                                    : "hand over a value that is no state",
                             "operand {} of {} must be a {}, but %{} is {}", def.operands[i].name,
                             op.kind, wanted ? "state" : "plain value", operand.name,
                             operand.is_state ? "a state" : "none"),
                         op));
    }
    for (size_t r = 0; r < def.results.size(); ++r) {
      if (!def.results[r].state) continue;
      const Value& result = graph_.value(op.outputs[r]);
      const Value& before =
          graph_.value(op.inputs[static_cast<size_t>(def.results[r].state_operand)]);
      if (same_type(result.type, before.type)) continue;
      return Error(about(
          err(Code::graph_state_operand, at(op), fmt::format("write {}", before.type.to_string()),
              "%{} is {}, but it is the next version of %{}, which is {}", result.name,
              result.type.to_string(), before.name, before.type.to_string()),
          op));
    }
    return {};
  }

  std::string first_result(const Op& op) const {
    return op.outputs.empty() ? op.kind : "%" + graph_.value(op.outputs.front()).name;
  }

  bool same_type(const TensorType& a, const TensorType& b) const {
    if (a == b) return true;
    if (a.dtype != b.dtype || a.shape.size() != b.shape.size()) return false;
    for (size_t i = 0; i < a.shape.size(); ++i) {
      if (graph_.symbols.provably_equal(a.shape[i], b.shape[i]) != Truth::yes) return false;
    }
    return true;
  }

  Result<> outputs() const {
    std::set<std::pair<bool, std::string_view>> seen;
    for (const GraphOutput& output : graph_.outputs()) {
      const Location where = Location::of_path({}, fmt::format("output {}", output.name));
      if (index_of(output.value) >= graph_.values().size())
        return err(Code::graph_undefined, where, "name a value that is defined",
                   "output {} is value {}, but there are only {}", output.name,
                   index_of(output.value), graph_.values().size());
      if (output.name.empty())
        return err(Code::graph_output, where, "write output NAME = %value",
                   "output %{} has no name", graph_.value(output.value).name);
      const Value& value = graph_.value(output.value);
      if (output.is_state != value.is_state)
        return err(Code::graph_state_output, where,
                   output.is_state ? "take the word state away" : "write it as output state",
                   "output {} is {}a state, but %{} is {}one", output.name,
                   output.is_state ? "" : "not ", value.name, value.is_state ? "" : "not ");
      // States are counted by states(), which can say more.
      if (!output.is_state && !seen.emplace(output.is_state, output.name).second)
        return err(Code::graph_output, where, "give it another name",
                   "two outputs have the name {}", output.name);
    }
    return {};
  }

  Result<> states() const {
    const size_t count = graph_.values().size();
    std::vector<uint32_t> consumer(count, kNone);  // the op that makes the next version
    std::vector<uint32_t> origin(count, kNone);    // the state input that a version comes from
    for (const Value& value : graph_.values()) {
      if (value.kind == ValueKind::state) origin[index_of(value.id)] = index_of(value.id);
    }
    for (const Op& op : graph_.ops()) GM_TRY(consume(op, consumer, origin));
    for (const Op& op : graph_.ops()) GM_TRY(read(op, consumer));
    return state_outputs(consumer, origin);
  }

  Result<> consume(const Op& op, std::vector<uint32_t>& consumer,
                   std::vector<uint32_t>& origin) const {
    const OpDef& def = *graph_.table().find(op.kind);
    for (size_t r = 0; r < def.results.size(); ++r) {
      if (!def.results[r].state) continue;
      const auto operand = static_cast<size_t>(def.results[r].state_operand);
      const uint32_t version = index_of(op.inputs[operand]);
      if (consumer[version] != kNone) {
        const Op& other = graph_.ops()[consumer[version]];
        return Error(about(err(Code::graph_state_consumed, at(op),
                               "let it take the version that the other op gives",
                               "{} writes %{}, which {} has written before", op.kind,
                               graph_.values()[version].name, other.kind),
                           op)
                         .note(print_op(graph_, other.id), at(other)));
      }
      consumer[version] = index_of(op.id);
      origin[index_of(op.outputs[r])] = origin[version];
    }
    return {};
  }

  Result<> read(const Op& op, const std::vector<uint32_t>& consumer) const {
    const OpDef& def = *graph_.table().find(op.kind);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const uint32_t version = index_of(op.inputs[i]);
      const bool writes =
          std::any_of(def.results.begin(), def.results.end(), [i](const ResultDef& result) {
            return result.state && static_cast<size_t>(result.state_operand) == i;
          });
      if (writes || consumer[version] == kNone || index_of(op.id) < consumer[version]) continue;
      const Op& writer = graph_.ops()[consumer[version]];
      const bool itself = writer.id == op.id;
      if (itself)
        return Error(about(err(Code::graph_state_order, at(op), "hand the state over once",
                               "{} reads %{} by another operand while it writes it", op.kind,
                               graph_.values()[version].name),
                           op));
      return Error(about(err(Code::graph_state_order, at(op),
                             "read the later version, or move the op before the write",
                             "{} reads %{} after {} has written it", op.kind,
                             graph_.values()[version].name, writer.kind),
                         op)
                       .note(print_op(graph_, writer.id), at(writer)));
    }
    return {};
  }

  Result<> state_outputs(const std::vector<uint32_t>& consumer,
                         const std::vector<uint32_t>& origin) const {
    std::vector<bool> leaves(graph_.values().size());
    for (const GraphOutput& output : graph_.outputs()) {
      if (!output.is_state) continue;
      const Location where = Location::of_path({}, fmt::format("output {}", output.name));
      const uint32_t version = index_of(output.value);
      const Value& state = graph_.values()[origin[version]];
      if (state.name != output.name)
        return err(Code::graph_state_output, where, fmt::format("name it {}", state.name),
                   "output state {} is %{}, which is a version of %{}", output.name,
                   graph_.values()[version].name, state.name);
      if (consumer[version] != kNone)
        return err(Code::graph_state_output, where, "let the last version leave the graph",
                   "output state {} is %{}, but {} makes a later version of it", output.name,
                   graph_.values()[version].name, graph_.ops()[consumer[version]].kind);
      if (leaves[origin[version]])
        return err(Code::graph_state_output, where, "keep one of the two lines",
                   "state {} leaves the graph twice", output.name);
      leaves[origin[version]] = true;
    }
    for (const Value& value : graph_.values()) {
      if (value.kind != ValueKind::state || leaves[index_of(value.id)]) continue;
      return err(Code::graph_state_output, at(value), "write its last version as output state",
                 "state {} does not leave the graph", value.name);
    }
    return {};
  }

  const Graph& graph_;
};

}  // namespace

Result<> verify_graph(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace gm
