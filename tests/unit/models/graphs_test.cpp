// The form of the graphs: they hold what a graph must hold for published, golden and odd sizes, and
// read back from text.
#include <set>

#include "golden.h"
#include "ir/graph_text.h"
#include "ir/graph_verify.h"
#include "ops/ops.h"

namespace gm {
namespace {

void expect_sound(const Result<Graph>& graph) {
  ASSERT_TRUE(graph) << graph.error().to_string();
  const auto verified = verify_graph(*graph);
  EXPECT_TRUE(verified) << verified.error().to_string();
  const std::string text = print_graph(*graph);
  const auto again = parse_graph(text, "again.gm", builtin_ops());
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(print_graph(*again), text);
  EXPECT_TRUE(verify_graph(*again));
}

void expect_all_sound(const Qwen35Config& config, const WeightDtypes& dtypes) {
  for (const StepClass step : {StepClass::mixed, StepClass::decode}) {
    for (const DType act : {DType::bf16, DType::f32}) {
      const GraphOptions options = {.activations = act};
      expect_sound(build_model(config, dtypes, step, options));
      for (int64_t layer = 0; layer < std::min<int64_t>(config.layers(), 5); ++layer) {
        expect_sound(build_layer(config, dtypes, layer, step, options));
      }
    }
  }
}

TEST(Graphs, GoldenModelsAreSound) {
  for (const char* name : {"dense-tiny", "dense-odd", "moe-tiny"}) {
    const Golden golden(name);
    expect_all_sound(golden.config, golden.dtypes);
  }
}

Qwen35Config odd() {
  Qwen35Config c = *published_config("0.8b");
  c.vocab = 1009;
  c.hidden = 37;
  c.heads = 12;
  c.kv_heads = 2;
  c.head_dim = 22;
  c.rotary_dims = 6;
  c.key_heads = 3;
  c.value_heads = 9;
  c.key_dim = 5;
  c.value_dim = 7;
  c.intermediate = 41;
  c.layer_kinds = {LayerKind::full_attention, LayerKind::linear_attention,
                   LayerKind::full_attention};
  return c;
}

TEST(Graphs, OddSizesAreSound) {
  for (const int64_t taps : {2, 3, 5, 7}) {
    Qwen35Config c = odd();
    c.conv_taps = taps;
    expect_all_sound(c, published_dtypes(c));
  }
  for (const int64_t ratio : {1, 3, 4}) {
    Qwen35Config c = odd();
    c.value_heads = ratio * c.key_heads;
    expect_all_sound(c, published_dtypes(c));
  }
  for (const LayerKind kind : {LayerKind::full_attention, LayerKind::linear_attention}) {
    Qwen35Config c = odd();
    c.layer_kinds = {kind};
    expect_all_sound(c, published_dtypes(c));
  }
  Qwen35Config c = odd();  // every extent that may be 1
  c.hidden = c.heads = c.kv_heads = c.key_heads = c.value_heads = c.key_dim = c.value_dim = 1;
  c.intermediate = 1;
  expect_all_sound(c, published_dtypes(c));
  c.architecture = "qwen3_5_moe";
  c.experts = c.experts_per_token = c.expert_intermediate = c.shared_intermediate = 1;
  expect_all_sound(c, published_dtypes(c));
}

// What a graph loads is what the checkpoint must have: each tensor's elements once, however many
// slices are taken.
std::map<std::string, std::vector<int64_t>, std::less<>> loaded(const Graph& graph) {
  std::map<std::string, std::vector<int64_t>, std::less<>> tensors;
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::weight && !value.source->tensor.empty())
      tensors[value.source->tensor] = value.source->stored_shape;
  }
  return tensors;
}

TEST(Graphs, PublishedSizesHaveThePublishedCounts) {
  const std::map<std::string_view, int64_t> totals = {
      {"0.8b", 752'393'024},          {"2b", 1'881'825'088},         {"4b", 4'205'751'296},
      {"9b", 8'953'803'264},          {"27b", 26'895'998'464},       {"35b-a3b", 34'660'610'688},
      {"122b-a10b", 122'111'526'912}, {"397b-a17b", 396'346'350'336}};
  ASSERT_EQ(published_sizes().size(), totals.size());
  for (const std::string_view size : published_sizes()) {
    const Qwen35Config config = *published_config(size);
    const auto dtypes = published_dtypes(config);
    for (const StepClass step : {StepClass::mixed, StepClass::decode}) {
      const auto graph = build_model(config, dtypes, step, {});
      ASSERT_TRUE(graph) << graph.error().to_string();
      const auto verified = verify_graph(*graph);
      EXPECT_TRUE(verified) << verified.error().to_string();
      const auto tensors = loaded(*graph);
      EXPECT_EQ(tensors, model_tensors(config)) << size;
      int64_t count = 0;
      for (const auto& [name, shape] : tensors) {
        int64_t elements = 1;
        for (const int64_t extent : shape) elements *= extent;
        count += elements;
      }
      EXPECT_EQ(count, totals.at(size)) << size;
    }
  }
  EXPECT_FALSE(published_config("3b"));
}

TEST(Graphs, PublishedDtypes) {
  const auto count = [](std::string_view size) {
    const auto dtypes = published_dtypes(*published_config(size));
    return std::ranges::count_if(dtypes,
                                 [](const auto& entry) { return entry.second == DType::f32; });
  };
  EXPECT_EQ(count("0.8b"), 36);
  EXPECT_EQ(count("397b-a17b"), 90);
}

TEST(Graphs, OptionsShowInTheGraph) {
  const Golden golden("dense-tiny");
  const auto graph =
      must(build_model(golden.config, golden.dtypes, StepClass::decode,
                       {.max_context = 100, .valid_ids = {0, 7, 9, 12}, .hidden_outputs = true}));
  const std::string text = print_graph(graph);
  EXPECT_NE(text.find("output hidden.3 = "), std::string::npos) << text;
  EXPECT_NE(text.find("valid = [0, 7, 9, 12]"), std::string::npos);
  EXPECT_NE(text.find("%pages : i32[seqs, 7] range [-1, pages) distinct"), std::string::npos)
      << text.substr(0, 1500);
  EXPECT_EQ(text.find("seq_start"), std::string::npos);
  // The tied head is the embedding itself, not a second weight.
  EXPECT_EQ(text.find("weight %lm_head"), std::string::npos);
  // The norm's weight is stored in f32, so its product is not rounded.
  EXPECT_EQ(graph.value(*graph.find_value("layers.0.linear_attn.nw")).type.dtype, DType::f32);
  const Golden bf16("dense-odd");
  const auto other = must(build_model(bf16.config, bf16.dtypes, StepClass::decode, {}));
  EXPECT_EQ(other.value(*other.find_value("layers.0.linear_attn.nw")).type.dtype, DType::bf16);
}

}  // namespace
}  // namespace gm
