#include "ops/support.h"

namespace gm {

OpDef make_softmax() {
  OpDef def;
  def.name = "softmax";
  def.doc = "y = e^(x - m) / sum(e^(x - m)) over the last axis, with m its greatest element.";
  def.op_class = OpClass::row_reduction;
  def.operands = {floating("x", "[..., D]")};
  def.results = {result("y", "the shape of x")};
  def.attrs = {dtype_attr()};
  def.infer = [](const OpInstance& op) -> Inferred {
    Shapes shapes(op);
    shapes.rank_at_least(0, 1);
    if (!shapes.ok()) return shapes.error();
    const auto dtype = result_dtype(op);
    if (!dtype) return std::unexpected(dtype.error());
    return std::vector{TensorType{*dtype, op.input(0).shape}};
  };
  const auto element = [](ReadContext& ctx, std::span<const Expr> row, Expr k) {
    std::vector<Expr> indices(row.begin(), row.end());
    indices.push_back(std::move(k));
    return ctx.read(0, std::move(indices));
  };
  def.reductions = {
      {ReduceOp::max, [element](ReadContext& ctx, std::span<const Expr> row, Expr k,
                                std::span<const Expr>) { return element(ctx, row, std::move(k)); }},
      {ReduceOp::sum, [element](ReadContext& ctx, std::span<const Expr> row, Expr k,
                                std::span<const Expr> earlier) {
         return exp(element(ctx, row, std::move(k)) - earlier[0]);
       }}};
  def.row_element = [](ReadContext& ctx, std::span<const Expr> indices,
                       std::span<const Expr> reduced) {
    return exp(ctx.read(0, {indices.begin(), indices.end()}) - reduced[0]) / reduced[1];
  };
  def.cases = {{{bf16_of({3, 19})}, {{"dtype", std::string("f32")}}, {}},
               {{f32_of({2, 2, 64})}, {}, {}},
               {{f32_of({5, 1})}, {}, {}}};
  return def;
}

}  // namespace gm
