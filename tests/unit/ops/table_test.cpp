// What must hold of every op of the table, whatever it computes.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/graph_text.h"
#include "ops/cost.h"
#include "tests/unit/ops/cases.h"

namespace gm {
namespace {

class EveryOp : public testing::TestWithParam<const OpDef*> {
 protected:
  const OpDef& def() const { return *GetParam(); }
};

TEST_P(EveryOp, IsDocumented) {
  EXPECT_GE(def().doc.size(), 6U);
  EXPECT_EQ(def().doc.back(), '.');
  ASSERT_FALSE(def().operands.empty());
  ASSERT_FALSE(def().results.empty());
  for (const auto& operand : def().operands) EXPECT_FALSE(operand.doc.empty()) << operand.name;
  for (const auto& result : def().results) EXPECT_FALSE(result.doc.empty()) << result.name;
  for (const auto& attr : def().attrs) EXPECT_FALSE(attr.doc.empty()) << attr.name;
}

TEST_P(EveryOp, SaysHowItIsComputed) {
  const bool element = def().element != nullptr;
  const bool rows = def().row_element != nullptr;
  const bool products = def().a_index && def().w_index && def().extent_k;
  const bool kernel = def().lower && def().reference_f32 && def().reference_f64 && def().flops;
  const OpClass c = def().op_class;
  EXPECT_EQ(element, c == OpClass::pointwise || c == OpClass::view);
  EXPECT_EQ(rows, c == OpClass::row_reduction);
  EXPECT_EQ(rows, !def().reductions.empty());
  EXPECT_EQ(products, c == OpClass::contraction);
  EXPECT_EQ(kernel, c == OpClass::kernel_like);
}

TEST_P(EveryOp, HasCasesThatEvaluateAsInferred) {
  EXPECT_GE(def().cases.size(), 2U);
  bool has_f32 = false;
  bool has_bf16 = false;
  for (const OpDef::Case& c : def().cases) {
    for (const TensorType& type : c.inputs) {
      has_f32 |= type.dtype == DType::f32;
      has_bf16 |= type.dtype == DType::bf16;
    }
    const auto inputs = case_inputs<float>(def(), c, 1);
    const auto types = infer_types(def(), c.inputs, c.attrs, {});
    ASSERT_TRUE(types) << types.error().to_string();
    const auto outputs = evaluate_case(def(), c, inputs);
    ASSERT_TRUE(outputs) << outputs.error().to_string();
    ASSERT_EQ(outputs->size(), types->size());
    for (size_t i = 0; i < types->size(); ++i) {
      const RefTensor<float>& out = (*outputs)[i];
      EXPECT_EQ(out.shape, constant_shape((*types)[i]));
      for (float x : out.data) {
        ASSERT_TRUE(std::isfinite(x));
        ASSERT_EQ(x, round_to((*types)[i].dtype, x));
      }
    }
    const auto flops = op_flops(OpInstance(def(), c.inputs, c.attrs), *types).constant();
    ASSERT_TRUE(flops);
    EXPECT_GE(*flops, 0);
  }
  EXPECT_TRUE(has_f32);
  EXPECT_TRUE(has_bf16 || def().name == "topk_route");
}

// The difference that roundings to the results' and interiors' dtypes may make on these inputs.
TEST_P(EveryOp, ReferencesAgree) {
  for (const OpDef::Case& c : def().cases) {
    const auto narrow = evaluate_case(def(), c, case_inputs<float>(def(), c, 7));
    const auto wide = evaluate_case(def(), c, case_inputs<double>(def(), c, 7));
    ASSERT_TRUE(narrow && wide);
    const auto types = infer_types(def(), c.inputs, c.attrs, {}).value();
    const auto interior = c.attrs.find("interior");
    const bool coarse =
        interior != c.attrs.end() && std::get<std::string>(interior->second) == "bf16";
    for (size_t i = 0; i < types.size(); ++i) {
      EXPECT_EQ((*narrow)[i].ints, (*wide)[i].ints);
      const double step = coarse || types[i].dtype == DType::bf16 ? 0x1p-8 : 0x1p-21;
      double most = 1e-30;
      for (double x : (*wide)[i].data) most = std::max(most, std::abs(x));
      for (size_t k = 0; k < (*wide)[i].data.size(); ++k) {
        ASSERT_NEAR((*narrow)[i].data[k], (*wide)[i].data[k], 4 * step * most)
            << "result " << i << " element " << k;
      }
    }
  }
}

TEST_P(EveryOp, RoundTripsAsText) {
  for (const OpDef::Case& c : def().cases) {
    Graph graph(builtin_ops());
    graph.name = "one";
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const bool state = def().operands[i].kind == OperandDef::Kind::state;
      const std::string name = fmt::format("in{}", i);
      inputs.push_back(state ? graph.add_state(name, c.inputs[i])
                             : graph.add_input(name, c.inputs[i]));
    }
    const auto results = graph.add_op(def().name, inputs, c.attrs, "case");
    ASSERT_TRUE(results) << results.error().to_string();
    for (size_t i = 0; i < results->size(); ++i) {
      if (def().results[i].state) {
        graph.add_state_output(fmt::format("in{}", def().results[i].state_operand), (*results)[i]);
      } else {
        graph.add_output(fmt::format("out{}", i), (*results)[i]);
      }
    }
    const std::string text = print_graph(graph);
    const auto parsed = parse_graph(text, "one.gm", builtin_ops());
    ASSERT_TRUE(parsed) << parsed.error().to_string() << text;
    EXPECT_EQ(print_graph(*parsed), text);
  }
}

TEST_P(EveryOp, RefusesTooFewOperands) {
  const auto types = infer_types(def(), {}, {}, Location::of_path("", "here"));
  ASSERT_FALSE(types);
  EXPECT_EQ(types.error().code, Code::graph_operand_count);
  EXPECT_EQ(types.error().location.path, "here");
}

// A dimension more in front of any operand is either refused with a message, or broadcast or
// batched.
TEST_P(EveryOp, NeverCrashesOnOtherShapes) {
  for (const OpDef::Case& c : def().cases) {
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      for (int change = 0; change < 4; ++change) {
        auto types = c.inputs;
        auto& shape = types[i].shape;
        if (change == 0) shape.insert(shape.begin(), SymExpr(3));
        if (change == 1) shape.clear();
        if (change == 2) shape.back() = shape.back() + 1;
        if (change == 3) shape.back() = SymExpr::symbol("anything");
        const auto inferred = infer_types(def(), types, c.attrs, {});
        if (inferred) continue;
        EXPECT_GT(inferred.error().message.size(), def().name.size() + 10);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOp, testing::ValuesIn(all_ops()),
                         [](const auto& op) { return op.param->name; });

TEST(Table, HoldsEachFileOfDefs) {
  EXPECT_EQ(builtin_ops().defs().size(), 31U);
  for (const char* name : {"add", "attention", "causal_conv", "gated_delta_rule", "topk_route"}) {
    EXPECT_NE(builtin_ops().find(name), nullptr) << name;
  }
  EXPECT_EQ(builtin_ops().find("convolution"), nullptr);
}

}  // namespace
}  // namespace gm
