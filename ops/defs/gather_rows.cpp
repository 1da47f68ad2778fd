#include "ops/support.h"

namespace gm {

OpDef make_gather_rows() {
  OpDef def;
  def.name = "gather_rows";
  def.doc = "y[r, ...] = x[rows[r], ...]: the rows of which logits are wanted.";
  def.op_class = OpClass::pointwise;
  def.operands = {floating("x", "[N, ...]"), integers("rows", "i32[R], each in [0, N)")};
  def.results = {result("y", "[R, ...], the dtype of x")};
  def.infer = [](const OpInstance& op) -> Inferred {
    Shapes shapes(op);
    shapes.rank_at_least(0, 1).rank(1, 1).dtype(1, DType::i32);
    if (!shapes.ok()) return shapes.error();
    TensorType type = op.input(0);
    type.shape[0] = op.input(1).shape[0];
    return std::vector{std::move(type)};
  };
  def.element = [](ReadContext& ctx, std::span<const Expr> i) {
    std::vector<Expr> source(i.begin(), i.end());
    source[0] = ctx.read(1, {i[0]});
    return ctx.read(0, std::move(source));
  };
  def.cases = {{{bf16_of({9, 5}), i32_of({3})}, {}, {{}, {8, 0, 8}}},
               {{f32_of({4, 3, 2}), i32_of({1})}, {}, {{}, {2}}}};
  return def;
}

}  // namespace gm
