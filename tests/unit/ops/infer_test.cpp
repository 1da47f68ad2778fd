// Messages of inference, and symbolic shapes.
#include <gtest/gtest.h>

#include "ops/cost.h"
#include "ops/ops.h"

namespace gm {
namespace {

SymExpr sym(const char* name) { return SymExpr::symbol(name); }
TensorType typed(DType dtype, std::vector<SymExpr> shape) { return {dtype, std::move(shape)}; }
TensorType bf16(std::vector<SymExpr> shape) { return typed(DType::bf16, std::move(shape)); }
TensorType f32(std::vector<SymExpr> shape) { return typed(DType::f32, std::move(shape)); }
TensorType i32(std::vector<SymExpr> shape) { return typed(DType::i32, std::move(shape)); }

Result<std::vector<TensorType>> infer(const char* op, std::vector<TensorType> types,
                                      Attrs attrs = {}) {
  return infer_types(*builtin_ops().find(op), types, attrs, Location::of_path("", "layers.0"));
}

std::string message(const char* op, std::vector<TensorType> types, Attrs attrs = {}) {
  const auto result = infer(op, std::move(types), std::move(attrs));
  if (result) return "inferred " + result->front().to_string();
  EXPECT_EQ(result.error().location.path, "layers.0");
  EXPECT_EQ(result.error().code, Code::graph_inference);
  return result.error().message;
}

std::string first(const char* op, std::vector<TensorType> types, Attrs attrs = {}) {
  const auto result = infer(op, std::move(types), std::move(attrs));
  return result ? result->front().to_string() : result.error().to_string();
}

TEST(Infer, NamesBothExtents) {
  EXPECT_EQ(message("linear", {bf16({sym("tokens"), 256}), bf16({64, 128})}),
            "linear: operand w has 128 columns, x has 256");
  EXPECT_EQ(message("rms_norm", {bf16({3, 64}), bf16({sym("rows")})}, {{"eps", 1e-6}}),
            "rms_norm: operand w has rows columns, x has 64");
  EXPECT_EQ(message("add", {bf16({3, 4}), bf16({5, 4})}),
            "add: operand b has extent 5 in dimension 0, which does not broadcast to 3");
}

TEST(Infer, KeepsSymbols) {
  const SymExpr tokens = sym("tokens");
  EXPECT_EQ(first("linear", {bf16({tokens, 256}), bf16({64, 256})}), "bf16[tokens, 64]");
  EXPECT_EQ(first("add", {bf16({tokens, 8}), f32({8})}, {{"dtype", std::string("f32")}}),
            "f32[tokens, 8]");
  EXPECT_EQ(first("split_axis", {f32({tokens})},
                  {{"axis", int64_t{0}}, {"sizes", std::vector<int64_t>{-1, 1}}}),
            "f32[tokens, 1]");
  EXPECT_EQ(first("merge_axes", {bf16({tokens, 4, 32})}, {{"axis", int64_t{1}}}),
            "bf16[tokens, 128]");
  EXPECT_EQ(first("cast", {i32({tokens})}, {{"dtype", std::string("f32")}}), "f32[tokens]");
}

TEST(Infer, DecodeAndMixedSteps) {
  const SymExpr seqs = sym("seqs");
  const SymExpr tokens = sym("tokens");
  const auto conv = [&](const SymExpr& rows) {
    return std::vector{bf16({rows, 64}), bf16({64, 4}), bf16({sym("slots"), 3, 64}), i32({seqs}),
                       i32({seqs})};
  };
  EXPECT_EQ(first("causal_conv", conv(seqs)), "bf16[seqs, 64]");
  EXPECT_EQ(message("causal_conv", conv(tokens)),
            "causal_conv: operand x has tokens tokens (without seq_start: one a sequence), ctx has "
            "seqs");
  auto mixed = conv(tokens);
  mixed.push_back(i32({seqs + 1}));
  EXPECT_EQ(first("causal_conv", mixed), "bf16[tokens, 64]");
  mixed.back() = i32({seqs});
  EXPECT_EQ(message("causal_conv", mixed),
            "causal_conv: operand seq_start has seqs elements, seqs + 1 are needed");
}

TEST(Infer, Attributes) {
  EXPECT_EQ(message("add", {f32({1}), f32({1})}, {{"dtype", std::string("i32")}}),
            "add: attribute dtype is \"i32\": f32, bf16 or f16 is needed");
  EXPECT_EQ(message("slice", {f32({4})},
                    {{"axis", int64_t{0}}, {"begin", int64_t{2}}, {"end", int64_t{5}}}),
            "slice: the range [2, 5) is empty or not within [0, 4)");
  EXPECT_EQ(message("slice", {f32({4})},
                    {{"axis", int64_t{-1}}, {"begin", int64_t{0}}, {"end", int64_t{1}}}),
            "slice: axis -1 is outside of the 1 dimensions of operand x");
  EXPECT_EQ(message("topk_route", {f32({3, 4})}, {{"k", int64_t{5}}}),
            "topk_route: attribute k is 5, but there are 4 experts");
  EXPECT_EQ(message("argmax", {f32({3, 9})}, {{"valid", std::vector<int64_t>{0, 4, 3, 9}}}),
            "argmax: the valid range [3, 9) is empty, out of order or not within [0, 9)");
  EXPECT_EQ(message("split_axis", {f32({12})},
                    {{"axis", int64_t{0}}, {"sizes", std::vector<int64_t>{5, -1}}}),
            "split_axis: the axis has 12, which is not known to be a multiple of 5");
  const auto wide = std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_EQ(message("split_axis", {f32({12})}, {{"axis", int64_t{0}}, {"sizes", wide}}),
            "split_axis: size 1099511627776 is not within 1 and 2^40");
}

TEST(Infer, Heads) {
  const auto rope = [](int64_t angles) {
    return std::vector{f32({2, 1, 8}), f32({2, angles}), f32({2, angles})};
  };
  EXPECT_EQ(message("rope", rope(5), {{"interior", std::string("f32")}}),
            "rope: operand cos has 5 angles, but operand x only 8 columns to turn in pairs");
  EXPECT_EQ(first("rope", rope(4), {{"interior", std::string("f32")}}), "f32[2, 1, 8]");
  const SymExpr seqs = sym("seqs");
  const SymExpr pages = SymExpr::ceildiv(sym("context"), 16);
  const auto attention = [&](int64_t heads) {
    return std::vector{bf16({seqs, heads, 32}), bf16({sym("pages"), 16, 2, 32}),
                       bf16({sym("pages"), 16, 2, 32}), i32({seqs}), i32({seqs, pages})};
  };
  const Attrs attrs = {{"scale", 0.25}, {"interior", std::string("bf16")}};
  EXPECT_EQ(message("attention", attention(3), attrs),
            "attention: operand q has 3 heads, which is no multiple of the 2 of keys");
  EXPECT_EQ(first("attention", attention(4), attrs), "bf16[seqs, 4, 32]");
}

TEST(Cost, CountsBodiesAndContractions) {
  const auto flops = [](const char* name, std::vector<TensorType> types, Attrs attrs) {
    const OpDef& def = *builtin_ops().find(name);
    const auto results = infer_types(def, types, attrs, {}).value();
    return op_flops(OpInstance(def, types, attrs), results).to_string();
  };
  const SymExpr tokens = sym("tokens");
  EXPECT_EQ(flops("linear", {bf16({tokens, 8}), bf16({4, 8})}, {}), "64*tokens");
  EXPECT_EQ(flops("add", {bf16({tokens, 8}), bf16({8})}, {}), "8*tokens");
  EXPECT_EQ(flops("silu", {bf16({tokens})}, {}), "5*tokens");  // neg exp add div mul
  EXPECT_EQ(flops("slice", {f32({tokens, 8})},
                  {{"axis", int64_t{1}}, {"begin", int64_t{0}}, {"end", int64_t{4}}}),
            "0");
  // x * x and its sum; division, addition, 1/sqrt and the product.
  EXPECT_EQ(flops("rms_norm", {f32({tokens, 8})}, {{"eps", 1e-6}}), "48*tokens");
}

}  // namespace
}  // namespace gm
