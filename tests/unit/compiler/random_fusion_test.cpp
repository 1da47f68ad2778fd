// Random graphs: whatever the rules make of them passes every verifier, and the
// fused kernels give the bits of the unfused ones, in the arena that the memory plan lays out.
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "codegen/tile/interpreter.h"
#include "compiler/pipeline.h"
#include "ir/graph_text.h"
#include "ops/ops.h"

namespace gm {
namespace {

constexpr int64_t kWidth = 24;  // three heads of eight
constexpr int64_t kTokens = 5;

class Writer {
 public:
  explicit Writer(uint32_t seed) : random_(seed), graph_(builtin_ops()) {
    graph_.name = "random";
    graph_.symbols.declare({.name = "tokens", .role = SymRole::tokens, .lo = 1, .hi = SymExpr(8)});
    const SymExpr tokens = SymExpr::symbol("tokens");
    rows_.push_back(graph_.add_input("x", {DType::bf16, {tokens, kWidth}}));
    rows_.push_back(graph_.add_input("z", {DType::bf16, {tokens, kWidth}}));
    scale_ = weight("scale", {kWidth});
    angles_ = {graph_.add_input("cos", {DType::bf16, {tokens, 3}}),
               graph_.add_input("sin", {DType::bf16, {tokens, 3}})};
  }

  Graph write(int ops) {
    for (int i = 0; i < ops; ++i) step(i);
    for (size_t i = 0; i < outputs_; ++i) {
      if (rows_.size() > 2 + i)
        graph_.add_output(fmt::format("y{}", i), rows_[rows_.size() - 1 - i]);
    }
    return std::move(graph_);
  }

 private:
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  ValueId any() {
    // Recent values more often, so that chains get long.
    const int n = static_cast<int>(rows_.size());
    return rows_[static_cast<size_t>(std::max(pick(n), pick(n)))];
  }

  ValueId op(std::string_view kind, std::vector<ValueId> inputs, Attrs attrs = {}) {
    auto result = graph_.add_op(kind, std::move(inputs), std::move(attrs),
                                fmt::format("op{}", graph_.ops().size()));
    GM_CHECK(result.has_value(), "{}", result.error().to_string());
    return result->front();
  }

  void step(int i) {
    const Attrs f32 = {{"dtype", std::string("f32")}}, bf16 = {{"dtype", std::string("bf16")}};
    switch (pick(11)) {
      case 0:
        rows_.push_back(op("silu", {any()}, pick(2) ? f32 : bf16));
        break;
      case 1:
        rows_.push_back(op("add", {any(), any()}, pick(2) ? f32 : bf16));
        break;
      case 2:
        rows_.push_back(op("mul", {any(), any()}, bf16));
        break;
      case 3:
        rows_.push_back(op("mul", {any(), scale_}, bf16));
        break;
      case 4:
        rows_.push_back(op("rms_norm", {any()}, {{"eps", 1e-6}, {"dtype", std::string("bf16")}}));
        break;
      case 5: {  // a norm a head
        const ValueId heads = op("split_axis", {any()},
                                 {{"axis", int64_t{1}}, {"sizes", std::vector<int64_t>{3, 8}}});
        const ValueId norm = op("l2_norm", {heads}, {{"eps", 1e-6}, {"dtype", std::string("f32")}});
        rows_.push_back(op("merge_axes", {norm}, {{"axis", int64_t{1}}}));
        break;
      }
      case 6: {  // halves change places
        const ValueId x = any();
        const ValueId a =
            op("slice", {x}, {{"axis", int64_t{1}}, {"begin", int64_t{0}}, {"end", kWidth / 2}});
        const ValueId b =
            op("slice", {x}, {{"axis", int64_t{1}}, {"begin", kWidth / 2}, {"end", kWidth}});
        rows_.push_back(op("concat", {b, op("sigmoid", {a})}, {{"axis", int64_t{1}}}));
        break;
      }
      case 7:
        rotate();
        break;
      case 8:
        experts(fmt::format("moe{}", i));
        break;
      default: {
        const ValueId x = any();
        const int siblings = 1 + pick(3);
        for (int s = 0; s < siblings; ++s)
          rows_.push_back(
              op("linear", {x, weight(fmt::format("w{}_{}", i, s), {kWidth, kWidth})}, bf16));
      }
    }
  }

  ValueId weight(const std::string& name, const std::vector<int64_t>& shape) {
    TensorType type{DType::bf16, {shape.begin(), shape.end()}};
    return graph_.add_weight(name, std::move(type), {.tensor = name, .stored_shape = shape});
  }

  // One or two siblings with loops of their own.
  void rotate() {
    for (int n = 1 + pick(2); n > 0; --n) {
      const ValueId heads =
          op("split_axis", {any()}, {{"axis", int64_t{1}}, {"sizes", std::vector<int64_t>{3, 8}}});
      const ValueId turned =
          op("rope", {heads, angles_[0], angles_[1]}, {{"interior", std::string("bf16")}});
      rows_.push_back(op("merge_axes", {turned}, {{"axis", int64_t{1}}}));
    }
  }

  // A mixture of experts, or pieces of one: what the rules meet in between differs by graph.
  void experts(const std::string& name) {
    constexpr int64_t kExperts = 5, kChosen = 2;
    const Attrs bf16 = {{"dtype", std::string("bf16")}};
    const ValueId x = any();
    const ValueId router = op("linear", {x, weight(name + "_router", {kExperts, kWidth})}, bf16);
    const ValueId p = op("softmax", {router}, {{"dtype", std::string("f32")}});
    auto route = graph_.add_op("topk_route", {p}, {{"k", kChosen}, {"dtype", std::string("bf16")}},
                               name + "_route");
    GM_CHECK(route.has_value(), "{}", route.error().to_string());
    const std::vector<int64_t> shape = {kExperts, kWidth, kWidth};
    ValueId y = op("grouped_linear", {x, weight(name + "_gate", shape), (*route)[0]}, bf16);
    if (pick(2)) {
      const ValueId up = op("grouped_linear", {x, weight(name + "_up", shape), (*route)[0]}, bf16);
      y = op("mul", {op("silu", {y}, bf16), up}, bf16);
    }
    if (pick(2)) y = op("grouped_linear", {y, weight(name + "_down", shape), (*route)[0]}, bf16);
    if (pick(2)) {
      const ValueId column =
          op("split_axis", {(*route)[1]},
             {{"axis", int64_t{1}}, {"sizes", std::vector<int64_t>{kChosen, 1}}});
      y = op("mul", {y, column}, bf16);
    }
    const ValueId sum = op("expert_sum", {y});
    rows_.push_back(sum);
    if (pick(3) == 0) rows_.push_back(op("expert_sum", {op("silu", {y}, bf16)}));
    if (pick(2)) {
      const ValueId shared =
          op("linear", {any(), weight(name + "_shared", {kWidth, kWidth})}, bf16);
      rows_.push_back(op("add", {sum, pick(2) ? shared : op("silu", {shared}, bf16)}, bf16));
    }
  }

  std::mt19937 random_;
  Graph graph_;
  std::vector<ValueId> rows_;
  ValueId scale_{};
  std::vector<ValueId> angles_;
  size_t outputs_ = 2;
};

// Fills from the name, so that fused and unfused see the same numbers.
void fill(std::vector<std::byte>& bytes, DType dtype, std::string_view name) {
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string_view>{}(name)));
  std::normal_distribution<float> normal(0.0f, 1.0f);
  for (size_t i = 0; i < bytes.size() / static_cast<size_t>(size_bytes(dtype)); ++i) {
    const float value = normal(random);
    if (dtype == DType::bf16) {
      const uint16_t bits = f32_to_bf16(value);
      std::memcpy(bytes.data() + 2 * i, &bits, 2);
    } else {
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    }
  }
}

std::map<std::string, std::vector<std::byte>> execute(const Module& module) {
  const Unit& unit = module.units.front();
  const Program& program = *unit.program;
  std::vector<std::byte> arena(static_cast<size_t>(program.arena_bytes), std::byte{0xCB});
  std::map<std::string, std::vector<std::byte>> buffers;
  std::vector<void*> memory;
  for (const Slot& slot : program.slots) {
    int64_t bytes = size_bytes(slot.dtype);
    for (const SymExpr& extent : slot.shape) bytes *= *extent.evaluate({{"tokens", kTokens}});
    if (slot.kind == SlotKind::activation) {
      memory.push_back(arena.data() + slot.arena_offset);
      continue;
    }
    auto& buffer = buffers[slot.name];
    buffer.assign(static_cast<size_t>(bytes), std::byte{0xCB});
    if (slot.kind != SlotKind::output) fill(buffer, slot.dtype, slot.name);
    memory.push_back(buffer.data());
  }
  const int64_t dims[] = {kTokens};
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    const auto interpreter = TileInterpreter::create((*unit.kernels)[n].kernel, Checked::yes);
    GM_CHECK(interpreter.has_value(), "{}", interpreter.error().to_string());
    std::vector<void*> args;
    for (const NodeArg& arg : program.nodes[n].args) args.push_back(memory[arg.slot]);
    interpreter->run(dims, args, 0, interpreter->work_items(dims));
  }
  std::erase_if(buffers, [&](const auto& entry) { return !entry.first.starts_with("y"); });
  return buffers;
}

TEST(RandomFusion, FusedIsUnfused) {
  size_t unfused_kernels = 0, fused_kernels = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Module module;
    module.units.push_back(
        {"random", Writer(seed).write(3 + static_cast<int>(seed % 14)), {}, {}, {}});
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, print_graph(module.units[0].graph)));
    PipelineOptions off;
    off.skip = {"fuse"};
    const auto unfused = run_pipeline(module, off);
    ASSERT_TRUE(unfused) << unfused.error().to_string();
    const auto fused = run_pipeline(module, {});
    ASSERT_TRUE(fused) << fused.error().to_string();
    unfused_kernels += unfused->units[0].kernels->size();
    fused_kernels += fused->units[0].kernels->size();
    const auto a = execute(*unfused), b = execute(*fused);
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, bytes] : a)
      ASSERT_EQ(bytes, b.at(name)) << name << "\n" << print_module(*fused);
  }
  // The rules did something.
  EXPECT_LT(2 * fused_kernels, unfused_kernels * 3 / 2);
}

}  // namespace
}  // namespace gm
