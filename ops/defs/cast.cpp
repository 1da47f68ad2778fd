#include "ops/support.h"

namespace gm {

OpDef make_cast() {
  OpDef def = unary_op("cast", "y = x in another dtype, rounded to nearest even.", nullptr);
  def.operands[0].kind = OperandDef::Kind::any;
  def.attrs = {dtype_attr()};
  def.attrs[0].doc = "dtype of the result (f32, bf16 or f16)";
  def.attrs[0].required = true;
  def.element = [](ReadContext& ctx, std::span<const Expr> indices) {
    Expr x = ctx.read(0, {indices.begin(), indices.end()});
    return x.type() == ScalarType::index ? Expr::unary(UnaryOp::to_f32, std::move(x)) : x;
  };
  def.cases = {{{f32_of({3, 5})}, {{"dtype", std::string("bf16")}}, {}},
               {{bf16_of({7})}, {{"dtype", std::string("f32")}}, {}},
               {{i32_of({4})}, {{"dtype", std::string("bf16")}}, {{0, 257, 16777217, -3}}}};
  return def;
}

}  // namespace gm
