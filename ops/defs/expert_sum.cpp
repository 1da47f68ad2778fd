#include "ops/support.h"

namespace gm {
namespace {

constexpr int64_t kMostExperts = 64;  // the sum is unrolled

}  // namespace

OpDef make_expert_sum() {
  OpDef def;
  def.name = "expert_sum";
  def.doc =
      "out[t] = y[t, 0] + y[t, 1] + ..., in ascending j with a rounding to the dtype after every "
      "addition, as a model that adds its experts one by one into a buffer.";
  def.op_class = OpClass::pointwise;
  def.operands = {floating("y", "[T, k, H], weighted results of the experts")};
  def.results = {result("out", "[T, H], the dtype of y")};
  def.infer = [](const OpInstance& op) -> Inferred {
    Shapes shapes(op);
    shapes.rank(0, 3);
    if (shapes.ok()) shapes.constant(0, 1, "experts a token");
    if (!shapes.ok()) return shapes.error();
    if (const int64_t experts = extent(op, 0, 1); experts > kMostExperts) {
      return refuse("operand y has {} experts a token, 1 to {} are possible", experts,
                    kMostExperts);
    }
    const TensorType& y = op.input(0);
    return std::vector{TensorType{y.dtype, {y.shape[0], y.shape[2]}}};
  };
  def.element = [](ReadContext& ctx, std::span<const Expr> i) {
    const DType dtype = ctx.op().input(0).dtype;
    Expr sum = ctx.read(0, {i[0], number(0), i[1]});
    for (int64_t j = 1; j < extent(ctx.op(), 0, 1); ++j) {
      sum = Expr::round(dtype, std::move(sum) + ctx.read(0, {i[0], number(j), i[1]}));
    }
    return sum;
  };
  def.cases = {{{bf16_of({3, 4, 37})}, {}, {}},
               {{f32_of({2, 1, 5})}, {}, {}},
               {{bf16_of({1, 64, 3})}, {}, {}}};
  return def;
}

}  // namespace gm
