#include "ir/graph.h"

#include <gtest/gtest.h>

#include "ir/graph_text.h"
#include "tests/unit/ir/test_ops.h"

namespace gm {
namespace {

const TensorType kRow{DType::bf16, {SymExpr::symbol("tokens"), 4}};

TEST(Graph, BuildsAndReads) {
  Graph graph(test_ops::table());
  const ValueId x = graph.add_input("x", kRow);
  const ValueId s = graph.add_state("s", {DType::f32, {2}});
  const auto made = graph.add_op("advance", {x, s}, {}, "layers.0", {"y"});
  ASSERT_TRUE(made);
  ASSERT_EQ(made->size(), 2u);
  const auto twice = graph.add_op("add", {(*made)[0], (*made)[0]}, {}, "layers.1");
  ASSERT_TRUE(twice);
  graph.add_output("out", (*twice)[0]);
  graph.add_state_output("s", (*made)[1]);

  EXPECT_EQ(index_of((*made)[1]), 3u);
  EXPECT_EQ(graph.value((*made)[0]).name, "y");
  EXPECT_EQ(graph.value((*made)[1]).name, "v3");
  EXPECT_TRUE(graph.value((*made)[1]).is_state);
  EXPECT_FALSE(graph.value((*made)[0]).is_state);
  EXPECT_EQ(graph.value((*made)[1]).result_index, 1);
  EXPECT_EQ(graph.producer(x), nullptr);
  EXPECT_EQ(graph.producer((*made)[1])->kind, "advance");
  ASSERT_EQ(graph.users((*made)[0]).size(), 1u);
  EXPECT_EQ(graph.users((*made)[0])[0], OpId{1});
  EXPECT_EQ(graph.find_value("y"), (*made)[0]);
  EXPECT_EQ(graph.find_value("z"), std::nullopt);
  EXPECT_TRUE(graph.is_output((*made)[1]));
  EXPECT_FALSE(graph.is_output((*made)[0]));
  EXPECT_EQ(graph.op(OpId{0}).location.to_string(), "layers.0");
}

TEST(Graph, NamesAreMadeUpAroundGivenOnes) {
  Graph graph(test_ops::table());
  const ValueId x = graph.add_input("v1", kRow);
  EXPECT_EQ(graph.value((*graph.add_op("norm", {x}, {}, "a"))[0]).name, "v1_");
}

TEST(Graph, RefusesUnknownOpsAndWrongTypes) {
  Graph graph(test_ops::table());
  const ValueId x = graph.add_input("x", kRow);
  const auto unknown = graph.add_op("nomr", {x}, {}, "layers.0.norm");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::graph_op_unknown);
  EXPECT_EQ(unknown.error().message, "there is no op nomr");
  EXPECT_EQ(unknown.error().fix, "the nearest op is norm");
  EXPECT_EQ(unknown.error().location.to_string(), "layers.0.norm");
  const auto wrong = graph.add_op("add", {x}, {}, "layers.0.add");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().location.to_string(), "layers.0.add");
  EXPECT_TRUE(graph.ops().empty());
  EXPECT_TRUE(graph.users(x).empty());
}

TEST(Graph, ChecksItsBuilder) {
  Graph graph(test_ops::table());
  const ValueId x = graph.add_input("x", kRow);
  EXPECT_EXIT(graph.add_input("x", kRow), testing::ExitedWithCode(70), "value %x is there already");
  EXPECT_EXIT(graph.add_input("a b", kRow), testing::ExitedWithCode(70), "is no name of a value");
  EXPECT_EXIT((void)graph.value(ValueId{9}), testing::ExitedWithCode(70), "value 9 of 1");
  EXPECT_EXIT((void)graph.add_op("norm", {x}, {}, "", {"a", "b"}), testing::ExitedWithCode(70),
              "2 names for the 1 results of norm");
}

constexpr std::string_view kText = R"(graph @qwen35.mixed {
  symbol tokens : tokens in [1, 8192]
  symbol seqs : seqs in [1, min(64, tokens)]
  symbol slots : slots in [1, inf] multiple 4
  input %ids : i32[tokens] range [0, 1024)
  input %pos : i32[tokens] range [0, inf) consecutive
  input %start : i32[seqs + 1] range [0, tokens + 1) monotone total tokens
  input %slot : i32[seqs] range [-1, slots) distinct masked
  input %x : f32[]
  weight %embed : bf16[1024, 256] from "embed \"tokens\"" [1024, 256]
  weight %gate : bf16[4, 64, 256] from "gate_up" [4, 128, 256] rows axis 1 [0, 64)
  weight %down : bf16[4, 256, 64] from "experts.*.down" [256, 64] series 4
  weight %qkv : bf16[8, 256] from "qkvz" [12, 256] groups 2 [[0, 1), [2, 5)]
  weight %freq : f32[3] values [1.0, -0.5, 1e-30]
  state %layers.0.conv : bf16[slots, 3, 576]
  %h = embed(%embed, %ids) : bf16[tokens, 256] @ "embed_tokens"
  %0, %1 = advance(%h, %layers.0.conv) : bf16[tokens, 256], bf16[slots, 3, 576] @ "m\n"
  note(%0) @ "n"
  %2 = scale(%0) {dtype = "f32", exact = true, taps = [1, -2], times = -3, value = 1e-06, weights = [0.1, inf]} : f32[tokens, 256]
  output logits = %2
  output "0 x" = %2
  output state = %2
  output state layers.0.conv = %1
}
)";

TEST(GraphText, ReadsBackExactly) {
  const auto graph = parse_graph(kText, "g.gm", test_ops::table());
  ASSERT_TRUE(graph) << graph.error().to_string();
  EXPECT_EQ(print_graph(*graph), kText);
  EXPECT_EQ(graph->name, "qwen35.mixed");
  EXPECT_EQ(graph->symbols.find("slots")->multiple_of, 4);
  EXPECT_EQ(graph->symbols.find("slots")->hi, std::nullopt);
  const Value& start = graph->value(*graph->find_value("start"));
  ASSERT_TRUE(start.contract && start.contract->total);
  EXPECT_EQ(start.contract->total->to_string(), "tokens");
  EXPECT_TRUE(graph->value(*graph->find_value("slot")).contract->masked);
  const WeightSource& gate = *graph->value(*graph->find_value("gate")).source;
  EXPECT_EQ(gate.slice_axis, 1);
  EXPECT_EQ(gate.slice_end, 64);
  EXPECT_EQ(graph->value(*graph->find_value("down")).source->series, 4);
  const WeightSource& qkv = *graph->value(*graph->find_value("qkv")).source;
  EXPECT_EQ(qkv.groups, 2);
  EXPECT_EQ(qkv.ranges, (std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {2, 5}}));
  ASSERT_EQ(graph->ops().size(), 4u);
  const Op& scale = graph->ops()[3];
  EXPECT_EQ(std::get<double>(scale.attrs.at("value")), 1e-06);
  EXPECT_EQ(std::get<std::vector<double>>(scale.attrs.at("weights")).size(), 2u);
  EXPECT_EQ(scale.location.to_string(), "g.gm:19:3");
  EXPECT_EQ(graph->ops()[1].where, "m\n");
  EXPECT_TRUE(graph->value(*graph->find_value("1")).is_state);
  EXPECT_FALSE(graph->outputs()[2].is_state);
  EXPECT_EQ(graph->outputs()[2].name, "state");
  EXPECT_TRUE(graph->outputs()[3].is_state);
}

TEST(GraphText, KeepsIdsWhenValuesComeLate) {
  Graph graph(test_ops::table());
  graph.name = "late";
  graph.symbols.declare({"tokens", SymRole::tokens, 1, SymExpr(8), 1});
  const ValueId x = graph.add_input("x", kRow);
  const ValueId y = (*graph.add_op("norm", {x}, {}, "a"))[0];
  const ValueId w = graph.add_weight("w", kRow, {"t", {4}, -1, 0, 0, {}});
  ASSERT_TRUE(graph.add_op("norm", {y, w}, {}, "b"));
  const auto back = parse_graph(print_graph(graph), "", test_ops::table());
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->find_value("w"), w);
  EXPECT_EQ(print_graph(*back), print_graph(graph));
}

TEST(GraphText, DeclaredTypesDecideWhatANumberIs) {
  const auto graph = parse_graph(
      "graph @g { input %x : f32[2]\n"
      "%y = scale(%x) {value = 2, taps = [], weights = [1, 2]} : f32[2] @ \"a\" }",
      "g.gm", test_ops::table());
  ASSERT_TRUE(graph) << graph.error().to_string();
  const Attrs& attrs = graph->ops()[0].attrs;
  EXPECT_EQ(std::get<double>(attrs.at("value")), 2.0);
  EXPECT_EQ(std::get<std::vector<double>>(attrs.at("weights")), (std::vector<double>{1, 2}));
  EXPECT_TRUE(std::get<std::vector<int64_t>>(attrs.at("taps")).empty());
  // Defaults are not printed.
  EXPECT_EQ(print_op(*graph, OpId{0}),
            "%y = scale(%x) {value = 2.0, weights = [1.0, 2.0]} : f32[2] @ \"a\"");
}

struct Mistake {
  std::string body;  // after "graph @g {\n"
  Code code;
  std::string place;
  std::string message;
  std::string fix;
};

TEST(GraphText, LocatesMistakes) {
  const std::vector<Mistake> mistakes = {
      {"input %x : f32[2]\ninput %x : f32[2]\n}", Code::graph_text_redefined, "g.gm:3:7",
       "value %x is defined twice", "give it another name"},
      {"input %long : f32[2]\n%y = norm(%lung) : f32[2]\n}", Code::graph_text_undefined,
       "g.gm:3:11", "value %lung is not defined before it is used",
       "define it in a line before this one; the nearest name is %long"},
      {"%y = norm(%y) : f32[2]\n}", Code::graph_text_undefined, "g.gm:2:11",
       "value %y is not defined before it is used", "define it in a line before this one"},
      {"input %x : f32[2]\n%y = nurm(%x) : f32[2]\n}", Code::graph_op_unknown, "g.gm:3:6",
       "there is no op nurm", "the nearest op is norm"},
      {"input %x : bf17[2]\n}", Code::graph_text_dtype, "g.gm:2:12", "bf17 is no dtype of memory",
       "the nearest dtype is bf16"},
      {"input %x : pred[2]\n}", Code::graph_text_dtype, "g.gm:2:12", "pred is no dtype of memory",
       "the nearest dtype is f32"},
      {"symbol n : tokns in [1, 2]\n}", Code::graph_text_symbol, "g.gm:2:12",
       "tokns is no role of a symbol", "the nearest role is tokens"},
      {"symbol n : tokens in [3, 2]\n}", Code::graph_text_symbol, "g.gm:2:23",
       "the range of symbol n is empty: 2 is less than 3", "write the lower end first"},
      {"symbol n : tokens in [1, m]\n}", Code::graph_text_symbol, "g.gm:2:23",
       "symbol m is not declared", "declare it in a line before this one"},
      {"symbol min : tokens in [1, 2]\n}", Code::graph_text_symbol, "g.gm:2:8",
       "min is a function and cannot be a symbol", "give it another name"},
      {"symbol n : tokens in [1, 2] multiple 0\n}", Code::graph_text_symbol, "g.gm:2:38",
       "symbol n cannot be a multiple of 0", "write a positive number"},
      {"symbol n : tokens in [1, 2]\nsymbol n : tokens in [1, 2]\n}", Code::graph_text_redefined,
       "g.gm:3:8", "symbol n is declared twice", "give it another name"},
      {"input %x : f32[2]\n%y = scale(%x) {vale = 1.0} : f32[2]\n}", Code::graph_attribute_unknown,
       "g.gm:3:17", "scale has no attribute vale", "the nearest attribute is value"},
      {"input %x : f32[2]\n%y = scale(%x) {value = 1, value = 1} : f32[2]\n}",
       Code::graph_text_attribute, "g.gm:3:28", "attribute value is given twice",
       "keep one of them"},
      {"input %x : f32[2]\n%y = norm(%x) : f32[2], f32[2]\n}", Code::graph_text_results,
       "g.gm:3:15", "norm has 1 results but 2 types", "write one type for each result"},
      {"input %x : f32[2]\n%y = norm(%x)\n}", Code::graph_text_results, "g.gm:4:1",
       "norm has 1 results but 0 types", "write one type for each result"},
      {"weight %w : f32[2]\n}", Code::ir_syntax, "g.gm:3:1",
       "expected 'from' or 'values' but found '}'", "write 'from' or 'values' here"},
      {"weight %w : f32[2] from \"t\" [2] rows axis 4000000000 [0, 1)\n}", Code::ir_limit,
       "g.gm:2:43", "axis 4000000000 is not within [0, 64]",
       "write an axis of the stored tensor, from 0"},
      {"input %x : f32[2\n}", Code::ir_syntax, "g.gm:3:1", "expected ']' but found '}'",
       "write ']' here"},
      {"output x = %x\n", Code::graph_text_undefined, "g.gm:2:12",
       "value %x is not defined before it is used", "define it in a line before this one"},
      {"input %x : f32[2]\n", Code::ir_syntax, "g.gm:3:1",
       "expected a symbol, input, weight, state, op or output but found the end of the text",
       "write a symbol, input, weight, state, op or output here"},
      {"} graph", Code::ir_syntax, "g.gm:2:3", "expected the end of the text but found 'graph'",
       "write the end of the text here"},
      {"7\n}", Code::ir_syntax, "g.gm:2:1",
       "expected a symbol, input, weight, state, op or output but found '7'",
       "write a symbol, input, weight, state, op or output here"},
  };
  for (const Mistake& mistake : mistakes) {
    const auto graph = parse_graph("graph @g {\n" + mistake.body, "g.gm", test_ops::table());
    ASSERT_FALSE(graph) << mistake.body;
    EXPECT_EQ(graph.error().code, mistake.code) << mistake.body;
    EXPECT_EQ(graph.error().location.to_string(), mistake.place) << mistake.body;
    EXPECT_EQ(graph.error().message, mistake.message) << mistake.body;
    EXPECT_EQ(graph.error().fix, mistake.fix) << mistake.body;
  }
}

TEST(GraphText, RedefinitionsSayWhereTheFirstOneIs) {
  const auto graph =
      parse_graph("graph @g {\ninput %x : f32[2]\nstate %x : f32[2]\n}", "g.gm", test_ops::table());
  ASSERT_FALSE(graph);
  ASSERT_EQ(graph.error().notes.size(), 1u);
  EXPECT_EQ(graph.error().notes[0].location.to_string(), "g.gm:2:7");
}

TEST(GraphText, BoundsHostileExpressions) {
  const std::string deep(100000, '(');
  const auto nested =
      parse_graph("graph @g {\ninput %x : f32[" + deep + "\n}", "g.gm", test_ops::table());
  ASSERT_FALSE(nested);
  EXPECT_EQ(nested.error().code, Code::ir_limit);
  const auto huge =
      parse_graph("graph @g { input %x : f32[99999999999999999999] }", "g.gm", test_ops::table());
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, Code::ir_token);
  const auto product =
      parse_graph("graph @g {\n input %x : f32[4, 1000000000 * 1000000000 * 1000000000]\n}", "g.gm",
                  test_ops::table());
  ASSERT_FALSE(product);
  EXPECT_EQ(product.error().location.line, 2);
  EXPECT_FALSE(parse_graph("graph @g { input %x : f32[a b] }", "g.gm", test_ops::table()));
  EXPECT_FALSE(parse_graph("graph @g { input %x : f32[] range [, 1) }", "", test_ops::table()));
}

// Every prefix, and every text with one byte changed, is parsed or refused at a place.
TEST(GraphText, SurvivesDamage) {
  const std::string text(kText);
  for (size_t length = 0; length < text.size(); ++length) {
    const auto graph = parse_graph(text.substr(0, length), "g.gm", test_ops::table());
    EXPECT_EQ(graph.has_value(), length + 1 >= text.size()) << length;
    EXPECT_TRUE(graph || graph.error().location.line > 0) << length;
  }
  size_t accepted = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char c : {'(', ']', '"', '%', '9', '-', ' ', '\n', 'z', '\0'}) {
      std::string damaged = text;
      damaged[at] = c;
      const auto graph = parse_graph(damaged, "g.gm", test_ops::table());
      if (!graph) {
        EXPECT_GT(graph.error().location.line, 0) << graph.error().to_string();
        continue;
      }
      ++accepted;
      const std::string printed = print_graph(*graph);
      const auto again = parse_graph(printed, "g.gm", test_ops::table());
      ASSERT_TRUE(again) << printed << again.error().to_string();
      EXPECT_EQ(print_graph(*again), printed);
    }
  }
  EXPECT_GT(accepted, 100u);
}

}  // namespace
}  // namespace gm
