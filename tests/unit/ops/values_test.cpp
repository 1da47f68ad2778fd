// Results that were worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/ops/cases.h"

namespace gm {
namespace {

using testing::ElementsAre;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Input {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<double> values;
};
Input floats(std::vector<int64_t> shape, std::vector<double> values) {
  return {DType::f32, std::move(shape), std::move(values)};
}
Input bf16s(std::vector<int64_t> shape, std::vector<double> values) {
  return {DType::bf16, std::move(shape), std::move(values)};
}
Input ints(std::vector<int64_t> shape, std::vector<double> values) {
  return {DType::i32, std::move(shape), std::move(values)};
}

Result<std::vector<RefTensor<float>>> try_evaluate(const char* op, const std::vector<Input>& inputs,
                                                   const Attrs& attrs = {}) {
  std::vector<TensorType> types;
  std::vector<RefTensor<float>> tensors;
  for (const Input& input : inputs) {
    types.push_back({input.dtype, {input.shape.begin(), input.shape.end()}});
    RefTensor<float> tensor{input.shape, {}, {}};
    for (double x : input.values) {
      if (is_float(input.dtype)) {
        tensor.data.push_back(static_cast<float>(x));
      } else {
        tensor.ints.push_back(static_cast<int64_t>(x));
      }
    }
    tensors.push_back(std::move(tensor));
  }
  std::vector<const RefTensor<float>*> pointers;
  for (const auto& tensor : tensors) pointers.push_back(&tensor);
  return evaluate_op<float>(*builtin_ops().find(op), types, attrs, pointers,
                            Location::of_path("", "here"));
}

std::vector<RefTensor<float>> evaluate(const char* op, const std::vector<Input>& inputs,
                                       const Attrs& attrs = {}) {
  auto result = try_evaluate(op, inputs, attrs);
  EXPECT_TRUE(result) << result.error().to_string();
  return *std::move(result);
}

TEST(Values, DeltaRuleOneStep) {
  // S = [[2, 0], [0, 4]] decays by 1/2 to [[1, 0], [0, 2]]; k = (1, 1): p = (1, 2); beta = 1/2, v =
  // (3, 0): d = (1, -1); S = [[2, -1], [1, 1]]; q = (1, 2): o = (4, 1).
  const auto out =
      evaluate("gated_delta_rule",
               {floats({1, 1, 2}, {1, 2}), floats({1, 1, 2}, {1, 1}), floats({1, 1, 2}, {3, 0}),
                floats({1, 1}, {std::log(0.5)}), floats({1, 1}, {0.5}),
                floats({1, 1, 2, 2}, {2, 0, 0, 4}), ints({1}, {5}), ints({1}, {0})});
  EXPECT_THAT(out[0].data, ElementsAre(4, 1));
  EXPECT_THAT(out[1].data, ElementsAre(2, -1, 1, 1));
}

TEST(Values, DeltaRuleLeavesMaskedSlotsAlone) {
  const auto out = evaluate(
      "gated_delta_rule",
      {floats({1, 1, 1}, {1}), floats({1, 1, 1}, {1}), floats({1, 1, 1}, {3}), floats({1, 1}, {0}),
       floats({1, 1}, {1}), floats({2, 1, 1, 1}, {7, 8}), ints({1}, {5}), ints({1}, {-1})});
  EXPECT_THAT(out[0].data, ElementsAre(3));  // from 0, and not from a state
  EXPECT_THAT(out[1].data, ElementsAre(7, 8));
}

TEST(Values, ConvolutionShiftsAShortChunk) {
  // One channel, four taps; history 1, 2, 3 and the input 10.
  const auto out =
      evaluate("causal_conv", {floats({1, 1}, {10}), floats({1, 4}, {1, 10, 100, 1000}),
                               floats({1, 3, 1}, {1, 2, 3}), ints({1}, {3}), ints({1}, {0})});
  EXPECT_THAT(out[0].data, ElementsAre(10321));
  EXPECT_THAT(out[1].data, ElementsAre(2, 3, 10));
}

TEST(Values, ConvolutionStartsFromZeros) {
  const auto out = evaluate("causal_conv", {floats({2, 1}, {10, 20}), floats({1, 3}, {1, 10, 100}),
                                            floats({1, 2, 1}, {7, 7}), ints({1}, {0}),
                                            ints({1}, {0}), ints({2}, {0, 2})});
  EXPECT_THAT(out[0].data, ElementsAre(1000, 2100));
  EXPECT_THAT(out[1].data, ElementsAre(10, 20));
}

TEST(Values, TopKTakesTheLowestOfEquals) {
  const auto out =
      evaluate("topk_route", {floats({2, 4}, {0.25, 0.25, 0.25, 0.25, 0.125, 0.5, 0.125, 0.25})},
               {{"k", int64_t{2}}});
  EXPECT_THAT(out[0].ints, ElementsAre(0, 1, 1, 3));
  EXPECT_THAT(out[1].data, ElementsAre(0.5F, 0.5F, 0.5F / 0.75F, 0.25F / 0.75F));
}

TEST(Values, ArgmaxRanges) {
  const Attrs valid = {{"valid", std::vector<int64_t>{1, 2, 3, 5}}};
  const auto best = [&](std::vector<double> row) {
    return evaluate("argmax", {floats({1, 6}, std::move(row))}, valid)[0].ints[0];
  };
  EXPECT_EQ(best({9, 1, 9, 2, 2, 9}), 3);
  EXPECT_EQ(best({9, -kInf, 9, -kInf, -kInf, 9}), 1);
  EXPECT_EQ(best({9, 5, kNan, 2, kNan, 9}), 4);
}

TEST(Values, RopeTurnsHalves) {
  const auto out = evaluate(
      "rope", {floats({1, 1, 5}, {1, 2, 3, 4, 5}), floats({1, 2}, {0, 1}), floats({1, 2}, {1, 0})},
      {{"interior", std::string("f32")}});
  EXPECT_THAT(out[0].data, ElementsAre(-3, 2, 1, 4, 5));
}

TEST(Values, RopeRoundsProducts) {
  // 1.0078125 * 1.0078125 = 1.01568603515625 rounds to 1.015625 in bf16.
  const auto out = evaluate(
      "rope", {floats({1, 1, 2}, {1.0078125, 0}), floats({1, 1}, {1.0078125}), floats({1, 1}, {0})},
      {{"interior", std::string("bf16")}});
  EXPECT_EQ(out[0].data[0], 1.015625F);
}

TEST(Values, AttentionSeesItsPagesOnly) {
  // Equal keys: the mean of the values at positions 0 .. 2, in pages 2 and 0 of two tokens.
  const auto out = evaluate(
      "attention",
      {floats({1, 1, 1}, {1}), floats({3, 2, 1, 1}, {1, 1, 1, 1, 1, 1}),
       floats({3, 2, 1, 1}, {30, 1000, 1000, 1000, 10, 20}), ints({1}, {2}), ints({1, 2}, {2, 0})},
      {{"scale", 1.0}, {"interior", std::string("f32")}});
  EXPECT_NEAR(out[0].data[0], 20.0, 1e-5);
}

TEST(Values, CacheAppendDropsUnassignedPages) {
  const auto out =
      evaluate("cache_append", {floats({2, 1, 1}, {5, 6}), floats({2, 2, 1, 1}, {1, 2, 3, 4}),
                                ints({2}, {1, 0}), ints({2, 1}, {1, -1})});
  EXPECT_THAT(out[0].data, ElementsAre(1, 2, 3, 5));
}

TEST(Values, ExpertSumRoundsAfterEachAddition) {
  // 256 + 1 is a tie in bf16 and falls back to 256, twice; summed first, it would be 258.
  const auto out = evaluate("expert_sum", {bf16s({1, 3, 1}, {256, 1, 1})});
  EXPECT_THAT(out[0].data, ElementsAre(256));
}

TEST(Values, GroupedLinearTakesTheNearestExpert) {
  const auto out = evaluate("grouped_linear", {floats({1, 1}, {1}), floats({2, 1, 1}, {3, 5}),
                                               ints({1, 4}, {-7, 0, 1, 2})});
  EXPECT_THAT(out[0].data, ElementsAre(3, 3, 5, 5));
}

TEST(Values, Norms) {
  const auto l2 = evaluate("l2_norm", {floats({1, 2}, {3, 4})}, {{"eps", 0.0}});
  EXPECT_FLOAT_EQ(l2[0].data[1], 0.8F);
  const auto rms = evaluate("rms_norm", {floats({1, 2}, {1, 7}), floats({2}, {0, 1})},
                            {{"eps", 0.0}, {"zero_centred", true}});
  EXPECT_FLOAT_EQ(rms[0].data[0], 0.2F);
  EXPECT_FLOAT_EQ(rms[0].data[1], 2.8F);
}

TEST(Values, ViewsAndConcat) {
  const auto merged = evaluate("merge_axes", {ints({2, 2}, {1, 2, 3, 4})}, {{"axis", int64_t{0}}});
  EXPECT_THAT(merged[0].ints, ElementsAre(1, 2, 3, 4));
  const auto joined = evaluate("concat", {floats({2, 1}, {1, 2}), floats({2, 2}, {3, 4, 5, 6})},
                               {{"axis", int64_t{1}}});
  EXPECT_THAT(joined[0].data, ElementsAre(1, 3, 4, 2, 5, 6));
  const auto cut = evaluate("slice", {floats({2, 3}, {1, 2, 3, 4, 5, 6})},
                            {{"axis", int64_t{1}}, {"begin", int64_t{1}}, {"end", int64_t{3}}});
  EXPECT_THAT(cut[0].data, ElementsAre(2, 3, 5, 6));
}

TEST(Values, SoftplusThreshold) {
  const auto out = evaluate("softplus", {floats({3}, {20, 21, 0})});
  EXPECT_THAT(out[0].data, ElementsAre(20, 21, std::log(2.0F)));
}

TEST(Values, HostileIntegersAreErrors) {
  const auto text = [](const char* op, const std::vector<Input>& inputs, const Attrs& attrs = {}) {
    const auto result = try_evaluate(op, inputs, attrs);
    EXPECT_FALSE(result);
    if (result) return std::string();
    EXPECT_EQ(result.error().code, Code::evaluate_index);
    EXPECT_EQ(result.error().location.path, "here");
    return result.error().message;
  };
  EXPECT_EQ(text("embedding", {floats({2, 1}, {1, 2}), ints({1}, {2})}),
            "embedding: index 2 is outside of the 2 elements of dimension 0 of operand 0");
  EXPECT_EQ(text("gather_rows", {floats({2, 1}, {1, 2}), ints({1}, {-1})}),
            "gather_rows: index -1 is outside of the 2 elements of dimension 0 of operand 0");
  EXPECT_EQ(text("cache_append", {floats({1, 1, 1}, {5}), floats({2, 2, 1, 1}, {1, 2, 3, 4}),
                                  ints({1}, {2}), ints({1, 1}, {1})}),
            "cache_append: operand pos: 2 is not within [0, 2)");
  EXPECT_EQ(text("causal_conv", {floats({1, 1}, {10}), floats({1, 2}, {1, 10}),
                                 floats({1, 1, 1}, {1}), ints({1}, {3}), ints({1}, {1})}),
            "causal_conv: operand state: 1 is not within [-1, 1)");
  EXPECT_EQ(
      text("causal_conv", {floats({1, 1}, {10}), floats({1, 2}, {1, 10}), floats({1, 1, 1}, {1}),
                           ints({1}, {3}), ints({1}, {0}), ints({2}, {0, 2})}),
      "causal_conv: operand seq_start: it does not ascend from 0 to the 1 tokens");
}

TEST(Graph, EvaluatesWithDimsAndContracts) {
  Graph graph(builtin_ops());
  graph.name = "g";
  const SymExpr tokens = SymExpr::symbol("tokens");
  graph.symbols.declare({"tokens", SymRole::tokens, 1, SymExpr(8), 1});
  const ValueId w = graph.add_weight("w", {DType::f32, {3, 2}}, {"w", {3, 2}});
  const ValueId ids =
      graph.add_input("ids", {DType::i32, {tokens}}, Contract{.lo = 0, .hi = SymExpr(3)});
  const ValueId x = graph.add_op("embedding", {w, ids}, {}, "embed").value()[0];
  const ValueId y = graph.add_op("add", {x, x}, {}, "twice").value()[0];
  graph.add_output("y", y);
  std::map<std::string, RefTensor<float>, std::less<>> inputs;
  inputs["w"] = {{3, 2}, {1, 2, 3, 4, 5, 6}, {}};
  inputs["ids"] = {{2}, {}, {2, 0}};
  const auto values = evaluate_graph<float>(graph, inputs, {{"tokens", 2}});
  ASSERT_TRUE(values) << values.error().to_string();
  EXPECT_THAT((*values)[index_of(y)].data, ElementsAre(10, 12, 2, 4));

  inputs["ids"].ints[0] = 3;
  const auto broken = evaluate_graph<float>(graph, inputs, {{"tokens", 2}});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message, "element 3 is not within [0, 3)");
  EXPECT_EQ(broken.error().location.path, "ids");
  const auto other = evaluate_graph<float>(graph, inputs, {{"tokens", 4}});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message,
            "ids must be i32[4], but a tensor of shape [2] with 0 floats and 2 integers is given");
  const auto no_dims = evaluate_graph<float>(graph, inputs, {});
  ASSERT_FALSE(no_dims);
  EXPECT_EQ(no_dims.error().message, "tokens has no value");
  inputs.erase("w");
  const auto missing = evaluate_graph<float>(graph, inputs, {{"tokens", 2}});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "no tensor is given for w");
}

}  // namespace
}  // namespace gm
