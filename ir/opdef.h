// The interface by which an op is declared, once, in one file of ops/defs/. From a declaration
// follow shape inference, the verifier's checks, the reference in f32 and f64, FLOPs and bytes,
// what fusion may do with the op, its L2 lowering and its page in the IR reference. Structured ops
// (pointwise, view, row reduction, contraction) give index maps and scalar bodies and nothing else;
// kernel-like ops give a reference and an L2 lowering of their own.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/expr.h"
#include "ir/graph.h"
#include "ir/tile.h"

namespace gm {

// Attributes and types of one op instance, for inference, costs and bodies. Missing attributes read
// as their default.
class OpInstance {
 public:
  OpInstance(const struct OpDef& def, std::span<const TensorType> inputs, const Attrs& attrs)
      : def_(&def), inputs_(inputs), attrs_(&attrs) {}
  const OpDef& def() const { return *def_; }
  size_t input_count() const { return inputs_.size(); }
  const TensorType& input(size_t i) const { return inputs_[i]; }
  // The attribute or its default; GM_CHECK if it is not declared or of another type (the verifier
  // has looked before).
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<int64_t>& integers(std::string_view name) const;
  const std::vector<double>& numbers(std::string_view name) const;

 private:
  const OpDef* def_;
  std::span<const TensorType> inputs_;
  const Attrs* attrs_;
};

enum class OpClass : uint8_t { pointwise, view, row_reduction, contraction, kernel_like };

// How a contraction's weight is best stored, chosen once for all uses of the weight
// (compiler/passes/pack_weights).
//   dense: as it is · panels [..., N, K] -> [..., ceildiv(N, 32), K, 32], zero-filled · transposed
//   [A, B] -> [B, A]
enum class WeightLayout : uint8_t { dense, panels, transposed };
inline constexpr int64_t kPanelWidth = 32;

struct OperandDef {
  std::string name;
  std::string doc;
  enum class Kind : uint8_t { floating, integer, state, any } kind = Kind::floating;
  bool optional = false;  // trailing operands only
  WeightLayout layout = WeightLayout::dense;
  // Kernel-like ops: the lowering reads this operand only through LoweringContext::read, whole rows
  // at a time, so that pointwise and row-reduction producers may be computed in place of the load.
  bool takes_prologue = false;
};

struct ResultDef {
  std::string name;
  std::string doc;
  bool state = false;  // the next version of the state operand `state_operand`
  int state_operand = -1;
  bool takes_epilogue =
      false;  // kernel-like: written only through LoweringContext::write, each element once
};

struct AttrDef {
  std::string name;
  std::string doc;
  Attr default_value;  // also fixes the type
  bool required = false;
};

// Reads operands for a structured body. Index expressions have one entry a dimension.
class ReadContext {
 public:
  virtual ~ReadContext() = default;
  virtual const OpInstance& op() const = 0;
  virtual const TensorType& result(size_t i = 0) const = 0;
  // The element as f32 (floats, exactly promoted) or index (integers).
  virtual Expr read(size_t operand, std::vector<Expr> indices) = 0;
};

// Statements of a part under construction. Names made by fresh() are unique in the kernel.
class BlockBuilder {
 public:
  std::string fresh(std::string_view base);
  Axis axis(std::string_view base, SymExpr extent);

  // Each returns a handle to read the tile by: tile_at(name, {indices}).
  std::string tile(std::string_view base, std::vector<Axis> axes, Expr value);
  std::string reduce(std::string_view base, std::vector<Axis> axes, Axis over, ReduceOp op,
                     ReduceOrder order, Expr a, Expr b = {});
  void update(const std::string& tile, std::vector<Axis> axes, std::vector<Expr> indices,
              Expr value);
  void store(std::string buffer, std::vector<Axis> axes, std::vector<Expr> indices, Expr value);
  // Binds a loaded index to a symbol: its value is within [lo, hi] (inclusive), which the verifier
  // proves.
  SymExpr let(std::string_view base, SymExpr lo, SymExpr hi, Expr value);
  void loop(std::string_view base, Expr lo, Expr hi, const std::function<void(SymExpr)>& body);
  void when(Expr condition, const std::function<void()>& body);

  Block take();

  // The extent of an axis made by axis(): such a name varies within one statement, all other
  // symbols do not.
  const SymExpr* axis_extent(std::string_view name) const;
  // The block that is open now; is_open() tells whether what was defined there can still be read.
  uint32_t scope() const { return open_.back(); }
  bool is_open(uint32_t scope) const;

 private:
  std::vector<Block> stack_ = std::vector<Block>(1);
  std::vector<uint32_t> open_ = std::vector<uint32_t>(1);
  uint32_t scopes_ = 0;
  std::map<std::string, SymExpr, std::less<>> axes_;
  std::map<std::string, int, std::less<>> used_;
};
inline Expr at(const Axis& axis) { return Expr::index(SymExpr::symbol(axis.name)); }
Expr at(const std::string& tile, std::vector<Expr> indices, ScalarType type = ScalarType::f32);

// What a kernel-like lowering writes its part(s) with.
class LoweringContext : public ReadContext {
 public:
  // One part of the kernel: `body` gets one index expression a grid axis. Called once or several
  // times.
  virtual void part(std::string_view name, std::vector<std::pair<std::string, SymExpr>> grid,
                    const std::function<void(BlockBuilder&, std::span<const Expr>)>& body) = 0;
  // Stores result[indices] = value for all axes (and whatever pointwise epilogue was fused behind
  // it).
  virtual void write(BlockBuilder& b, size_t result, std::vector<Axis> axes,
                     std::vector<Expr> indices, Expr value) = 0;
  // State operands are read and written in place, by the result's own buffer.
  virtual Expr read_state(size_t operand, std::vector<Expr> indices) = 0;
  virtual void write_state(BlockBuilder& b, size_t result, std::vector<Axis> axes,
                           std::vector<Expr> indices, Expr value) = 0;
};

// A tensor of the reference evaluator. T is float (every value rounded to its dtype) or double (no
// rounding at all).
template <class T>
struct RefTensor {
  std::vector<int64_t> shape;
  std::vector<T> data;        // floats
  std::vector<int64_t> ints;  // integers, then data is empty
};
template <class T>
struct RefCall {
  const OpInstance& op;
  std::span<const RefTensor<T>* const> inputs;
  std::span<RefTensor<T>>
      outputs;  // shapes set, zero-filled; state outputs hold a copy of their state operand
  std::function<T(size_t result, T)>
      round;                            // to the dtype of that result (the identity for double)
  std::function<T(DType, T)> round_to;  // interior roundings (the identity for double)
};

struct OpDef {
  std::string name;
  std::string doc;  // what it computes, with the source of the formula
  OpClass op_class{};
  std::vector<OperandDef> operands;
  std::vector<ResultDef> results;
  std::vector<AttrDef> attrs;

  // Result types. Operand kinds, count and attribute names/types were checked. The error's message
  // only; the caller adds op, place and code.
  std::function<std::expected<std::vector<TensorType>, std::string>(const OpInstance&)> infer;

  // pointwise, view: element `indices` of the result, before the rounding to its dtype.
  std::function<Expr(ReadContext&, std::span<const Expr> indices)> element;

  // row_reduction: reductions over the last axis of operand 0, in order (a later one may use the
  // earlier ones' values), then element() through row_element(). `row` is the result index without
  // the last axis.
  struct RowReduce {
    ReduceOp op;
    std::function<Expr(ReadContext&, std::span<const Expr> row, Expr k,
                       std::span<const Expr> earlier)>
        value;
  };
  std::vector<RowReduce> reductions;
  std::function<Expr(ReadContext&, std::span<const Expr> indices, std::span<const Expr> reduced)>
      row_element;

  // contraction: result[row..., n] = sum over k of a(row, k) * w(row, n, k). Operand 0 is a,
  // operand 1 the weight. The maps give the operands' indices; `extent_k` the reduced extent.
  std::function<std::vector<Expr>(ReadContext&, std::span<const Expr> row, Expr k)> a_index;
  std::function<std::vector<Expr>(ReadContext&, std::span<const Expr> row, Expr n, Expr k)> w_index;
  std::function<SymExpr(const OpInstance&)> extent_k;

  // kernel_like.
  std::function<void(LoweringContext&)> lower;
  // No state, and lower() makes one part whose grid is the leading axes of every result and whose
  // work item writes only results of its own row: a consumer may then compute the rows that it
  // needs itself, as it does with a row reduction.
  bool row_wise = false;
  std::function<void(RefCall<float>&)> reference_f32;
  std::function<void(RefCall<double>&)> reference_f64;
  std::function<SymExpr(const OpInstance&)> flops;  // structured ops: derived

  // Inputs for the generic tests: constant shapes; integers drawn within [0, int_limit).
  struct Case {
    std::vector<TensorType> inputs;
    Attrs attrs;
    std::vector<std::vector<int64_t>> ints;  // per operand: fixed integer contents, empty = drawn
  };
  std::vector<Case> cases;
};

// A sorted table of ops. Graphs hold a reference to the one they were built with.
class OpTable {
 public:
  explicit OpTable(std::vector<OpDef> defs);  // sorts by name; names are unique (GM_CHECK)
  const OpDef* find(std::string_view name) const;
  std::span<const OpDef> defs() const { return defs_; }
  std::vector<std::string> names() const;  // sorted

 private:
  std::vector<OpDef> defs_;
};

// Ops whose loops become the loops of their kernel. All others are computed where they are used.
bool is_anchor(const OpDef& def);

// Checks operand count and kinds and attribute names and types, then infers. Errors: 20xx at
// `where`.
Result<std::vector<TensorType>> infer_types(const OpDef& def, std::span<const TensorType> inputs,
                                            const Attrs& attrs, const Location& where);

}  // namespace gm
