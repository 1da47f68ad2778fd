#include <cmath>

#include "ops/support.h"

namespace gm {
namespace {

constexpr int64_t kMostTaps = 64;  // the taps are unrolled
constexpr int64_t kChannelBlock = 64;
enum Operand : size_t { kX, kW, kState, kCtx, kSlot };

Inferred infer(const OpInstance& op) {
  Shapes shapes(op);
  shapes.rank(kX, 2).rank(kW, 2).rank(kState, 3).rank(kCtx, 1).rank(kSlot, 1);
  shapes.dtype(kCtx, DType::i32).dtype(kSlot, DType::i32).same_dtype(kState, kX);
  if (shapes.ok()) {
    shapes.constant(kX, 1, "channels").constant(kW, 1, "taps").same(kW, 0, kX, 1, "channels");
    shapes.same(kState, 2, kX, 1, "channels").same(kSlot, 0, kCtx, 0, "sequences");
  }
  if (!shapes.ok()) return shapes.error();
  const int64_t taps = extent(op, kW, 1);
  if (taps < 2 || taps > kMostTaps) {
    return refuse("operand w has {} taps, 2 to {} are possible", taps, kMostTaps);
  }
  shapes.equals(kState, 1, taps - 1, "columns (one less than w has taps)");
  check_sequences(shapes, op, kCtx);
  if (!shapes.ok()) return shapes.error();
  return std::vector{op.input(kX), op.input(kState)};
}

// A work item owns a block of channels of one sequence. The history is one tile a tap, so that a
// shift is a copy between tiles and every tile fits in registers.
void lower(LoweringContext& ctx) {
  const OpInstance& op = ctx.op();
  const int64_t channels = extent(op, kW, 0);
  const auto taps = static_cast<size_t>(extent(op, kW, 1));
  const SymExpr blocks = (channels + kChannelBlock - 1) / kChannelBlock;
  ctx.part("conv", {{"s", op.input(kCtx).shape[0]}, {"cb", blocks}},
           [&](BlockBuilder& b, std::span<const Expr> grid) {
             const Expr& s = grid[0];
             const Axis c = b.axis("c", block_extent(channels, kChannelBlock, grid[1]));
             const Expr channel = grid[1] * number(kChannelBlock) + at(c);
             const Expr slot = ctx.read(kSlot, {s});
             std::vector<std::string> history;
             for (size_t j = 0; j + 1 < taps; ++j) {
               history.push_back(b.tile(fmt::format("h{}", j), {c}, Expr(0.0f)));
             }
             b.when(less_equal(number(0), slot), [&] {
               b.when(less(number(0), ctx.read(kCtx, {s})), [&] {
                 for (size_t j = 0; j + 1 < taps; ++j) {
                   const Expr column = number(static_cast<int64_t>(j));
                   b.update(history[j], {c}, {at(c)},
                            ctx.read_state(kState, {slot, column, channel}));
                 }
               });
             });
             for_tokens(ctx, b, s, [&](const Expr& t) {
               const std::string x = b.tile("x", {c}, ctx.read(kX, {t, channel}));
               Expr sum(0.0f);
               for (size_t j = 0; j < taps; ++j) {
                 const Expr w = ctx.read(kW, {channel, number(static_cast<int64_t>(j))});
                 sum = Expr::fma(w, at(j + 1 < taps ? history[j] : x, {at(c)}), std::move(sum));
               }
               ctx.write(b, 0, {c}, {t, channel}, std::move(sum));
               for (size_t j = 0; j + 1 < taps; ++j) {
                 b.update(history[j], {c}, {at(c)}, at(j + 2 < taps ? history[j + 1] : x, {at(c)}));
               }
             });
             b.when(less_equal(number(0), slot), [&] {
               for (size_t j = 0; j + 1 < taps; ++j) {
                 const Expr column = number(static_cast<int64_t>(j));
                 ctx.write_state(b, 1, {c}, {slot, column, channel}, at(history[j], {at(c)}));
               }
             });
           });
}

template <class T>
void reference(RefCall<T>& call) {
  const int64_t channels = extent(call.op, kW, 0);
  const int64_t taps = extent(call.op, kW, 1);
  const auto& x = call.inputs[kX]->data;
  const auto& w = call.inputs[kW]->data;
  const auto& old = call.inputs[kState]->data;
  auto& y = call.outputs[0].data;
  auto& next = call.outputs[1].data;
  const auto seqs = static_cast<int64_t>(call.inputs[kCtx]->ints.size());
  for (int64_t s = 0; s < seqs; ++s) {
    const int64_t slot = call.inputs[kSlot]->ints[static_cast<size_t>(s)];
    const bool has_history = slot >= 0 && call.inputs[kCtx]->ints[static_cast<size_t>(s)] > 0;
    const auto [first, last] = token_range(call, s);
    for (int64_t c = 0; c < channels; ++c) {
      // The input at a position counted from the first token; negative ones lie in the state.
      const auto input = [&](int64_t position) -> T {
        if (position >= 0) return x[static_cast<size_t>((first + position) * channels + c)];
        if (!has_history) return 0;
        const int64_t column = taps - 1 + position;
        return old[static_cast<size_t>((slot * (taps - 1) + column) * channels + c)];
      };
      for (int64_t t = 0; t < last - first; ++t) {
        T sum = 0;
        for (int64_t j = 0; j < taps; ++j) {
          sum = std::fma(w[static_cast<size_t>(c * taps + j)], input(t - taps + 1 + j), sum);
        }
        y[static_cast<size_t>((first + t) * channels + c)] = call.round(0, sum);
      }
      if (slot < 0) continue;
      for (int64_t column = 0; column < taps - 1; ++column) {
        next[static_cast<size_t>((slot * (taps - 1) + column) * channels + c)] =
            input(last - first - (taps - 1) + column);
      }
    }
  }
}

OpDef::Case ragged(DType dtype, int64_t channels, int64_t taps) {
  return {{type_of(dtype, {7, channels}), type_of(dtype, {channels, taps}),
           type_of(dtype, {5, taps - 1, channels}), i32_of({4}), i32_of({4}), i32_of({5})},
          {},
          {{}, {}, {}, {0, 9, 0, 1}, {3, 0, 4, 2}, {0, 1, 3, 6, 7}}};
}

OpDef::Case decode(DType dtype, int64_t channels, int64_t taps) {
  return {{type_of(dtype, {3, channels}), type_of(dtype, {channels, taps}),
           type_of(dtype, {4, taps - 1, channels}), i32_of({3}), i32_of({3})},
          {},
          {{}, {}, {}, {5, 0, 4}, {2, 0, -1}}};
}

}  // namespace

OpDef make_causal_conv() {
  OpDef def;
  def.name = "causal_conv";
  def.doc =
      "Depthwise causal convolution over the tokens of each sequence: y[t, c] = sum over j of w[c, "
      "j] * x[t - K + 1 + j, c], an fma chain from 0 in ascending j. What lies before the first "
      "token comes from the state if ctx > 0, else is 0. The new state is the last K - 1 inputs, "
      "raw and oldest first; a shorter chunk shifts it.";
  def.op_class = OpClass::kernel_like;
  def.operands = {
      floating("x", "[T, C], the inputs"),
      floating("w", "[C, K], K from 2 to 64", WeightLayout::transposed),
      state("state", "[slots, K-1, C], the dtype of x"),
      integers("ctx", "i32[seqs], tokens of the sequence before this step; 0: no history"),
      integers("slot",
               "i32[seqs], the sequence's slot of the state; negative: a padded row, which "
               "has no history and leaves the state alone"),
      seq_start_operand()};
  def.results = {with_epilogue(result("y", "[T, C], the dtype of x")),
                 result("state'", "the next version of state")};
  def.results[1].state = true;
  def.results[1].state_operand = kState;
  def.infer = infer;
  def.lower = lower;
  def.reference_f32 = reference<float>;
  def.reference_f64 = reference<double>;
  def.flops = [](const OpInstance& op) {
    return op.input(kX).shape[0] * op.input(kX).shape[1] * op.input(kW).shape[1] * 2;
  };
  def.cases = {ragged(DType::bf16, 70, 4), ragged(DType::f32, 5, 2),   ragged(DType::f32, 64, 3),
               ragged(DType::bf16, 9, 5),  decode(DType::bf16, 65, 4), decode(DType::f32, 3, 5)};
  return def;
}

}  // namespace gm
