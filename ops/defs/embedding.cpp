#include "ops/support.h"

namespace gm {

OpDef make_embedding() {
  OpDef def;
  def.name = "embedding";
  def.doc = "y[t, h] = w[ids[t], h]: rows of the embedding table, unscaled.";
  def.op_class = OpClass::pointwise;
  def.operands = {floating("w", "[V, H], the table. A tied output head reads it as panels too",
                           WeightLayout::panels),
                  integers("ids", "i32[T], each in [0, V)")};
  def.results = {result("y", "[T, H]")};
  def.attrs = {dtype_attr()};
  def.infer = [](const OpInstance& op) -> Inferred {
    Shapes shapes(op);
    shapes.rank(0, 2).rank(1, 1).dtype(1, DType::i32);
    if (!shapes.ok()) return shapes.error();
    const auto dtype = result_dtype(op);
    if (!dtype) return std::unexpected(dtype.error());
    return std::vector{TensorType{*dtype, {op.input(1).shape[0], op.input(0).shape[1]}}};
  };
  def.element = [](ReadContext& ctx, std::span<const Expr> i) {
    return ctx.read(0, {ctx.read(1, {i[0]}), i[1]});
  };
  def.cases = {{{bf16_of({37, 6}), i32_of({5})}, {}, {{}, {0, 36, 7, 7, 19}}},
               {{f32_of({8, 33}), i32_of({3})}, {}, {{}, {7, 0, 1}}}};
  return def;
}

}  // namespace gm
