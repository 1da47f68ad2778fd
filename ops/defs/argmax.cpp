#include <cmath>

#include "ops/support.h"

namespace gm {
namespace {

// The valid ranges as [lo, hi) pairs; without any, the whole row.
std::vector<std::pair<int64_t, int64_t>> ranges_of(const OpInstance& op) {
  const auto& valid = op.integers("valid");
  if (valid.empty()) return {{0, extent(op, 0, 1)}};
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (size_t i = 0; i + 1 < valid.size(); i += 2) ranges.emplace_back(valid[i], valid[i + 1]);
  return ranges;
}

Inferred infer(const OpInstance& op) {
  Shapes shapes(op);
  shapes.rank(0, 2);
  if (shapes.ok()) shapes.constant(0, 1, "columns");
  if (!shapes.ok()) return shapes.error();
  const auto& valid = op.integers("valid");
  if (valid.size() % 2 != 0) return refuse("valid has {} numbers: it lists pairs", valid.size());
  int64_t end = 0;
  for (size_t i = 0; i < valid.size(); i += 2) {
    if (valid[i] < end || valid[i] >= valid[i + 1] || valid[i + 1] > extent(op, 0, 1)) {
      return refuse("the valid range [{}, {}) is empty, out of order or not within [0, {})",
                    valid[i], valid[i + 1], extent(op, 0, 1));
    }
    end = valid[i + 1];
  }
  return std::vector{TensorType{DType::i32, {op.input(0).shape[0]}}};
}

void lower(LoweringContext& ctx) {
  const OpInstance& op = ctx.op();
  const auto ranges = ranges_of(op);
  ctx.part("argmax", {{"r", op.input(0).shape[0]}},
           [&](BlockBuilder& b, std::span<const Expr> grid) {
             const Expr& r = grid[0];
             // The search begins at a valid column, so that a row of nothing but -inf yields a
             // valid one too.
             const int64_t first = ranges.front().first;
             const Axis v = b.axis("v", ranges.back().second - first);
             const Expr column = at(v) + number(first);
             Expr value = ctx.read(0, {r, column});
             for (size_t i = 1; i < ranges.size(); ++i) {
               const Expr in_hole = logical_and(less_equal(number(ranges[i - 1].second), column),
                                                less(column, number(ranges[i].first)));
               value = Expr::select(in_hole, Expr(-std::numeric_limits<float>::infinity()), value);
             }
             const std::string best = b.reduce("best", {}, v, ReduceOp::argmax, kLanes, value);
             ctx.write(b, 0, {}, {r}, at(best, {}, ScalarType::index) + number(first));
           });
}

template <class T>
void reference(RefCall<T>& call) {
  const auto width = static_cast<size_t>(extent(call.op, 0, 1));
  for (size_t r = 0; r < call.outputs[0].ints.size(); ++r) {
    const T* logits = call.inputs[0]->data.data() + r * width;
    int64_t best = -1;
    for (const auto& [lo, hi] : ranges_of(call.op)) {
      for (int64_t v = lo; v < hi; ++v) {
        const bool better = best < 0 || (!std::isnan(logits[best]) &&
                                         (std::isnan(logits[v]) || logits[v] > logits[best]));
        if (better) best = v;
      }
    }
    call.outputs[0].ints[r] = best;
  }
}

}  // namespace

OpDef make_argmax() {
  OpDef def;
  def.name = "argmax";
  def.doc =
      "The column of the greatest logit of each row among the valid columns; among equals the "
      "lowest. NaN counts as greatest, so that it cannot hide.";
  def.op_class = OpClass::kernel_like;
  def.operands = {with_prologue(floating("logits", "[R, V]"))};
  def.results = {result("next", "i32[R]")};
  def.attrs = {{"valid",
                "[lo, hi, lo, hi, ...]: half-open ranges of the columns that a tokenizer knows, "
                "ascending; empty: all",
                std::vector<int64_t>(), false}};
  def.infer = infer;
  def.lower = lower;
  def.reference_f32 = reference<float>;
  def.reference_f64 = reference<double>;
  def.flops = [](const OpInstance& op) { return op.input(0).shape[0] * op.input(0).shape[1]; };
  def.cases = {{{f32_of({3, 41})}, {{"valid", std::vector<int64_t>{2, 7, 9, 30, 33, 40}}}, {}},
               {{f32_of({1, 17})}, {}, {}},
               {{bf16_of({4, 100})}, {{"valid", std::vector<int64_t>{0, 90}}}, {}}};
  return def;
}

}  // namespace gm
