#include "ops/support.h"

namespace gm {
namespace {

void lower(LoweringContext& ctx) {
  const OpInstance& op = ctx.op();
  const DType dtype = op.input(0).dtype;
  ctx.part("sum", {{"t", op.input(0).shape[0]}}, [&](BlockBuilder& b, std::span<const Expr> grid) {
    const Expr& t = grid[0];
    const Axis h = b.axis("h", op.input(0).shape[2]);
    const std::string sum = b.tile("sum", {h}, ctx.read(0, {t, number(0), at(h)}));
    b.loop("j", number(1), number(extent(op, 0, 1)), [&](const SymExpr& j) {
      const Expr y = ctx.read(0, {t, Expr::index(j), at(h)});
      b.update(sum, {h}, {at(h)}, Expr::round(dtype, at(sum, {at(h)}) + y));
    });
    ctx.write(b, 0, {h}, {t, at(h)}, at(sum, {at(h)}));
  });
}

template <class T>
void reference(RefCall<T>& call) {
  const auto& shape = call.inputs[0]->shape;
  const auto experts = static_cast<size_t>(shape[1]);
  const auto width = static_cast<size_t>(shape[2]);
  for (size_t t = 0; t < static_cast<size_t>(shape[0]); ++t) {
    for (size_t h = 0; h < width; ++h) {
      const T* y = call.inputs[0]->data.data() + t * experts * width + h;
      T sum = y[0];
      for (size_t j = 1; j < experts; ++j) sum = call.round(0, sum + y[j * width]);
      call.outputs[0].data[t * width + h] = sum;
    }
  }
}

}  // namespace

OpDef make_expert_sum() {
  OpDef def;
  def.name = "expert_sum";
  def.doc =
      "out[t] = y[t, 0] + y[t, 1] + ..., in ascending j with a rounding to the dtype after every "
      "addition, as a model that adds its experts one by one into a buffer.";
  def.op_class = OpClass::kernel_like;
  def.operands = {with_prologue(floating("y", "[T, k, H], weighted results of the experts"))};
  def.results = {with_epilogue(result("out", "[T, H], the dtype of y"))};
  def.infer = [](const OpInstance& op) -> Inferred {
    Shapes shapes(op);
    shapes.rank(0, 3);
    if (shapes.ok()) shapes.constant(0, 1, "experts a token");
    if (!shapes.ok()) return shapes.error();
    const TensorType& y = op.input(0);
    return std::vector{TensorType{y.dtype, {y.shape[0], y.shape[2]}}};
  };
  def.lower = lower;
  def.reference_f32 = reference<float>;
  def.reference_f64 = reference<double>;
  def.flops = [](const OpInstance& op) {
    const auto& y = op.input(0).shape;
    return y[0] * y[2] * (extent(op, 0, 1) - 1);
  };
  def.cases = {{{bf16_of({3, 4, 37})}, {}, {}}, {{f32_of({2, 1, 5})}, {}, {}}};
  return def;
}

}  // namespace gm
