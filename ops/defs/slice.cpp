#include "ops/support.h"

namespace gm {

OpDef make_slice() {
  OpDef def;
  def.name = "slice";
  def.doc = "y = x[..., begin:end, ...] along one axis. A view: never a kernel of its own.";
  def.op_class = OpClass::view;
  def.operands = {floating("x", "rank 1 or more, floats or integers")};
  def.operands[0].kind = OperandDef::Kind::any;
  def.results = {result("y", "the shape of x with end - begin along the axis, the dtype of x")};
  def.attrs = {{"axis", "the axis, counted from 0; its extent must be a number", int64_t{0}, true},
               {"begin", "the first element", int64_t{0}, true},
               {"end", "one past the last element", int64_t{0}, true}};
  def.infer = [](const OpInstance& op) -> Inferred {
    const auto axis = axis_of(op);
    if (!axis) return std::unexpected(axis.error());
    Shapes shapes(op);
    shapes.constant(0, *axis, "elements along the axis");
    if (!shapes.ok()) return shapes.error();
    const int64_t whole = extent(op, 0, *axis);
    const int64_t begin = op.integer("begin");
    const int64_t end = op.integer("end");
    if (begin < 0 || begin >= end || end > whole) {
      return refuse("the range [{}, {}) is empty or not within [0, {})", begin, end, whole);
    }
    TensorType type = op.input(0);
    type.shape[*axis] = end - begin;
    return std::vector{std::move(type)};
  };
  def.element = [](ReadContext& ctx, std::span<const Expr> indices) {
    std::vector<Expr> source(indices.begin(), indices.end());
    Expr& index = source[static_cast<size_t>(ctx.op().integer("axis"))];
    index = index + number(ctx.op().integer("begin"));
    return ctx.read(0, std::move(source));
  };
  def.cases = {
      {{bf16_of({3, 10})}, {{"axis", int64_t{1}}, {"begin", int64_t{3}}, {"end", int64_t{8}}}, {}},
      {{f32_of({5, 2})}, {{"axis", int64_t{0}}, {"begin", int64_t{4}}, {"end", int64_t{5}}}, {}}};
  return def;
}

}  // namespace gm
