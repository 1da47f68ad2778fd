// One answer, bit for bit, however it is computed.
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "ir/region.h"
#include "models.h"
#include "ops/ops.h"

namespace gm::golden {
namespace {

using Param = std::tuple<std::string, DType>;

class Identity : public testing::TestWithParam<Param> {
 protected:
  const std::string& model() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }

  std::vector<Request> requests(int64_t tokens = 6) const {
    std::vector<Request> result;
    for (std::vector<int32_t>& ids : prompts(model()))
      result.push_back({.ids = std::move(ids), .max_tokens = tokens, .ignore_stop = true});
    return result;
  }

  Outcome run(const How& how) const { return generate(model(), dtype(), requests(), how); }

  void expect_equal(const Outcome& a, const Outcome& b, const std::string& what) const {
    ASSERT_EQ(a.logits.size(), b.logits.size()) << what;
    for (size_t r = 0; r < a.logits.size(); ++r) {
      ASSERT_EQ(a.logits[r].size(), b.logits[r].size()) << what << ", request " << r;
      ASSERT_FALSE(a.logits[r].empty()) << what;
      EXPECT_EQ(
          std::memcmp(a.logits[r].data(), b.logits[r].data(), a.logits[r].size() * sizeof(float)),
          0)
          << what << ", request " << r;
      EXPECT_EQ(a.tokens[r], b.tokens[r]) << what << ", request " << r;
    }
  }
};

TEST_P(Identity, FusedIsUnfused) { expect_equal(run({}), run({.fusion = false}), "--fusion off"); }

TEST_P(Identity, EveryVectorWidth) {
  if (!__builtin_cpu_supports("x86-64-v4")) GTEST_SKIP() << "this CPU has no AVX-512";
  const Outcome v3 = run({});
  expect_equal(v3, run({.target = "cpu:v4"}), "cpu:v4");
  expect_equal(v3, run({.target = "cpu:v4", .fusion = false}), "cpu:v4 --fusion off");
}

TEST_P(Identity, NativeIsInterpreted) {
  expect_equal(run({}), run({.backend = Backend::interpreter, .threads = 2}), "interpreter");
}

TEST_P(Identity, ThreadsDoNotMatter) {
  const Outcome one = run({});
  for (int threads : {2, 3})
    expect_equal(one, run({.threads = threads}), fmt::format("{} threads", threads));
}

TEST_P(Identity, SplitsDoNotMatter) {
  const Outcome whole = run({});
  for (const std::vector<int64_t>& pieces : std::vector<std::vector<int64_t>>{
           {1}, {2}, {3}, {63}, {64}, {65}, {1, 2, 63}, {5, 1, 1, 40}}) {
    expect_equal(whole, run({.prefill_chunk = pieces}),
                 fmt::format("pieces from {}", pieces.front()));
  }
}

TEST_P(Identity, NeighboursDoNotMatter) {
  const Outcome alone = run({});
  expect_equal(alone, run({.batched = true}), "batched");
  // Prompts in pieces beside sequences that generate already.
  expect_equal(alone, run({.threads = 2, .prefill_chunk = {7, 64, 1}, .batched = true}),
               "batched, in pieces");
}

TEST_P(Identity, OldMemoryDoesNotMatter) {
  expect_equal(run({}), run({.poison = true}), "arena moved and poisoned");
  expect_equal(run({}), run({.fusion = false, .poison = true}),
               "arena moved and poisoned, --fusion off");
}

INSTANTIATE_TEST_SUITE_P(Goldens, Identity,
                         testing::Combine(testing::Values("dense-tiny", "dense-odd", "moe-tiny"),
                                          testing::Values(DType::bf16, DType::f32)),
                         [](const testing::TestParamInfo<Param>& test) {
                           std::string name = std::get<0>(test.param) + "_" +
                                              std::string(to_string(std::get<1>(test.param)));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Kernels whose label begins with the layer's name.
int64_t kernels_of_layer(const Program& program, int64_t layer) {
  return std::ranges::count_if(program.nodes, [&](const Node& node) {
    return node.label.starts_with(fmt::format("layers.{}.", layer));
  });
}

TEST(KernelCount, UnfusedHasOneForEachOp) {
  for (const char* model : {"dense-tiny", "dense-odd", "moe-tiny"}) {
    const auto compiled = plan(model, DType::bf16, false, "cpu:v3");
    for (const Program& program : compiled->programs) {
      const auto imported = import_checkpoint(folder(model));
      ASSERT_TRUE(imported);
      CompileOptions options;
      options.max_context = 512;
      const auto module = build_module(*imported, options);
      ASSERT_TRUE(module);
      for (const Unit& unit : module->units) {
        if (unit.name != program.name) continue;
        const auto ops = std::ranges::count_if(
            unit.graph.ops(), [&](const Op& op) { return !is_view(unit.graph, op); });
        EXPECT_EQ(static_cast<int64_t>(program.nodes.size()), ops) << model << " " << program.name;
      }
    }
  }
}

TEST(KernelCount, FusedLayersStayWithinTheirBudget) {
  struct Budget {
    const char* model;
    int64_t linear, full;
  };
  for (const Budget& budget :
       {Budget{"dense-tiny", 6, 7}, Budget{"dense-odd", 6, 7}, Budget{"moe-tiny", 7, 8}}) {
    const auto compiled = plan(budget.model, DType::bf16, true, "cpu:v3");
    for (const Program& program : compiled->programs) {
      for (int64_t layer = 0; layer < compiled->model.layers; ++layer) {
        const bool full =
            compiled->model.layer_types[static_cast<size_t>(layer)] == "full_attention";
        EXPECT_LE(kernels_of_layer(program, layer), full ? budget.full : budget.linear)
            << budget.model << " " << program.name << " layer " << layer;
        EXPECT_GE(kernels_of_layer(program, layer), 4);
      }
    }
  }
}

}  // namespace
}  // namespace gm::golden
