#include "ops/support.h"

namespace gm {

OpDef make_scale() {
  OpDef def = unary_op("scale", "y = x * value, with value in f32.", nullptr);
  def.attrs.push_back({"value", "the factor, rounded to f32", 1.0, true});
  def.element = [](ReadContext& ctx, std::span<const Expr> indices) {
    return ctx.read(0, {indices.begin(), indices.end()}) * Expr(ctx.op().number("value"));
  };
  def.cases = {{{f32_of({3, 5})}, {{"value", 0.125}}, {}},
               {{bf16_of({2, 7, 3})}, {{"value", -1.7}, {"dtype", std::string("f32")}}, {}}};
  return def;
}

}  // namespace gm
