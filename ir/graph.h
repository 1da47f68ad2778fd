// L0: a graph of tensor operations in SSA form. Values have a dtype (which is their rounding) and a
// symbolic shape; state (KV pages, conv history, the recurrent S) is a value too: an op that writes
// state takes one version and yields the next. A Graph is built once and then only read; a pass
// that changes something builds a new Graph. Ids are dense, 32-bit, in definition order, never
// reused. Boost.Graph serves the algorithms of ir/algorithms.h and stays there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/diag.h"
#include "base/dtype.h"
#include "base/sym.h"

namespace gm {

enum class OpId : uint32_t {};
enum class ValueId : uint32_t {};
constexpr uint32_t index_of(OpId id) { return static_cast<uint32_t>(id); }
constexpr uint32_t index_of(ValueId id) { return static_cast<uint32_t>(id); }

struct TensorType {
  DType dtype = DType::f32;
  std::vector<SymExpr> shape;  // row-major, outermost first; empty: a scalar

  bool operator==(const TensorType&) const = default;
  std::string to_string() const;  // "bf16[tokens, 256]"
};

// Attribute values print and parse back exactly (floats in shortest round-trip form).
using Attr =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;
using Attrs = std::map<std::string, Attr, std::less<>>;

// What the runtime promises about an i32 step input, and checks on the host before each step. The
// L2 verifier builds on it.
struct Contract {
  SymExpr lo = 0;             // each element e: lo <= e
  std::optional<SymExpr> hi;  // e < hi
  bool monotone = false;      // ascending; first element 0, last element `total` (sequence starts)
  std::optional<SymExpr> total;  // only with monotone
  bool distinct = false;         // no two elements that are not negative are equal
  bool consecutive =
      false;  // within each sequence, each element is the one before it plus one (positions)
  bool masked = false;  // a negative element marks a padded row, which must not touch state
  bool operator==(const Contract&) const = default;
};

// Where a weight comes from: a checkpoint tensor by canonical name (prefixes stripped), optionally
// a range of rows of one axis of it. `stored_shape` is the whole tensor's; dropping the slice's
// other rows and unit axes gives the value's shape. At most one of slice, series and groups is
// there.
struct WeightSource {
  std::string tensor;
  std::vector<int64_t> stored_shape;
  int slice_axis = -1;  // -1: the whole tensor
  int64_t slice_begin = 0, slice_end = 0;
  std::vector<double> values;  // if not empty: no tensor at all but these numbers (rotary
                               // frequencies), exact in f32
  // Not 0: `tensor` has one '*', which stands for 0, 1, ... series - 1; these tensors, each of
  // stored_shape, are stacked along a new outermost axis.
  int64_t series = 0;
  // Not 0: axis 0 is so many equal groups of rows. For each range in turn, these rows of every
  // group in turn are taken, so that rows that are interleaved by group come out side by side.
  int64_t groups = 0;
  std::vector<std::pair<int64_t, int64_t>> ranges = {};
  bool operator==(const WeightSource&) const = default;
};

enum class ValueKind : uint8_t { result, input, weight, state };

struct Value {
  ValueId id{};
  std::string name;  // unique in the graph; printed as %name
  TensorType type;
  ValueKind kind = ValueKind::result;
  OpId producer{};                     // kind result
  int result_index = 0;                // kind result
  std::optional<Contract> contract;    // kind input
  std::optional<WeightSource> source;  // kind weight
  bool is_state = false;               // kind state, and results that are a later version of one
};

struct Op {
  OpId id{};
  std::string kind;  // a name in the op table
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attrs attrs;
  std::string where;  // place in the model: "layers.3.linear_attn.in_proj_qkv"
  Location location;  // of the text it was parsed from, or empty file with path = where
};

struct GraphOutput {
  std::string name;  // of a state: the state input's name
  ValueId value{};
  bool is_state = false;
};

class OpTable;

class Graph {
 public:
  // The table must outlive the graph.
  explicit Graph(const OpTable& table) : table_(&table) {}
  const OpTable& table() const { return *table_; }

  std::string name;
  SymTable symbols;

  // Building. Names must be new (a result's empty name gets "v<id>"); GM_CHECK otherwise. Operands
  // must exist.
  ValueId add_input(std::string name, TensorType type, std::optional<Contract> contract = {});
  ValueId add_weight(std::string name, TensorType type, WeightSource source);
  ValueId add_state(std::string name, TensorType type);
  // Result types come from the op's inference (ir/opdef.h); an error names `where`.
  Result<std::vector<ValueId>> add_op(std::string_view kind, std::vector<ValueId> inputs,
                                      Attrs attrs, std::string where,
                                      std::vector<std::string> result_names = {},
                                      Location location = {});
  void add_output(std::string name, ValueId value);
  void add_state_output(std::string state_name, ValueId value);

  // Reading.
  std::span<const Op> ops() const { return ops_; }
  std::span<const Value> values() const { return values_; }
  std::span<const GraphOutput> outputs() const { return outputs_; }
  const Op& op(OpId id) const;
  const Value& value(ValueId id) const;
  const Op* producer(ValueId id) const;           // nothing unless kind result
  std::span<const OpId> users(ValueId id) const;  // ascending, each op once
  std::optional<ValueId> find_value(std::string_view name) const;
  bool is_output(ValueId id) const;

  // For the parser and for tests of the verifier, which must be able to build wrong graphs: no
  // inference, no checks.
  OpId add_op_unchecked(Op op, std::vector<Value> results);

 private:
  ValueId add_value(Value value);
  const OpTable* table_;
  std::vector<Op> ops_;
  std::vector<Value> values_;
  std::vector<std::vector<OpId>> users_;
  std::vector<GraphOutput> outputs_;
  std::map<std::string, ValueId, std::less<>> by_name_;
};

}  // namespace gm
