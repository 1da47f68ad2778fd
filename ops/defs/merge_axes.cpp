#include "ops/support.h"

namespace gm {

OpDef make_merge_axes() {
  OpDef def;
  def.name = "merge_axes";
  def.doc =
      "Reads an axis and the next one as one, row-major: y[..., i * b + j, ...] = x[..., i, j, "
      "...]. A view: never a kernel of its own.";
  def.op_class = OpClass::view;
  def.operands = {floating("x", "rank 2 or more, floats or integers")};
  def.operands[0].kind = OperandDef::Kind::any;
  def.results = {result("y", "the shape of x with the product in place of both axes")};
  def.attrs = {{"axis",
                "the first of the two axes, counted from 0; the second has a constant "
                "extent",
                int64_t{0}, true}};
  def.infer = [](const OpInstance& op) -> Inferred {
    const auto axis = axis_of(op, 1);
    if (!axis) return std::unexpected(axis.error());
    Shapes shapes(op);
    shapes.constant(0, *axis + 1, "elements in the second axis");
    if (!shapes.ok()) return shapes.error();
    TensorType type = op.input(0);
    type.shape[*axis] = type.shape[*axis] * type.shape[*axis + 1];
    type.shape.erase(type.shape.begin() + static_cast<std::ptrdiff_t>(*axis) + 1);
    return std::vector{std::move(type)};
  };
  def.element = [](ReadContext& ctx, std::span<const Expr> indices) {
    const auto axis = static_cast<size_t>(ctx.op().integer("axis"));
    const int64_t inner = extent(ctx.op(), 0, axis + 1);
    std::vector<Expr> source(indices.begin(), indices.end());
    source[axis] = floordiv(indices[axis], inner);
    source.insert(source.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
                  mod(indices[axis], inner));
    return ctx.read(0, std::move(source));
  };
  def.cases = {{{bf16_of({3, 4, 5})}, {{"axis", int64_t{1}}}, {}},
               {{f32_of({3, 7, 2})}, {{"axis", int64_t{0}}}, {}}};
  return def;
}

}  // namespace gm
