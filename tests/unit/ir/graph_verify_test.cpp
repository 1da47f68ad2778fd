#include "ir/graph_verify.h"

#include <gtest/gtest.h>

#include <functional>

#include "ir/graph_text.h"
#include "tests/unit/ir/test_ops.h"

namespace gm {
namespace {

const TensorType kRow{DType::f32, {SymExpr::symbol("tokens"), 4}};
const TensorType kState{DType::f32, {2}};

class GraphVerify : public testing::Test {
 protected:
  GraphVerify() : graph(test_ops::table()) {
    graph.symbols.declare({"tokens", SymRole::tokens, 1, SymExpr(8), 1});
    x = graph.add_input("x", kRow);
    s = graph.add_state("s", kState);
  }

  // An op that no one has looked at; `results` as names and types.
  std::vector<ValueId> wild(std::string kind, std::vector<ValueId> inputs,
                            std::vector<std::pair<std::string, TensorType>> results,
                            std::string where = "layers.7", Attrs attrs = {}) {
    Op op;
    op.kind = std::move(kind);
    op.inputs = std::move(inputs);
    op.attrs = std::move(attrs);
    op.where = std::move(where);
    const OpDef* def = test_ops::table().find(op.kind);
    std::vector<Value> values;
    for (auto& [name, type] : results) {
      Value& value = values.emplace_back();
      value.name = std::move(name);
      value.type = std::move(type);
      const size_t i = values.size() - 1;
      value.is_state = def != nullptr && i < def->results.size() && def->results[i].state;
    }
    return graph.op(graph.add_op_unchecked(std::move(op), std::move(values))).outputs;
  }
  std::vector<ValueId> op(std::string_view kind, std::vector<ValueId> inputs, std::string where,
                          std::vector<std::string> names = {}) {
    return *graph.add_op(kind, std::move(inputs), {}, std::move(where), std::move(names));
  }

  void expect_fault(Code code, std::string_view place, std::string_view message) {
    const Result<> result = verify_graph(graph);
    ASSERT_FALSE(result) << print_graph(graph);
    EXPECT_EQ(code_name(result.error().code), code_name(code)) << result.error().to_string();
    EXPECT_EQ(result.error().location.to_string(), place) << result.error().to_string();
    EXPECT_EQ(result.error().message, message);
    diag = result.error();
  }

  Graph graph;
  ValueId x{}, s{};
  Diag diag{};
};

TEST_F(GraphVerify, AcceptsASoundGraph) {
  const auto read = op("peek", {s}, "a");
  const auto read_again = op("peek", {s}, "b");
  const auto first = op("advance", {x, s}, "c");
  const auto second = op("advance", {first[0], first[1]}, "d");
  graph.add_output("y", second[0]);
  graph.add_output("r", read[0]);
  graph.add_state_output("s", second[1]);
  const auto result = verify_graph(graph);
  EXPECT_TRUE(result) << result.error().to_string();
}

TEST_F(GraphVerify, AcceptsAnUntouchedStateAndDeadOps) {
  op("norm", {x}, "dead");
  graph.add_state_output("s", s);
  EXPECT_TRUE(verify_graph(graph));
}

TEST_F(GraphVerify, UnknownOp) {
  wild("nrom", {x}, {{"y", kRow}});
  expect_fault(Code::graph_op_unknown, "layers.7", "there is no op nrom");
  EXPECT_EQ(diag.fix, "the nearest op is norm");
  ASSERT_EQ(diag.notes.size(), 1u);
  EXPECT_EQ(diag.notes[0].message, "%y = nrom(%x) : f32[tokens, 4] @ \"layers.7\"");
}

TEST_F(GraphVerify, OperandCount) {
  wild("add", {x}, {{"y", kRow}});
  expect_fault(Code::graph_operand_count, "layers.7", "add takes 2 operands but has 1");
}

TEST_F(GraphVerify, OperandKind) {
  wild("embed", {x, x}, {{"y", kRow}});
  expect_fault(Code::graph_operand_kind, "layers.7",
               "operand ids of embed must be integers but is f32[tokens, 4]");
}

TEST_F(GraphVerify, Attributes) {
  wild("norm", {x}, {{"y", kRow}}, "layers.7", {{"eps", 1.0}});
  expect_fault(Code::graph_attribute_unknown, "layers.7", "norm has no attribute eps");
}

TEST_F(GraphVerify, AttributeType) {
  wild("scale", {x}, {{"y", kRow}}, "layers.7", {{"value", true}});
  expect_fault(Code::graph_attribute_type, "layers.7",
               "attribute value of scale must be a number but is a flag");
}

TEST_F(GraphVerify, AttributeMissing) {
  wild("scale", {x}, {{"y", kRow}});
  expect_fault(Code::graph_attribute_missing, "layers.7",
               "scale needs attribute value, which is missing");
}

TEST_F(GraphVerify, Inference) {
  const ValueId other = graph.add_input("other", kState);
  wild("add", {x, other}, {{"y", kRow}});
  expect_fault(Code::graph_inference, "layers.7", "add: the shapes differ");
}

TEST_F(GraphVerify, ResultType) {
  wild("norm", {x}, {{"y", {DType::bf16, kRow.shape}}});
  expect_fault(Code::graph_type, "layers.7",
               "%y is bf16[tokens, 4], but norm gives f32[tokens, 4]");
  EXPECT_EQ(diag.fix, "write f32[tokens, 4]");
}

TEST_F(GraphVerify, ResultCount) {
  wild("norm", {x}, {{"y", kRow}, {"z", kRow}});
  expect_fault(Code::graph_result_count, "layers.7", "norm has 1 results, but this one 2");
}

TEST_F(GraphVerify, Redefinition) {
  op("norm", {x}, "layers.1", {"y"});
  wild("norm", {x}, {{"y", kRow}});
  expect_fault(Code::graph_redefined, "layers.7", "value %y is defined twice");
  ASSERT_EQ(diag.notes.size(), 1u);
  EXPECT_EQ(diag.notes[0].location.to_string(), "layers.1");
}

TEST_F(GraphVerify, NamesThatTextCannotHold) {
  wild("norm", {x}, {{"y z", kRow}});
  expect_fault(Code::graph_redefined, "layers.7", "value 2 has the name \"y z\"");
}

TEST_F(GraphVerify, UseBeforeDefinition) {
  wild("norm", {ValueId{3}}, {{"y", kRow}});
  wild("norm", {x}, {{"z", kRow}}, "layers.8");
  expect_fault(Code::graph_undefined, "layers.7", "norm uses %z before it is defined");
  ASSERT_EQ(diag.notes.size(), 2u);
  EXPECT_EQ(diag.notes[1].location.to_string(), "layers.8");
}

TEST_F(GraphVerify, UseOfNothing) {
  wild("norm", {ValueId{99}}, {{"y", kRow}});
  expect_fault(Code::graph_undefined, "layers.7", "norm uses value 99, but there are only 3");
}

TEST_F(GraphVerify, OutputOfNothing) {
  graph.add_output("y", ValueId{99});
  expect_fault(Code::graph_undefined, "output y", "output y is value 99, but there are only 2");
}

TEST_F(GraphVerify, Cycle) {
  wild("norm", {x}, {{"w", kRow}}, "layers.6");
  wild("norm", {ValueId{4}}, {{"y", kRow}});
  wild("norm", {ValueId{3}}, {{"z", kRow}}, "layers.8");
  expect_fault(Code::graph_cycle, "layers.7", "2 ops depend on each other in a circle");
  ASSERT_EQ(diag.notes.size(), 2u);
  EXPECT_EQ(diag.notes[1].message, "%z = norm(%y) : f32[tokens, 4] @ \"layers.8\"");
}

TEST_F(GraphVerify, OpThatUsesItself) {
  wild("norm", {ValueId{2}}, {{"y", kRow}});
  expect_fault(Code::graph_cycle, "layers.7", "1 ops depend on each other in a circle");
}

TEST_F(GraphVerify, UndeclaredSymbol) {
  graph.add_input("y", {DType::f32, {SymExpr::symbol("tokns")}});
  expect_fault(Code::graph_symbol, "%y", "%y uses symbol tokns, which is not declared");
  EXPECT_EQ(diag.fix, "declare it; the nearest symbol is tokens");
}

TEST_F(GraphVerify, UndeclaredSymbolOfAContract) {
  Contract contract;
  contract.hi = SymExpr::symbol("slots");
  graph.add_input("y", {DType::i32, {4}}, contract);
  expect_fault(Code::graph_symbol, "%y", "%y uses symbol slots, which is not declared");
}

TEST_F(GraphVerify, StateWrittenTwice) {
  const auto first = op("advance", {x, s}, "layers.1");
  const auto second = op("advance", {x, s}, "layers.2");
  graph.add_state_output("s", second[1]);
  expect_fault(Code::graph_state_consumed, "layers.2",
               "advance writes %s, which advance has written before");
  ASSERT_EQ(diag.notes.size(), 2u);
  EXPECT_EQ(diag.notes[1].location.to_string(), "layers.1");
}

TEST_F(GraphVerify, StateReadAfterItsWrite) {
  const auto first = op("advance", {x, s}, "layers.1");
  op("peek", {s}, "layers.2");
  graph.add_state_output("s", first[1]);
  expect_fault(Code::graph_state_order, "layers.2", "peek reads %s after advance has written it");
  EXPECT_EQ(diag.fix, "read the later version, or move the op before the write");
}

TEST_F(GraphVerify, StateReadDuringItsWrite) {
  const auto first = op("peek_advance", {x, s, s}, "layers.1");
  graph.add_state_output("s", first[1]);
  expect_fault(Code::graph_state_order, "layers.1",
               "peek_advance reads %s by another operand while it writes it");
}

TEST_F(GraphVerify, StateThatDoesNotLeave) {
  expect_fault(Code::graph_state_output, "%s", "state s does not leave the graph");
}

TEST_F(GraphVerify, StateThatLeavesTwice) {
  graph.add_state_output("s", s);
  graph.add_state_output("s", s);
  expect_fault(Code::graph_state_output, "output s", "state s leaves the graph twice");
}

TEST_F(GraphVerify, StateThatLeavesInAnEarlierVersion) {
  op("advance", {x, s}, "layers.1");
  graph.add_state_output("s", s);
  expect_fault(Code::graph_state_output, "output s",
               "output state s is %s, but advance makes a later version of it");
}

TEST_F(GraphVerify, StateThatLeavesByAnotherName) {
  graph.add_state_output("t", s);
  expect_fault(Code::graph_state_output, "output t",
               "output state t is %s, which is a version of %s");
  EXPECT_EQ(diag.fix, "name it s");
}

TEST_F(GraphVerify, StateAsPlainOutput) {
  graph.add_output("y", s);
  expect_fault(Code::graph_state_output, "output y", "output y is not a state, but %s is one");
}

TEST_F(GraphVerify, StateForAPlainValue) {
  wild("norm", {s}, {{"y", kState}});
  expect_fault(Code::graph_state_operand, "layers.7",
               "operand x of norm must be a plain value, but %s is a state");
}

TEST_F(GraphVerify, PlainValueForAState) {
  wild("peek", {x}, {{"y", kRow}});
  expect_fault(Code::graph_state_operand, "layers.7",
               "operand s of peek must be a state, but %x is none");
}

TEST_F(GraphVerify, StateVersionOfAnotherType) {
  wild("grow", {x, s}, {{"y", kRow}, {"t", kRow}});
  expect_fault(Code::graph_state_operand, "layers.7",
               "%t is f32[tokens, 4], but it is the next version of %s, which is f32[2]");
}

TEST_F(GraphVerify, OutputNames) {
  graph.add_output("y", x);
  graph.add_output("y", x);
  expect_fault(Code::graph_output, "output y", "two outputs have the name y");
}

TEST_F(GraphVerify, OutputWithoutName) {
  graph.add_output("", x);
  expect_fault(Code::graph_output, "output ", "output %x has no name");
}

TEST_F(GraphVerify, OpFromNowhere) {
  wild("norm", {x}, {{"y", kRow}}, "");
  expect_fault(Code::graph_location, "%y", "norm does not say where it comes from");
}

TEST_F(GraphVerify, WeightSources) {
  const auto expect_weight = [this](TensorType type, WeightSource source,
                                    std::string_view message) {
    Graph fresh(test_ops::table());
    fresh.symbols = graph.symbols;
    fresh.add_weight("w", std::move(type), std::move(source));
    graph = fresh;
    if (message.empty()) {
      EXPECT_TRUE(verify_graph(graph)) << verify_graph(graph).error().to_string();
    } else {
      expect_fault(Code::graph_weight, "%w", message);
    }
  };
  const TensorType type{DType::f32, {4, 3}};
  expect_weight(type, {"t", {4, 1, 3}, -1, 0, 0, {}}, "");
  expect_weight(type, {"t", {8, 3}, 0, 4, 8, {}}, "");
  expect_weight({DType::f32, {2}}, {"", {}, -1, 0, 0, {1, 2}}, "");
  expect_weight({DType::f32, {}}, {"", {}, -1, 0, 0, {1}}, "");
  expect_weight(type, {"t.*", {3}, -1, 0, 0, {}, 4}, "");
  expect_weight(type, {"t", {8, 3}, -1, 0, 0, {}, 0, 2, {{3, 4}, {0, 1}}}, "");
  expect_weight(type, {"t", {3}, -1, 0, 0, {}, 4}, "weight %w is a series of 4 tensors named t");
  expect_weight(type, {"t.*.*", {3}, -1, 0, 0, {}, 4},
                "weight %w is a series of 4 tensors named t.*.*");
  expect_weight(type, {"t.*", {4, 3}, -1, 0, 0, {}},
                "weight %w is a series of 0 tensors named t.*");
  expect_weight(type, {"t.*", {3}, -1, 0, 0, {}, 5},
                "weight %w is f32[4, 3], but what is taken of t.* has the extents [5, 3]");
  expect_weight(type, {"t.*", {8, 3}, 0, 4, 8, {}, 1}, "weight %w is taken in two ways at once");
  expect_weight(type, {"t", {8, 3}, -1, 0, 0, {}, 0, 3, {{0, 2}}},
                "weight %w takes 1 ranges of 3 groups of the 8 rows of t");
  expect_weight(type, {"t", {8, 3}, -1, 0, 0, {}, 0, 2, {}},
                "weight %w takes 0 ranges of 2 groups of the 8 rows of t");
  expect_weight(type, {"t", {8, 3}, -1, 0, 0, {}, 0, 0, {{0, 2}}},
                "weight %w takes 1 ranges of 0 groups of the 8 rows of t");
  expect_weight(type, {"t", {8, 3}, -1, 0, 0, {}, 0, 2, {{3, 5}}},
                "weight %w takes rows [3, 5) of groups of 4 of t");
  expect_weight(type, {}, "weight %w has no source");
  expect_weight(kRow, {"t", {8, 4}, -1, 0, 0, {}},
                "weight %w has the extent tokens, but only constants are possible");
  expect_weight(type, {"t", {3, 4}, -1, 0, 0, {}},
                "weight %w is f32[4, 3], but what is taken of t has the extents [3, 4]");
  expect_weight(type, {"t", {8, 3}, 0, 5, 9, {}},
                "weight %w takes rows [5, 9) of axis 0, which t does not have");
  expect_weight(type, {"t", {8, 3}, 2, 0, 1, {}},
                "weight %w takes rows [0, 1) of axis 2, which t does not have");
  expect_weight(type, {"", {}, -1, 0, 0, {1, 2}}, "weight %w is f32[4, 3], but has 2 numbers");
  expect_weight({DType::f32, {0}}, {"", {}, -1, 0, 0, {1}},
                "weight %w is f32[0], but has 1 numbers");
}

TEST_F(GraphVerify, Contracts) {
  const auto expect_contract = [this](DType dtype, Contract contract, std::string_view message) {
    Graph fresh(test_ops::table());
    fresh.symbols = graph.symbols;
    fresh.add_input("c", {dtype, {4}}, contract);
    graph = fresh;
    if (message.empty()) {
      EXPECT_TRUE(verify_graph(graph)) << verify_graph(graph).error().to_string();
    } else {
      expect_fault(Code::graph_contract, "%c", message);
    }
  };
  const auto range = [](SymExpr lo, SymExpr hi) {
    Contract contract;
    contract.lo = std::move(lo);
    contract.hi = std::move(hi);
    return contract;
  };
  expect_contract(DType::i32, range(0, SymExpr::symbol("tokens")), "");
  expect_contract(DType::f32, range(0, 4), "the contract of %c is for i32, which the input is not");
  expect_contract(DType::i32, range(4, 4), "the contract of %c leaves no number: [4, 4)");
  Contract contract;
  contract.monotone = true;
  expect_contract(DType::i32, contract, "the contract of %c says monotone, but gives no total");
  contract.monotone = false;
  contract.total = SymExpr(3);
  expect_contract(DType::i32, contract,
                  "the contract of %c gives a total, but does not say monotone");
  contract = range(0, 4);
  contract.masked = true;
  expect_contract(DType::i32, contract,
                  "the contract of %c says masked, but allows no negative number");
}

TEST_F(GraphVerify, NegativeExtent) {
  graph.add_input("y", {DType::f32, {3, SymExpr::symbol("tokens") - 9}});
  expect_fault(Code::graph_extent, "%y",
               "%y is f32[3, tokens - 9], of which an extent is negative");
}

TEST_F(GraphVerify, FaultsOfTextAreAtTheirLine) {
  const auto parsed =
      parse_graph("graph @g {\n  input %x : f32[2]\n  %y = norm(%x) : bf16[2] @ \"layers.0\"\n}\n",
                  "g.gm", test_ops::table());
  ASSERT_TRUE(parsed) << parsed.error().to_string();
  graph = *parsed;
  expect_fault(Code::graph_type, "g.gm:3:3", "%y is bf16[2], but norm gives f32[2]");
}

}  // namespace
}  // namespace gm
