#include "ops/support.h"

namespace gm {

OpDef make_concat() {
  OpDef def;
  def.name = "concat";
  def.doc = "a, then b along one axis.";
  def.op_class = OpClass::pointwise;
  def.operands = {floating("a", "any shape of rank 1 or more"),
                  floating("b", "the dtype of a, and its shape but for the axis")};
  def.results = {result("y", "the shape of a, with both extents added along the axis")};
  def.attrs = {{"axis", "the axis, counted from 0", int64_t{0}, true}};
  def.infer = [](const OpInstance& op) -> Inferred {
    const auto axis = axis_of(op);
    if (!axis) return std::unexpected(axis.error());
    Shapes shapes(op);
    shapes.rank(1, op.input(0).shape.size()).same_dtype(1, 0);
    for (size_t d = 0; shapes.ok() && d < op.input(0).shape.size(); ++d) {
      if (d != *axis) shapes.same(1, d, 0, d, fmt::format("elements in dimension {}", d));
    }
    // Reads of the part that an element is not in are clamped to its edge, so there must be one.
    for (size_t i = 0; shapes.ok() && i < 2; ++i) {
      if (op.input(i).shape[*axis] == SymExpr(0)) {
        return refuse("operand {} is empty along the axis", op.def().operands[i].name);
      }
    }
    if (!shapes.ok()) return shapes.error();
    TensorType type = op.input(0);
    type.shape[*axis] = type.shape[*axis] + op.input(1).shape[*axis];
    return std::vector{std::move(type)};
  };
  def.element = [](ReadContext& ctx, std::span<const Expr> indices) {
    const auto axis = static_cast<size_t>(ctx.op().integer("axis"));
    const SymExpr& split = ctx.op().input(0).shape[axis];
    std::vector<Expr> in_a(indices.begin(), indices.end());
    std::vector<Expr> in_b = in_a;
    in_a[axis] = min(indices[axis], Expr::index(split - 1));
    in_b[axis] = max(indices[axis] - Expr::index(split), number(0));
    return Expr::select(less(indices[axis], Expr::index(split)), ctx.read(0, std::move(in_a)),
                        ctx.read(1, std::move(in_b)));
  };
  def.cases = {{{f32_of({3, 5}), f32_of({3, 2})}, {{"axis", int64_t{1}}}, {}},
               {{bf16_of({1, 4}), bf16_of({6, 4})}, {{"axis", int64_t{0}}}, {}}};
  return def;
}

}  // namespace gm
