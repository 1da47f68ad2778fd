#include <cmath>

#include "ops/support.h"

namespace gm {
namespace {

enum Operand : size_t { kQ, kKeys, kValues, kPos, kPages };

Inferred infer(const OpInstance& op) {
  Shapes shapes(op);
  shapes.rank(kQ, 3).rank(kKeys, 4).rank(kValues, 4).rank(kPos, 1).rank(kPages, 2);
  shapes.dtype(kPos, DType::i32).dtype(kPages, DType::i32).same_dtype(kValues, kKeys);
  if (shapes.ok()) {
    shapes.constant(kQ, 1, "heads").constant(kQ, 2, "columns");
    shapes.constant(kKeys, 1, "tokens a page").constant(kKeys, 2, "heads");
    shapes.same(kKeys, 3, kQ, 2, "columns");
    shapes.same(kValues, 0, kKeys, 0, "pages").same(kValues, 1, kKeys, 1, "tokens a page");
    shapes.same(kValues, 2, kKeys, 2, "heads").same(kValues, 3, kKeys, 3, "columns");
    shapes.same(kPos, 0, kQ, 0, "tokens");
  }
  check_sequences(shapes, op, kPages);
  if (!shapes.ok()) return shapes.error();
  if (extent(op, kQ, 1) % extent(op, kKeys, 2) != 0) {
    return refuse("operand q has {} heads, which is no multiple of the {} of keys",
                  extent(op, kQ, 1), extent(op, kKeys, 2));
  }
  if (auto interior = dtype_named(op, "interior"); !interior) {
    return std::unexpected(interior.error());
  }
  const auto dtype = result_dtype(op);
  if (!dtype) return std::unexpected(dtype.error());
  return std::vector{TensorType{*dtype, op.input(kQ).shape}};
}

void lower(LoweringContext& ctx) {
  const OpInstance& op = ctx.op();
  const int64_t heads = extent(op, kQ, 1);
  const int64_t group = heads / extent(op, kKeys, 2);
  const int64_t width = extent(op, kQ, 2);
  const int64_t page_size = extent(op, kKeys, 1);
  const SymExpr context = context_extent(op, kPages, page_size);
  const DType interior = *dtype_named(op, "interior");
  const Expr scale(op.number("scale"));
  ctx.part("attention", {{"s", op.input(kPages).shape[0]}, {"h", heads}},
           [&](BlockBuilder& b, std::span<const Expr> grid) {
             const Expr& s = grid[0];
             const Expr& h = grid[1];
             const Axis d = b.axis("d", width);
             for_tokens(ctx, b, s, [&](const Expr& t) {
               const SymExpr n = b.let("n", 1, context, ctx.read(kPos, {t}) + number(1));
               const Axis u = b.axis("u", n);
               // A page that is not assigned belongs to a padded row, whose result nobody reads.
               const Expr page = max(number(0), ctx.read(kPages, {s, floordiv(at(u), page_size)}));
               const std::vector<Expr> cached = {page, mod(at(u), page_size), floordiv(h, group),
                                                 at(d)};
               const std::string q = b.tile("q", {d}, ctx.read(kQ, {t, h, at(d)}));
               const std::string dots = b.reduce("dots", {u}, d, ReduceOp::dot, kLanes,
                                                 at(q, {at(d)}), ctx.read_state(kKeys, cached));
               const std::string score =
                   b.tile("score", {u},
                          Expr::round(interior, Expr::round(interior, at(dots, {at(u)})) * scale));
               const std::string most =
                   b.reduce("most", {}, u, ReduceOp::max, kLanes, at(score, {at(u)}));
               const std::string weight = b.tile("e", {u}, exp(at(score, {at(u)}) - at(most, {})));
               const std::string sum =
                   b.reduce("sum", {}, u, ReduceOp::sum, kLanes, at(weight, {at(u)}));
               const std::string p =
                   b.tile("p", {u}, Expr::round(interior, at(weight, {at(u)}) / at(sum, {})));
               const std::string out = b.reduce("o", {d}, u, ReduceOp::dot, kChain, at(p, {at(u)}),
                                                ctx.read_state(kValues, cached));
               ctx.write(b, 0, {d}, {t, h, at(d)}, at(out, {at(d)}));
             });
           });
}

template <class T>
void reference(RefCall<T>& call) {
  const auto heads = static_cast<size_t>(extent(call.op, kQ, 1));
  const auto kv_heads = static_cast<size_t>(extent(call.op, kKeys, 2));
  const auto width = static_cast<size_t>(extent(call.op, kQ, 2));
  const auto page_size = static_cast<size_t>(extent(call.op, kKeys, 1));
  const DType interior = *dtype_named(call.op, "interior");
  const T scale = static_cast<T>(static_cast<float>(call.op.number("scale")));
  const auto& pages = *call.inputs[kPages];
  for (int64_t s = 0; s < pages.shape[0]; ++s) {
    const auto [first, last] = token_range(call, s);
    for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(last); ++t) {
      const size_t count = static_cast<size_t>(call.inputs[kPos]->ints[t]) + 1;
      for (size_t h = 0; h < heads; ++h) {
        const auto row = [&](size_t u) {
          const size_t entry = static_cast<size_t>(s * pages.shape[1]) + u / page_size;
          const auto page = static_cast<size_t>(std::max<int64_t>(pages.ints[entry], 0));
          return ((page * page_size + u % page_size) * kv_heads + h / (heads / kv_heads)) * width;
        };
        const T* q = call.inputs[kQ]->data.data() + (t * heads + h) * width;
        std::vector<T> p(count);
        T most = -std::numeric_limits<T>::infinity();
        for (size_t u = 0; u < count; ++u) {
          const T* k = call.inputs[kKeys]->data.data() + row(u);
          T dot = 0;
          for (size_t d = 0; d < width; ++d) dot += q[d] * k[d];
          p[u] = call.round_to(interior, call.round_to(interior, dot) * scale);
          most = std::max(most, p[u]);
        }
        T sum = 0;
        for (T& x : p) sum += x = std::exp(x - most);
        std::vector<T> out(width, T(0));
        for (size_t u = 0; u < count; ++u) {
          const T weight = call.round_to(interior, p[u] / sum);
          const T* v = call.inputs[kValues]->data.data() + row(u);
          for (size_t d = 0; d < width; ++d) out[d] += weight * v[d];
        }
        for (size_t d = 0; d < width; ++d) {
          call.outputs[0].data[(t * heads + h) * width + d] = call.round(0, out[d]);
        }
      }
    }
  }
}

}  // namespace

OpDef make_attention() {
  OpDef def;
  def.name = "attention";
  def.doc =
      "Causal attention over a paged cache: a token at position n - 1 sees positions 0 .. n - 1 of "
      "its sequence. s = q . k, rounded; s * scale, rounded; p = softmax(s) in f32, rounded; o = "
      "sum of p * v in f32. The three roundings are to `interior`. Query head h uses cache head h "
      "/ (nh / nkv), rounded down.";
  def.op_class = OpClass::kernel_like;
  def.operands = {with_prologue(floating("q", "[T, nh, D]")),
                  state("keys", "[pages, P, nkv, D], read only; holds this step's tokens already"),
                  state("values", "the type of keys"),
                  integers("pos", "i32[T], the position of each token in its sequence"),
                  integers("pages",
                           "i32[seqs, ceildiv(context, P)], the pages of each sequence; "
                           "-1: not assigned, read as 0"),
                  seq_start_operand()};
  def.results = {with_epilogue(result("o", "[T, nh, D]"))};
  def.attrs = {{"scale", "the factor of the scores, rounded to f32", 1.0, true},
               {"interior", "dtype to which scores and probabilities are rounded: f32, bf16 or f16",
                std::string("f32"), true},
               dtype_attr()};
  def.infer = infer;
  def.lower = lower;
  def.reference_f32 = reference<float>;
  def.reference_f64 = reference<double>;
  def.flops = [](const OpInstance& op) {
    // As if every token saw the whole context: an upper bound, as positions are not known.
    const auto& q = op.input(kQ).shape;
    return q[0] * q[1] * q[2] * context_extent(op, kPages, extent(op, kKeys, 1)) * 4;
  };
  const auto interior = [](DType dtype, double scale) {
    return Attrs{{"scale", scale}, {"interior", std::string(to_string(dtype))}};
  };
  def.cases = {{{bf16_of({6, 4, 10}), bf16_of({7, 4, 2, 10}), bf16_of({7, 4, 2, 10}), i32_of({6}),
                 i32_of({3, 3}), i32_of({4})},
                interior(DType::bf16, 0.25),
                {{}, {}, {}, {3, 8, 9, 0, 1, 2}, {5, -1, -1, 2, 0, 6, 1, -1, -1}, {0, 1, 3, 6}}},
               {{f32_of({3, 3, 24}), f32_of({5, 16, 1, 24}), f32_of({5, 16, 1, 24}), i32_of({3}),
                 i32_of({3, 2})},
                interior(DType::f32, 0.2),
                {{}, {}, {}, {31, 2, 0}, {3, 1, 4, -1, -1, -1}}},
               {{f32_of({2, 2, 4}), f32_of({3, 2, 2, 4}), f32_of({3, 2, 2, 4}), i32_of({2}),
                 i32_of({1, 3}), i32_of({2})},
                interior(DType::bf16, 0.5),
                {{}, {}, {}, {4, 5}, {2, 0, 1}, {0, 2}}}};
  return def;
}

}  // namespace gm
