// What the declarations in ops/defs share: checks with messages for inference, broadcasting, and
// short forms for operands, attributes and test cases. Nothing here knows a particular op.
#pragma once

#include <algorithm>
#include <limits>

#include "ir/opdef.h"

namespace gm {

using Inferred = std::expected<std::vector<TensorType>, std::string>;

template <class... A>
std::unexpected<std::string> refuse(fmt::format_string<A...> text, A&&... args) {
  return std::unexpected<std::string>(fmt::format(text, std::forward<A>(args)...));
}

// Checks of operand types in order; the first one that fails leaves its message.
class Shapes {
 public:
  explicit Shapes(const OpInstance& op) : op_(&op) {}
  Shapes& rank(size_t operand, size_t rank);
  Shapes& rank_at_least(size_t operand, size_t rank);
  // Dimension `d` of the operand, called `what` in the message ("columns"), equals dimension `e` of
  // `other`.
  Shapes& same(size_t operand, size_t d, size_t other, size_t e, std::string_view what);
  Shapes& equals(size_t operand, size_t d, const SymExpr& extent, std::string_view what);
  Shapes& dtype(size_t operand, DType dtype);
  Shapes& same_dtype(size_t operand, size_t other);
  // Dimension `d` is a number of at least 1.
  Shapes& constant(size_t operand, size_t d, std::string_view what);
  bool ok() const { return message_.empty(); }
  std::unexpected<std::string> error() const { return std::unexpected<std::string>(message_); }

 private:
  const SymExpr& dim(size_t operand, size_t d) const { return op_->input(operand).shape[d]; }
  const std::string& name(size_t operand) const { return op_->def().operands[operand].name; }
  void fail(std::string message) { message_ = std::move(message); }
  const OpInstance* op_;
  std::string message_;
};

// The attribute `dtype` of ops whose result's dtype may differ from operand 0's.
AttrDef dtype_attr();
std::expected<DType, std::string> result_dtype(const OpInstance& op);
// A float dtype named by a text attribute.
std::expected<DType, std::string> dtype_named(const OpInstance& op, std::string_view attr);
// The attribute `axis`, within the rank of operand 0 (less `above`).
std::expected<size_t, std::string> axis_of(const OpInstance& op, size_t above = 0);

OperandDef floating(std::string name, std::string doc, WeightLayout layout = WeightLayout::dense);
OperandDef integers(std::string name, std::string doc);
OperandDef state(std::string name, std::string doc);
OperandDef with_prologue(OperandDef operand);
OperandDef optional(OperandDef operand);
// The optional last operand of ops over ragged sequences.
OperandDef seq_start_operand();
ResultDef result(std::string name, std::string doc);
ResultDef with_epilogue(ResultDef result);

std::expected<std::vector<SymExpr>, std::string> broadcast_shape(const OpInstance& op);
// The element of an operand that broadcasts to the result's element `indices`.
Expr read_broadcast(ReadContext& ctx, size_t operand, std::span<const Expr> indices);

// value(x) of one operand, attribute `dtype`; a pointwise op as a whole.
OpDef unary_op(std::string name, std::string doc, Expr (*value)(Expr));
OpDef binary_op(std::string name, std::string doc, Expr (*value)(Expr, Expr));

// Constant types for cases.
TensorType type_of(DType dtype, const std::vector<int64_t>& shape);
inline TensorType f32_of(const std::vector<int64_t>& shape) { return type_of(DType::f32, shape); }
inline TensorType bf16_of(const std::vector<int64_t>& shape) { return type_of(DType::bf16, shape); }
inline TensorType i32_of(const std::vector<int64_t>& shape) { return type_of(DType::i32, shape); }

// Pieces that several kernel-like ops share.

// The constant extent of an operand's dimension (inference has checked that it is one).
int64_t extent(const OpInstance& op, size_t operand, size_t d);
// Whether the op has the operand `seq_start` (its last one): a mixed step. Without it each sequence
// has one token.
bool is_mixed(const OpInstance& op);
// The shapes of a step: `tokens` rows in operand 0, `per_seq` an operand with one row a sequence,
// seq_start one more.
void check_sequences(Shapes& shapes, const OpInstance& op, size_t per_seq);
// Runs `body` for each token of sequence s, in order.
void for_tokens(LoweringContext& ctx, BlockBuilder& b, const Expr& s,
                const std::function<void(const Expr& t)>& body);
// {first token, one past the last} of a sequence in a reference.
template <class T>
std::pair<int64_t, int64_t> token_range(const RefCall<T>& call, int64_t s) {
  if (!is_mixed(call.op)) return {s, s + 1};
  const auto& start = call.inputs[call.op.input_count() - 1]->ints;
  return {start[static_cast<size_t>(s)], start[static_cast<size_t>(s) + 1]};
}
// The tokens that a page table of this operand can hold: `context` where the operand is [seqs,
// ceildiv(context, page)].
SymExpr context_extent(const OpInstance& op, size_t pages_operand, int64_t page);
// min(block, rest) of a dimension that is cut into blocks: the extent of block `index`.
SymExpr block_extent(int64_t whole, int64_t block, const Expr& index);
inline Expr number(int64_t value) { return Expr::index(value); }
inline constexpr ReduceOrder kLanes{ReduceOrder::Kind::lanes, kReduceLanes};
inline constexpr ReduceOrder kChain{ReduceOrder::Kind::chain, kChainBlock};

}  // namespace gm
