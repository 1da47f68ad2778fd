#include "ops/support.h"

namespace gm {

OpDef make_rms_norm() {
  OpDef def;
  def.name = "rms_norm";
  def.doc =
      "y = x / sqrt(mean(x^2) + eps), times w (or 1 + w if zero_centred) over the last axis, in "
      "f32 with one rounding at the end (Zhang and Sennrich, 2019). 1 + w is formed in f32.";
  def.op_class = OpClass::row_reduction;
  def.operands = {floating("x", "[..., D]"), optional(floating("w", "[D]; absent: no weight"))};
  def.results = {result("y", "the shape of x")};
  def.attrs = {{"eps", "added to the mean", 1e-6, true},
               {"zero_centred", "the weight is stored less 1", false, false},
               dtype_attr()};
  def.infer = [](const OpInstance& op) -> Inferred {
    Shapes shapes(op);
    shapes.rank_at_least(0, 1);
    if (shapes.ok()) shapes.constant(0, op.input(0).shape.size() - 1, "columns");
    if (shapes.ok() && op.input_count() > 1) {
      shapes.rank(1, 1).same(1, 0, 0, op.input(0).shape.size() - 1, "columns");
    }
    if (!shapes.ok()) return shapes.error();
    if (op.flag("zero_centred") && op.input_count() == 1) {
      return refuse("zero_centred speaks of a weight, but there is none");
    }
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
    const OpInstance& op = ctx.op();
    const int64_t width = extent(op, 0, indices.size() - 1);
    const Expr mean = reduced[0] / Expr(static_cast<float>(width));
    const Expr scale = rsqrt(mean + Expr(op.number("eps")));
    const Expr y = ctx.read(0, {indices.begin(), indices.end()}) * scale;
    if (op.input_count() == 1) return y;
    const Expr w = ctx.read(1, {indices.back()});
    return op.flag("zero_centred") ? y * (Expr(1.0f) + w) : y * w;
  };
  const Attrs zero_centred = {{"eps", 1e-6}, {"zero_centred", true}};
  def.cases = {{{bf16_of({3, 96}), bf16_of({96})}, zero_centred, {}},
               {{f32_of({2, 3, 37}), f32_of({37})}, {{"eps", 1e-5}}, {}},
               {{bf16_of({5, 8})}, {{"eps", 1e-6}, {"dtype", std::string("f32")}}, {}}};
  return def;
}

}  // namespace gm
