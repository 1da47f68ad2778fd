#include "ops/support.h"

namespace gm {

OpDef make_l2_norm() {
  OpDef def;
  def.name = "l2_norm";
  def.doc =
      "y = x / sqrt(sum(x^2) + eps) over the last axis, in f32: the norm of q and k in the gated "
      "delta rule (a sum and not a mean; eps stands under the root).";
  def.op_class = OpClass::row_reduction;
  def.operands = {floating("x", "[..., D]")};
  def.results = {result("y", "the shape of x")};
  def.attrs = {{"eps", "added to the sum", 1e-6, true}, dtype_attr()};
  def.infer = [](const OpInstance& op) -> Inferred {
    Shapes shapes(op);
    shapes.rank_at_least(0, 1);
    if (!shapes.ok()) return shapes.error();
    const auto dtype = result_dtype(op);
    if (!dtype) return std::unexpected(dtype.error());
    return std::vector{TensorType{*dtype, op.input(0).shape}};
  };
  def.reductions = {{ReduceOp::sum, [](ReadContext& ctx, std::span<const Expr> row, Expr k,
                                       std::span<const Expr>) {
                       std::vector<Expr> indices(row.begin(), row.end());
                       indices.push_back(std::move(k));
                       const Expr x = ctx.read(0, std::move(indices));
                       return x * x;
                     }}};
  def.row_element = [](ReadContext& ctx, std::span<const Expr> indices,
                       std::span<const Expr> reduced) {
    return ctx.read(0, {indices.begin(), indices.end()}) *
           rsqrt(reduced[0] + Expr(ctx.op().number("eps")));
  };
  def.cases = {{{bf16_of({3, 2, 24})}, {{"eps", 1e-6}, {"dtype", std::string("f32")}}, {}},
               {{f32_of({4, 17})}, {{"eps", 1e-6}}, {}}};
  return def;
}

}  // namespace gm
