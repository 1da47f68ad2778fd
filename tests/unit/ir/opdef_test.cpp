#include "ir/opdef.h"

#include <gtest/gtest.h>

#include "tests/unit/ir/test_ops.h"

namespace gm {
namespace {

const TensorType kRow{DType::bf16, {SymExpr::symbol("tokens"), 4}};
const TensorType kIds{DType::i32, {SymExpr::symbol("tokens")}};
const Location kHere = Location::of_path("", "layers.0.x");

Result<std::vector<TensorType>> infer(std::string_view op, std::vector<TensorType> inputs,
                                      Attrs attrs = {}) {
  return infer_types(*test_ops::table().find(op), inputs, attrs, kHere);
}

TEST(OpTable, FindsByNameAndIsSorted) {
  const OpTable& table = test_ops::table();
  ASSERT_NE(table.find("scale"), nullptr);
  EXPECT_EQ(table.find("scale")->name, "scale");
  EXPECT_EQ(table.find("scal"), nullptr);
  EXPECT_EQ(table.find("zzz"), nullptr);
  const std::vector<std::string> names = table.names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(names.size(), table.defs().size());
}

TEST(OpTable, RefusesTwoOpsOfOneName) {
  OpDef def;
  def.name = "twice";
  EXPECT_EXIT(OpTable({def, def}), testing::ExitedWithCode(70), "op twice is declared twice");
}

TEST(OpInstance, ReadsGivenAttributesAndDefaults) {
  const OpDef& def = *test_ops::table().find("scale");
  const Attrs attrs = {{"value", 2.5}, {"taps", std::vector<int64_t>{1, 2}}};
  const std::vector<TensorType> inputs = {kRow};
  const OpInstance op(def, inputs, attrs);
  EXPECT_EQ(op.number("value"), 2.5);
  EXPECT_EQ(op.integers("taps"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(op.numbers("weights"), std::vector<double>{});
  EXPECT_EQ(op.text("dtype"), "");
  EXPECT_EQ(op.integer("times"), 1);
  EXPECT_FALSE(op.flag("exact"));
  EXPECT_EXIT(op.flag("value"), testing::ExitedWithCode(70), "attribute value of scale is a num");
  EXPECT_EXIT(op.flag("valu"), testing::ExitedWithCode(70), "scale declares no attribute valu");
}

TEST(InferTypes, GivesTheTypesOfTheResults) {
  const auto types = infer("scale", {kRow}, {{"value", 1.0}, {"dtype", std::string("f32")}});
  ASSERT_TRUE(types);
  EXPECT_EQ((*types)[0].to_string(), "f32[tokens, 4]");
  EXPECT_TRUE(infer("norm", {kRow}));
  EXPECT_TRUE(infer("norm", {kRow, kRow}));
}

TEST(InferTypes, ChecksTheNumberOfOperands) {
  const auto none = infer("norm", {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::graph_operand_count);
  EXPECT_EQ(none.error().message, "norm takes 1 to 2 operands but has 0");
  EXPECT_EQ(none.error().fix, "the operands are: x, w (optional)");
  EXPECT_EQ(none.error().location, kHere);
  const auto many = infer("add", {kRow, kRow, kRow});
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().message, "add takes 2 operands but has 3");
}

TEST(InferTypes, ChecksTheKindsOfOperands) {
  const auto ids = infer("embed", {kRow, kRow});
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code, Code::graph_operand_kind);
  EXPECT_EQ(ids.error().message, "operand ids of embed must be integers but is bf16[tokens, 4]");
  const auto x = infer("norm", {kIds});
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error().message,
            "operand x of norm must be floating-point numbers but is i32[tokens]");
}

TEST(InferTypes, ChecksAttributes) {
  const auto unknown = infer("scale", {kRow}, {{"valeu", 1.0}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::graph_attribute_unknown);
  EXPECT_EQ(unknown.error().message, "scale has no attribute valeu");
  EXPECT_EQ(unknown.error().fix, "the nearest attribute is value");
  const auto none = infer("norm", {kRow}, {{"eps", 1.0}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().fix, "norm has no attributes");
  const auto type = infer("scale", {kRow}, {{"value", int64_t{1}}});
  ASSERT_FALSE(type);
  EXPECT_EQ(type.error().code, Code::graph_attribute_type);
  EXPECT_EQ(type.error().message, "attribute value of scale must be a number but is an integer");
  const auto missing = infer("scale", {kRow});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::graph_attribute_missing);
  EXPECT_EQ(missing.error().message, "scale needs attribute value, which is missing");
  EXPECT_EQ(missing.error().fix, "value: the factor");
}

TEST(InferTypes, SaysWhyTypesDoNotGoTogether) {
  const auto types = infer("add", {kRow, {DType::bf16, {4}}});
  ASSERT_FALSE(types);
  EXPECT_EQ(types.error().code, Code::graph_inference);
  EXPECT_EQ(types.error().message, "add: the shapes differ");
  ASSERT_EQ(types.error().notes.size(), 2u);
  EXPECT_EQ(types.error().notes[1].message, "b is bf16[4]");
}

TEST(InferTypes, RefusesExtentsThatAreTooLarge) {
  const auto types = infer("power", {{DType::f32, {int64_t{1} << 62}}});
  ASSERT_FALSE(types);
  EXPECT_EQ(types.error().code, Code::graph_extent);
  EXPECT_EQ(types.error().message, "power: an extent of result y is too large");
}

TEST(BlockBuilder, NamesAreFresh) {
  BlockBuilder b;
  EXPECT_EQ(b.fresh("x_1"), "x_1");
  EXPECT_EQ(b.fresh("x"), "x");
  EXPECT_EQ(b.fresh("x"), "x_2");
  EXPECT_EQ(b.fresh("x"), "x_3");
  EXPECT_EQ(b.fresh("x_1"), "x_1_1");
}

TEST(BlockBuilder, NestsStatements) {
  BlockBuilder b;
  const Axis m = b.axis("m", 4);
  const std::string a = b.tile("a", {m}, Expr(1.0f));
  b.loop("t", Expr::index(0), Expr::index(8), [&](const SymExpr& t) {
    b.when(less(Expr::index(t), Expr::index(3)),
           [&] { b.update(a, {m}, {at(m)}, at(a, {at(m)}) + Expr(1.0f)); });
    const SymExpr p = b.let("p", 0, 9, Expr::load("pos", {Expr::index(t)}, ScalarType::index));
    b.store("y", {m}, {Expr::index(p), at(m)}, at(a, {at(m)}));
  });
  const Block block = b.take();
  ASSERT_EQ(block.size(), 2u);
  EXPECT_EQ(std::get<TileStmt>(block[0].node).tile, "a");
  const auto& loop = std::get<ForStmt>(block[1].node);
  EXPECT_EQ(loop.axis, "t");
  ASSERT_EQ(loop.body.size(), 3u);
  const auto& guard = std::get<IfStmt>(loop.body[0].node);
  ASSERT_EQ(guard.body.size(), 1u);
  EXPECT_EQ(std::get<UpdateStmt>(guard.body[0].node).tile, "a");
  EXPECT_EQ(std::get<LetStmt>(loop.body[1].node).name, "p");
  EXPECT_EQ(std::get<StoreStmt>(loop.body[2].node).buffer, "y");
  EXPECT_TRUE(b.take().empty());
}

TEST(BlockBuilder, ReducesAndChecksTheOperands) {
  BlockBuilder b;
  const Axis k = b.axis("k", 16);
  b.reduce("s", {}, k, ReduceOp::dot, {}, Expr(1.0f), Expr(2.0f));
  EXPECT_EXIT(b.reduce("s", {}, k, ReduceOp::sum, {}, Expr(1.0f), Expr(2.0f)),
              testing::ExitedWithCode(70), "a dot has two values");
  EXPECT_EXIT(b.when(equal(Expr(1.0f), Expr(1.0f)), [&] { b.take(); }), testing::ExitedWithCode(70),
              "taken inside of 1 open");
}

}  // namespace
}  // namespace gm
