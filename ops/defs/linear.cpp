#include "ops/support.h"

namespace gm {

OpDef make_linear() {
  OpDef def;
  def.name = "linear";
  def.doc =
      "y[..., n] = sum over k of x[..., k] * w[n, k], accumulated in f32, one rounding. The order "
      "of the sum depends on K alone, so that a row gives the same bits in any batch.";
  def.op_class = OpClass::contraction;
  def.operands = {floating("x", "[..., K]"),
                  floating("w", "[N, K], as checkpoints store it", WeightLayout::panels)};
  def.results = {result("y", "[..., N]")};
  def.attrs = {dtype_attr()};
  def.infer = [](const OpInstance& op) -> Inferred {
    Shapes shapes(op);
    shapes.rank_at_least(0, 1).rank(1, 2);
    if (shapes.ok()) shapes.same(1, 1, 0, op.input(0).shape.size() - 1, "columns");
    if (!shapes.ok()) return shapes.error();
    const auto dtype = result_dtype(op);
    if (!dtype) return std::unexpected(dtype.error());
    TensorType type{*dtype, op.input(0).shape};
    type.shape.back() = op.input(1).shape[0];
    return std::vector{std::move(type)};
  };
  def.a_index = [](ReadContext&, std::span<const Expr> row, Expr k) {
    std::vector<Expr> indices(row.begin(), row.end());
    indices.push_back(std::move(k));
    return indices;
  };
  def.w_index = [](ReadContext&, std::span<const Expr>, Expr n, Expr k) {
    return std::vector<Expr>{std::move(n), std::move(k)};
  };
  def.extent_k = [](const OpInstance& op) { return op.input(0).shape.back(); };
  def.cases = {{{bf16_of({3, 40}), bf16_of({33, 40})}, {}, {}},
               {{f32_of({5, 17}), f32_of({2, 17})}, {}, {}},
               {{bf16_of({2, 2, 300}), bf16_of({7, 300})}, {{"dtype", std::string("f32")}}, {}},
               {{f32_of({1, 8}), f32_of({1, 8})}, {}, {}}};
  return def;
}

}  // namespace gm
