#include "ops/support.h"

namespace gm {
namespace {

Inferred infer(const OpInstance& op) {
  Shapes shapes(op);
  shapes.rank(0, 2).dtype(0, DType::f32);
  if (shapes.ok()) shapes.constant(0, 1, "experts");
  if (!shapes.ok()) return shapes.error();
  const int64_t k = op.integer("k");
  if (k < 1 || k > extent(op, 0, 1)) {
    return refuse("attribute k is {}, but there are {} experts", k, extent(op, 0, 1));
  }
  const auto dtype = result_dtype(op);
  if (!dtype) return std::unexpected(dtype.error());
  const SymExpr& tokens = op.input(0).shape[0];
  return std::vector{TensorType{DType::i32, {tokens, k}}, TensorType{*dtype, {tokens, k}}};
}

// Picks the greatest k times, marks them, and reads the marks in ascending order: only then are
// results stored by an index that is known, each once.
void lower(LoweringContext& ctx) {
  const OpInstance& op = ctx.op();
  const int64_t k = op.integer("k");
  ctx.part(
      "route", {{"t", op.input(0).shape[0]}}, [&](BlockBuilder& b, std::span<const Expr> grid) {
        const Expr& t = grid[0];
        const Axis e = b.axis("e", op.input(0).shape[1]);
        const Expr lowest(-std::numeric_limits<float>::infinity());
        const auto here = [&](const std::string& tile) { return at(tile, {at(e)}); };
        const auto is = [&](const std::string& found) {
          return equal(at(e), at(found, {}, ScalarType::index));
        };
        const auto value_at = [&](const std::string& p, const std::string& found) {
          return b.reduce("w", {}, e, ReduceOp::sum, kLanes,
                          Expr::select(is(found), here(p), Expr(0.0f)));
        };
        const std::string p = b.tile("p", {e}, ctx.read(0, {t, at(e)}));
        const std::string rest = b.tile("rest", {e}, here(p));
        const std::string chosen = b.tile("chosen", {e}, Expr(0.0f));
        const std::string sum = b.tile("sum", {}, Expr(0.0f));
        b.loop("r", number(0), number(k), [&](const SymExpr&) {
          const std::string best = b.reduce("best", {}, e, ReduceOp::argmax, kLanes, here(rest));
          const std::string value = value_at(p, best);
          b.update(sum, {}, {}, at(sum, {}) + at(value, {}));
          b.update(rest, {e}, {at(e)}, Expr::select(is(best), lowest, here(rest)));
          b.update(chosen, {e}, {at(e)}, Expr::select(is(best), Expr(1.0f), here(chosen)));
        });
        b.loop("r", number(0), number(k), [&](const SymExpr& r) {
          // Equal marks: the lowest expert comes first.
          const std::string next = b.reduce("next", {}, e, ReduceOp::argmax, kLanes, here(chosen));
          const std::string value = value_at(p, next);
          ctx.write(b, 0, {}, {t, Expr::index(r)}, at(next, {}, ScalarType::index));
          ctx.write(b, 1, {}, {t, Expr::index(r)}, at(value, {}) / at(sum, {}));
          b.update(chosen, {e}, {at(e)}, Expr::select(is(next), Expr(0.0f), here(chosen)));
        });
      });
}

template <class T>
void reference(RefCall<T>& call) {
  const auto experts = static_cast<size_t>(extent(call.op, 0, 1));
  const auto k = static_cast<size_t>(call.op.integer("k"));
  const size_t tokens = call.inputs[0]->data.size() / experts;
  std::vector<int64_t> order(experts);
  for (size_t t = 0; t < tokens; ++t) {
    const T* p = call.inputs[0]->data.data() + t * experts;
    for (size_t e = 0; e < experts; ++e) order[e] = static_cast<int64_t>(e);
    std::stable_sort(order.begin(), order.end(), [p](int64_t a, int64_t b) { return p[a] > p[b]; });
    T sum = 0;
    for (size_t j = 0; j < k; ++j) sum += p[order[j]];
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k));
    for (size_t j = 0; j < k; ++j) {
      call.outputs[0].ints[t * k + j] = order[j];
      call.outputs[1].data[t * k + j] = call.round(1, p[order[j]] / sum);
    }
  }
}

}  // namespace

OpDef make_topk_route() {
  OpDef def;
  def.name = "topk_route";
  def.doc =
      "Routing of a mixture of experts: the k experts of greatest probability (among equals the "
      "lowest id), in ascending id, and their weights w = p / (sum of the chosen p, added from the "
      "greatest down) in f32.";
  def.op_class = OpClass::kernel_like;
  def.operands = {with_prologue(floating("p", "f32[T, E], probabilities"))};
  def.results = {result("idx", "i32[T, k], the chosen experts in ascending id"),
                 result("w", "[T, k], their weights")};
  def.attrs = {{"k", "experts a token", int64_t{1}, true}, dtype_attr()};
  def.attrs[1].doc = "dtype of w (f32, bf16 or f16); empty: that of p";
  def.infer = infer;
  def.lower = lower;
  def.row_wise = true;
  def.reference_f32 = reference<float>;
  def.reference_f64 = reference<double>;
  def.flops = [](const OpInstance& op) {
    return op.input(0).shape[0] * op.input(0).shape[1] * (4 * op.integer("k"));
  };
  def.cases = {{{f32_of({5, 9})}, {{"k", int64_t{3}}, {"dtype", std::string("bf16")}}, {}},
               {{f32_of({3, 16})}, {{"k", int64_t{1}}}, {}},
               {{f32_of({2, 4})}, {{"k", int64_t{4}}}, {}}};
  return def;
}

}  // namespace gm
