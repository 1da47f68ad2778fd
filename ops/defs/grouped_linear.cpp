#include "ops/support.h"

namespace gm {

OpDef make_grouped_linear() {
  OpDef def;
  def.name = "grouped_linear";
  def.doc =
      "y[t, j, n] = sum over k of x[t, k] (or x[t, j, k]) * w[idx[t, j], n, k]: each token meets "
      "the weights of its own experts. Accumulated as in linear. An index outside of [0, E) meets "
      "the nearest expert, so that no content of idx can lead out of w.";
  def.op_class = OpClass::contraction;
  def.operands = {floating("x", "[T, K], or [T, J, K] with a row for each chosen expert"),
                  floating("w", "[E, N, K], one matrix an expert", WeightLayout::panels),
                  integers("idx", "i32[T, J], the chosen experts, each in [0, E)")};
  def.results = {result("y", "[T, J, N]")};
  def.attrs = {dtype_attr()};
  def.infer = [](const OpInstance& op) -> Inferred {
    Shapes shapes(op);
    shapes.rank_at_least(0, 2).rank(1, 3).rank(2, 2).dtype(2, DType::i32);
    if (shapes.ok()) shapes.constant(1, 0, "experts");
    if (!shapes.ok()) return shapes.error();
    const size_t rank = op.input(0).shape.size();
    if (rank > 3) return refuse("operand x has {} dimensions, not 2 or 3", rank);
    shapes.same(1, 2, 0, rank - 1, "columns").same(2, 0, 0, 0, "tokens");
    if (rank == 3) shapes.same(2, 1, 0, 1, "experts a token");
    if (!shapes.ok()) return shapes.error();
    const auto dtype = result_dtype(op);
    if (!dtype) return std::unexpected(dtype.error());
    const TensorType& idx = op.input(2);
    return std::vector{TensorType{*dtype, {idx.shape[0], idx.shape[1], op.input(1).shape[1]}}};
  };
  def.a_index = [](ReadContext& ctx, std::span<const Expr> row, Expr k) {
    std::vector<Expr> indices = {row[0]};
    if (ctx.op().input(0).shape.size() == 3) indices.push_back(row[1]);
    indices.push_back(std::move(k));
    return indices;
  };
  def.w_index = [](ReadContext& ctx, std::span<const Expr> row, Expr n, Expr k) {
    Expr expert = Expr::binary(BinaryOp::max, ctx.read(2, {row[0], row[1]}), number(0));
    expert = Expr::binary(BinaryOp::min, std::move(expert), number(extent(ctx.op(), 1, 0) - 1));
    return std::vector<Expr>{std::move(expert), std::move(n), std::move(k)};
  };
  def.extent_k = [](const OpInstance& op) { return op.input(0).shape.back(); };
  def.cases = {
      {{bf16_of({3, 40}), bf16_of({5, 33, 40}), i32_of({3, 2})}, {}, {{}, {}, {0, 4, 1, 2, 4, 4}}},
      {{f32_of({2, 3, 17}), f32_of({4, 6, 17}), i32_of({2, 3})}, {}, {{}, {}, {0, 1, 2, 1, 2, 3}}}};
  return def;
}

}  // namespace gm
