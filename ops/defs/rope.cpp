#include "ops/support.h"

namespace gm {
namespace {

enum Operand : size_t { kX, kCos, kSin };

Inferred infer(const OpInstance& op) {
  Shapes shapes(op);
  shapes.rank(kX, 3).rank(kCos, 2).rank(kSin, 2);
  if (shapes.ok()) {
    shapes.constant(kX, 2, "columns").constant(kCos, 1, "angles").same(kCos, 0, kX, 0, "tokens");
    shapes.same(kSin, 0, kX, 0, "tokens").same(kSin, 1, kCos, 1, "angles");
  }
  if (!shapes.ok()) return shapes.error();
  if (extent(op, kCos, 1) > extent(op, kX, 2) / 2) {
    return refuse("operand cos has {} angles, but operand x only {} columns to turn in pairs",
                  extent(op, kCos, 1), extent(op, kX, 2));
  }
  if (auto interior = dtype_named(op, "interior"); !interior) {
    return std::unexpected(interior.error());
  }
  return std::vector{op.input(kX)};
}

void lower(LoweringContext& ctx) {
  const OpInstance& op = ctx.op();
  const int64_t width = extent(op, kX, 2);
  const int64_t angles = extent(op, kCos, 1);
  const DType interior = *dtype_named(op, "interior");
  ctx.part("rope", {{"t", op.input(kX).shape[0]}, {"h", op.input(kX).shape[1]}},
           [&](BlockBuilder& b, std::span<const Expr> grid) {
             const Expr& t = grid[0];
             const Expr& h = grid[1];
             const auto turned = [&](const Axis& i, bool second) {
               const Expr low = ctx.read(kX, {t, h, at(i)});
               const Expr high = ctx.read(kX, {t, h, at(i) + number(angles)});
               const Expr cosine = ctx.read(kCos, {t, at(i)});
               const Expr sine = ctx.read(kSin, {t, at(i)});
               if (second) {
                 return Expr::round(interior, high * cosine) + Expr::round(interior, low * sine);
               }
               return Expr::round(interior, low * cosine) - Expr::round(interior, high * sine);
             };
             const Axis i = b.axis("i", angles);
             ctx.write(b, 0, {i}, {t, h, at(i)}, turned(i, false));
             const Axis j = b.axis("j", angles);
             ctx.write(b, 0, {j}, {t, h, at(j) + number(angles)}, turned(j, true));
             if (2 * angles == width) return;
             const Axis d = b.axis("d", width - 2 * angles);
             const Expr rest = at(d) + number(2 * angles);
             ctx.write(b, 0, {d}, {t, h, rest}, ctx.read(kX, {t, h, rest}));
           });
}

template <class T>
void reference(RefCall<T>& call) {
  const auto& shape = call.inputs[kX]->shape;
  const auto width = static_cast<size_t>(shape[2]);
  const auto angles = static_cast<size_t>(extent(call.op, kCos, 1));
  const DType interior = *dtype_named(call.op, "interior");
  const auto product = [&](T a, T b) { return call.round_to(interior, a * b); };
  const size_t rows = static_cast<size_t>(shape[0] * shape[1]);
  for (size_t row = 0; row < rows; ++row) {
    const T* x = call.inputs[kX]->data.data() + row * width;
    T* y = call.outputs[0].data.data() + row * width;
    const size_t angle = row / static_cast<size_t>(shape[1]) * angles;
    for (size_t i = 0; i < angles; ++i) {
      const T c = call.inputs[kCos]->data[angle + i];
      const T s = call.inputs[kSin]->data[angle + i];
      y[i] = call.round(0, product(x[i], c) - product(x[i + angles], s));
      y[i + angles] = call.round(0, product(x[i + angles], c) + product(x[i], s));
    }
    for (size_t i = 2 * angles; i < width; ++i) y[i] = x[i];
  }
}

}  // namespace

OpDef make_rope() {
  OpDef def;
  def.name = "rope";
  def.doc =
      "Partial rotary position embedding (Su et al., \"RoFormer\", 2021) in the half-rotation form "
      "of GPT-NeoX: for i < r, y[i] = x[i] cos[i] - x[i+r] sin[i] and y[i+r] = x[i+r] cos[i] + "
      "x[i] sin[i]; columns from 2r on pass. Each product is rounded to `interior`, the sum to the "
      "dtype of x.";
  def.op_class = OpClass::kernel_like;
  def.operands = {with_prologue(floating("x", "[T, heads, D]")),
                  floating("cos", "[T, r], 2r at most D"), floating("sin", "[T, r]")};
  def.results = {with_epilogue(result("y", "the type of x"))};
  def.attrs = {{"interior", "dtype to which products are rounded: f32, bf16 or f16",
                std::string("f32"), true}};
  def.infer = infer;
  def.lower = lower;
  def.reference_f32 = reference<float>;
  def.reference_f64 = reference<double>;
  def.flops = [](const OpInstance& op) {
    const auto& x = op.input(kX).shape;
    return x[0] * x[1] * op.input(kCos).shape[1] * 6;
  };
  def.cases = {
      {{bf16_of({3, 2, 20}), bf16_of({3, 4}), bf16_of({3, 4})},
       {{"interior", std::string("bf16")}},
       {}},
      {{f32_of({5, 1, 8}), f32_of({5, 4}), f32_of({5, 4})}, {{"interior", std::string("f32")}}, {}},
      {{f32_of({2, 3, 7}), f32_of({2, 1}), f32_of({2, 1})},
       {{"interior", std::string("bf16")}},
       {}}};
  return def;
}

}  // namespace gm
