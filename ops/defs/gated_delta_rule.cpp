#include <cmath>

#include "ops/support.h"

namespace gm {
namespace {

constexpr int64_t kColumnBlock = 32;
enum Operand : size_t { kQ, kK, kV, kG, kBeta, kState, kCtx, kSlot };

Inferred infer(const OpInstance& op) {
  Shapes shapes(op);
  shapes.rank(kQ, 3).rank(kK, 3).rank(kV, 3).rank(kG, 2).rank(kBeta, 2).rank(kState, 4);
  shapes.rank(kCtx, 1).rank(kSlot, 1).dtype(kCtx, DType::i32).dtype(kSlot, DType::i32);
  shapes.dtype(kState, DType::f32);
  if (shapes.ok()) {
    shapes.constant(kQ, 1, "heads").constant(kQ, 2, "columns").constant(kV, 1, "heads");
    shapes.constant(kV, 2, "columns");
    shapes.same(kK, 0, kQ, 0, "tokens").same(kK, 1, kQ, 1, "heads").same(kK, 2, kQ, 2, "columns");
    shapes.same(kV, 0, kQ, 0, "tokens").same(kG, 0, kQ, 0, "tokens");
    shapes.same(kG, 1, kV, 1, "heads").same(kBeta, 0, kQ, 0, "tokens");
    shapes.same(kBeta, 1, kV, 1, "heads").same(kState, 1, kV, 1, "heads");
    shapes.same(kState, 2, kQ, 2, "rows a head").same(kState, 3, kV, 2, "columns a head");
    shapes.same(kSlot, 0, kCtx, 0, "sequences");
  }
  check_sequences(shapes, op, kCtx);
  if (!shapes.ok()) return shapes.error();
  if (extent(op, kV, 1) % extent(op, kQ, 1) != 0) {
    return refuse("operand v has {} heads, which is no multiple of the {} of q", extent(op, kV, 1),
                  extent(op, kQ, 1));
  }
  const auto dtype = result_dtype(op);
  if (!dtype) return std::unexpected(dtype.error());
  return std::vector{TensorType{*dtype, op.input(kV).shape}, op.input(kState)};
}

// The columns of S do not depend on each other, so a work item owns a block of columns of one head
// of one sequence and keeps it in a tile over all tokens.
void lower(LoweringContext& ctx) {
  const OpInstance& op = ctx.op();
  const int64_t heads = extent(op, kV, 1);
  const int64_t group = heads / extent(op, kQ, 1);
  const int64_t rows = extent(op, kQ, 2);
  const int64_t columns = extent(op, kV, 2);
  const SymExpr blocks = (columns + kColumnBlock - 1) / kColumnBlock;
  ctx.part("delta", {{"s", op.input(kCtx).shape[0]}, {"h", heads}, {"jb", blocks}},
           [&](BlockBuilder& b, std::span<const Expr> grid) {
             const Expr& s = grid[0];
             const Expr& h = grid[1];
             const Axis i = b.axis("i", rows);
             const Axis j = b.axis("j", block_extent(columns, kColumnBlock, grid[2]));
             const Expr column = grid[2] * number(kColumnBlock) + at(j);
             const Expr slot = ctx.read(kSlot, {s});
             const std::string state = b.tile("S", {i, j}, Expr(0.0f));
             const Expr element = at(state, {at(i), at(j)});
             b.when(less_equal(number(0), slot), [&] {
               b.when(less(number(0), ctx.read(kCtx, {s})), [&] {
                 b.update(state, {i, j}, {at(i), at(j)},
                          ctx.read_state(kState, {slot, h, at(i), column}));
               });
             });
             for_tokens(ctx, b, s, [&](const Expr& t) {
               const Expr key_head = floordiv(h, group);
               const std::string k = b.tile("k", {i}, ctx.read(kK, {t, key_head, at(i)}));
               const std::string q = b.tile("q", {i}, ctx.read(kQ, {t, key_head, at(i)}));
               const std::string decay = b.tile("decay", {}, exp(ctx.read(kG, {t, h})));
               b.update(state, {i, j}, {at(i), at(j)}, element * at(decay, {}));
               const std::string predicted =
                   b.reduce("p", {j}, i, ReduceOp::dot, kChain, element, at(k, {at(i)}));
               const std::string delta =
                   b.tile("d", {j},
                          ctx.read(kBeta, {t, h}) *
                              (ctx.read(kV, {t, h, column}) - at(predicted, {at(j)})));
               b.update(state, {i, j}, {at(i), at(j)},
                        Expr::fma(at(k, {at(i)}), at(delta, {at(j)}), element));
               const std::string out =
                   b.reduce("o", {j}, i, ReduceOp::dot, kChain, element, at(q, {at(i)}));
               ctx.write(b, 0, {j}, {t, h, column}, at(out, {at(j)}));
             });
             b.when(less_equal(number(0), slot),
                    [&] { ctx.write_state(b, 1, {i, j}, {slot, h, at(i), column}, element); });
           });
}

template <class T>
void reference(RefCall<T>& call) {
  const auto key_heads = static_cast<size_t>(extent(call.op, kQ, 1));
  const auto rows = static_cast<size_t>(extent(call.op, kQ, 2));
  const auto heads = static_cast<size_t>(extent(call.op, kV, 1));
  const auto columns = static_cast<size_t>(extent(call.op, kV, 2));
  const size_t seqs = call.inputs[kCtx]->ints.size();
  for (size_t s = 0; s < seqs; ++s) {
    const int64_t slot = call.inputs[kSlot]->ints[s];
    const auto [first, last] = token_range(call, static_cast<int64_t>(s));
    for (size_t h = 0; h < heads; ++h) {
      const size_t base =
          (static_cast<size_t>(std::max<int64_t>(slot, 0)) * heads + h) * rows * columns;
      std::vector<T> state(rows * columns, T(0));
      if (slot >= 0 && call.inputs[kCtx]->ints[s] > 0) {
        const auto from = call.inputs[kState]->data.begin() + static_cast<std::ptrdiff_t>(base);
        std::copy_n(from, rows * columns, state.begin());
      }
      for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(last); ++t) {
        const size_t key = (t * key_heads + h / (heads / key_heads)) * rows;
        const T* q = call.inputs[kQ]->data.data() + key;
        const T* k = call.inputs[kK]->data.data() + key;
        const T* v = call.inputs[kV]->data.data() + (t * heads + h) * columns;
        const T decay = std::exp(call.inputs[kG]->data[t * heads + h]);
        const T beta = call.inputs[kBeta]->data[t * heads + h];
        for (T& element : state) element *= decay;
        for (size_t j = 0; j < columns; ++j) {
          T predicted = 0;
          for (size_t i = 0; i < rows; ++i) predicted += state[i * columns + j] * k[i];
          const T delta = beta * (v[j] - predicted);
          T out = 0;
          for (size_t i = 0; i < rows; ++i) {
            state[i * columns + j] += k[i] * delta;
            out += state[i * columns + j] * q[i];
          }
          call.outputs[0].data[(t * heads + h) * columns + j] = call.round(0, out);
        }
      }
      if (slot < 0) continue;
      const auto to = call.outputs[1].data.begin() + static_cast<std::ptrdiff_t>(base);
      std::copy(state.begin(), state.end(), to);
    }
  }
}

OpDef::Case ragged(DType act, int64_t key_heads, int64_t group, int64_t rows, int64_t columns) {
  const int64_t heads = key_heads * group;
  return {{f32_of({6, key_heads, rows}), f32_of({6, key_heads, rows}),
           type_of(act, {6, heads, columns}), f32_of({6, heads}), type_of(act, {6, heads}),
           f32_of({4, heads, rows, columns}), i32_of({3}), i32_of({3}), i32_of({4})},
          {{"dtype", std::string(to_string(act))}},
          {{}, {}, {}, {}, {}, {}, {0, 7, 0}, {2, 0, 3}, {0, 1, 3, 6}}};
}

OpDef::Case decode(DType act, int64_t key_heads, int64_t group, int64_t rows, int64_t columns) {
  const int64_t heads = key_heads * group;
  return {{f32_of({3, key_heads, rows}), f32_of({3, key_heads, rows}),
           type_of(act, {3, heads, columns}), f32_of({3, heads}), type_of(act, {3, heads}),
           f32_of({3, heads, rows, columns}), i32_of({3}), i32_of({3})},
          {{"dtype", std::string(to_string(act))}},
          {{}, {}, {}, {}, {}, {}, {4, 0, 2}, {1, 2, -1}}};
}

}  // namespace

OpDef make_gated_delta_rule() {
  OpDef def;
  def.name = "gated_delta_rule";
  def.doc =
      "The gated delta rule (Yang, Kautz and Hatamizadeh, \"Gated Delta Networks\", 2024), token "
      "by token in f32: S = exp(g) S; p = S^T k; d = beta (v - p); S = S + k d^T; o = S^T q. S "
      "starts from the state if ctx > 0, else from 0; value head j uses query and key head j / (Hv "
      "/ Hk), rounded down.";
  def.op_class = OpClass::kernel_like;
  def.operands = {
      with_prologue(floating("q", "[T, Hk, dk], normalised and scaled")),
      with_prologue(floating("k", "[T, Hk, dk], normalised")),
      floating("v", "[T, Hv, dv]"),
      floating("g", "[T, Hv], the logarithm of the decay, at most 0"),
      floating("beta", "[T, Hv], the learning rate, from 0 to 1"),
      state("state", "f32[slots, Hv, dk, dv]"),
      integers("ctx", "i32[seqs], tokens of the sequence before this step; 0: S starts from 0"),
      integers("slot",
               "i32[seqs], the sequence's slot of the state; negative: a padded row, which "
               "starts from 0 and leaves the state alone"),
      seq_start_operand()};
  def.results = {with_epilogue(result("o", "[T, Hv, dv]")),
                 result("state'", "the next version of state")};
  def.results[1].state = true;
  def.results[1].state_operand = kState;
  def.attrs = {dtype_attr()};
  def.infer = infer;
  def.lower = lower;
  def.reference_f32 = reference<float>;
  def.reference_f64 = reference<double>;
  def.flops = [](const OpInstance& op) {
    // An element of S takes a product and three multiply-adds a token.
    const auto& v = op.input(kV).shape;
    return v[0] * v[1] * v[2] * op.input(kQ).shape[2] * 7;
  };
  def.cases = {ragged(DType::bf16, 2, 2, 16, 40), ragged(DType::f32, 1, 3, 7, 5),
               ragged(DType::bf16, 3, 1, 8, 32), decode(DType::bf16, 2, 1, 24, 33),
               decode(DType::f32, 1, 2, 5, 64)};
  return def;
}

}  // namespace gm
