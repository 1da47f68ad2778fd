#include "ops/support.h"

namespace gm {
namespace {

enum Operand : size_t { kX, kCache, kPos, kPages };

Inferred infer(const OpInstance& op) {
  Shapes shapes(op);
  shapes.rank(kX, 3).rank(kCache, 4).rank(kPos, 1).rank(kPages, 2).same_dtype(kCache, kX);
  shapes.dtype(kPos, DType::i32).dtype(kPages, DType::i32);
  if (shapes.ok()) {
    shapes.constant(kCache, 1, "tokens a page").constant(kX, 1, "heads").constant(kX, 2, "columns");
    shapes.same(kCache, 2, kX, 1, "heads").same(kCache, 3, kX, 2, "columns");
    shapes.same(kPos, 0, kX, 0, "tokens");
  }
  check_sequences(shapes, op, kPages);
  if (!shapes.ok()) return shapes.error();
  return std::vector{op.input(kCache)};
}

void lower(LoweringContext& ctx) {
  const OpInstance& op = ctx.op();
  const int64_t page_size = extent(op, kCache, 1);
  const SymExpr context = context_extent(op, kPages, page_size);
  ctx.part("append", {{"s", op.input(kPages).shape[0]}, {"h", op.input(kX).shape[1]}},
           [&](BlockBuilder& b, std::span<const Expr> grid) {
             const Expr& s = grid[0];
             const Expr& h = grid[1];
             const Axis d = b.axis("d", op.input(kX).shape[2]);
             for_tokens(ctx, b, s, [&](const Expr& t) {
               const Expr p = Expr::index(b.let("p", 0, context - 1, ctx.read(kPos, {t})));
               const Expr page = ctx.read(kPages, {s, floordiv(p, page_size)});
               b.when(less_equal(number(0), page), [&] {
                 ctx.write_state(b, 0, {d}, {page, mod(p, page_size), h, at(d)},
                                 ctx.read(kX, {t, h, at(d)}));
               });
             });
           });
}

template <class T>
void reference(RefCall<T>& call) {
  const auto& cache = call.inputs[kCache]->shape;
  const auto page_size = static_cast<size_t>(cache[1]);
  const auto row = static_cast<size_t>(cache[2] * cache[3]);
  const auto& pages = *call.inputs[kPages];
  for (int64_t s = 0; s < pages.shape[0]; ++s) {
    const auto [first, last] = token_range(call, s);
    for (int64_t t = first; t < last; ++t) {
      const auto pos = static_cast<size_t>(call.inputs[kPos]->ints[static_cast<size_t>(t)]);
      const int64_t page = pages.ints[static_cast<size_t>(s * pages.shape[1]) + pos / page_size];
      if (page < 0) continue;
      const auto from = call.inputs[kX]->data.begin() + t * static_cast<int64_t>(row);
      const size_t at = (static_cast<size_t>(page) * page_size + pos % page_size) * row;
      std::copy_n(from, row, call.outputs[0].data.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

}  // namespace

OpDef make_cache_append() {
  OpDef def;
  def.name = "cache_append";
  def.doc =
      "Puts the keys or values of a step's tokens into a paged cache: cache'[pages[s, pos / P], "
      "pos mod P] = x[t] for each token t of sequence s. A page of -1 is not assigned and its "
      "tokens are dropped.";
  def.op_class = OpClass::kernel_like;
  def.operands = {with_prologue(floating("x", "[T, heads, D]")),
                  state("cache", "[pages, P, heads, D], the dtype of x; P tokens a page"),
                  integers("pos", "i32[T], the position of each token in its sequence"),
                  integers("pages",
                           "i32[seqs, ceildiv(context, P)], the pages of each sequence; "
                           "no page twice, -1: not assigned"),
                  seq_start_operand()};
  def.results = {result("cache'", "the next version of cache")};
  def.results[0].state = true;
  def.results[0].state_operand = kCache;
  def.infer = infer;
  def.lower = lower;
  def.reference_f32 = reference<float>;
  def.reference_f64 = reference<double>;
  def.flops = [](const OpInstance&) { return SymExpr(0); };
  // Sequences of 1, 2 and 3 tokens, which begin at the end of a page, in it, and at position 0.
  def.cases = {
      {{bf16_of({6, 2, 5}), bf16_of({7, 4, 2, 5}), i32_of({6}), i32_of({3, 2}), i32_of({4})},
       {},
       {{}, {}, {3, 3, 4, 0, 1, 2}, {5, -1, 2, 0, 6, -1}, {0, 1, 3, 6}}},
      {{f32_of({3, 1, 8}), f32_of({5, 16, 1, 8}), i32_of({3}), i32_of({3, 2})},
       {},
       {{}, {}, {17, 2, 0}, {3, 1, 4, -1, -1, -1}}}};
  return def;
}

}  // namespace gm
