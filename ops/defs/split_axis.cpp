#include "ops/support.h"

namespace gm {

namespace {

// The extents that `sizes` stands for, a -1 replaced by what remains of the axis.
std::expected<std::vector<SymExpr>, std::string> split_extents(const OpInstance& op, size_t axis) {
  constexpr int64_t kMost = int64_t{1} << 40;  // keeps products far from overflow
  const SymExpr& whole = op.input(0).shape[axis];
  const std::vector<int64_t>& sizes = op.integers("sizes");
  if (sizes.empty()) return refuse("sizes is empty");
  int64_t known = 1;
  std::ptrdiff_t open = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      if (open >= 0) return refuse("sizes has more than one -1");
      open = static_cast<std::ptrdiff_t>(i);
    } else if (sizes[i] < 1 || sizes[i] > kMost / known) {
      return refuse("size {} is not within 1 and 2^40", sizes[i]);
    } else {
      known *= sizes[i];
    }
  }
  std::vector<SymExpr> extents(sizes.begin(), sizes.end());
  if (open < 0) {
    if (SymExpr(known) != whole) {
      return refuse("the sizes multiply to {}, the axis has {}", known, whole.to_string());
    }
    return extents;
  }
  SymExpr rest = known == 1 ? whole : SymExpr::floordiv(whole, known);
  if (rest * known != whole) {
    return refuse("the axis has {}, which is not known to be a multiple of {}", whole.to_string(),
                  known);
  }
  extents[static_cast<size_t>(open)] = std::move(rest);
  return extents;
}

}  // namespace

OpDef make_split_axis() {
  OpDef def;
  def.name = "split_axis";
  def.doc =
      "Reads one axis as several, row-major: y[..., i, j, ...] = x[..., i * b + j, ...] for sizes "
      "[a, b]. A view: never a kernel of its own.";
  def.op_class = OpClass::view;
  def.operands = {floating("x", "rank 1 or more, floats or integers")};
  def.operands[0].kind = OperandDef::Kind::any;
  def.results = {result("y", "the shape of x with the sizes in place of the axis")};
  def.attrs = {
      {"axis", "the axis, counted from 0", int64_t{0}, true},
      {"sizes", "the extents that take its place; one may be -1, for what remains (also symbolic)",
       std::vector<int64_t>(), true}};
  def.infer = [](const OpInstance& op) -> Inferred {
    const auto axis = axis_of(op);
    if (!axis) return std::unexpected(axis.error());
    const auto extents = split_extents(op, *axis);
    if (!extents) return std::unexpected(extents.error());
    TensorType type = op.input(0);
    const auto at_axis = type.shape.begin() + static_cast<std::ptrdiff_t>(*axis);
    type.shape.insert(type.shape.erase(at_axis), extents->begin(), extents->end());
    return std::vector{std::move(type)};
  };
  def.element = [](ReadContext& ctx, std::span<const Expr> indices) {
    const auto axis = static_cast<size_t>(ctx.op().integer("axis"));
    const size_t count = ctx.op().integers("sizes").size();
    const auto& shape = ctx.result().shape;
    Expr whole = indices[axis];
    for (size_t i = axis + 1; i < axis + count; ++i) {
      whole = whole * Expr::index(shape[i]) + indices[i];
    }
    std::vector<Expr> source(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(axis));
    source.push_back(std::move(whole));
    source.insert(source.end(), indices.begin() + static_cast<std::ptrdiff_t>(axis + count),
                  indices.end());
    return ctx.read(0, std::move(source));
  };
  def.cases = {
      {{bf16_of({3, 10})}, {{"axis", int64_t{1}}, {"sizes", std::vector<int64_t>{2, 5}}}, {}},
      {{f32_of({12, 2})}, {{"axis", int64_t{0}}, {"sizes", std::vector<int64_t>{2, -1, 3}}}, {}},
      {{i32_of({5})},
       {{"axis", int64_t{0}}, {"sizes", std::vector<int64_t>{-1, 1}}},
       {{4, 3, 2, 1, 0}}}};
  return def;
}

}  // namespace gm
