// Checkpoints with random weights: the layout of the files, and that a model made of them behaves.
#include "models/qwen35/synth.h"

#include <set>

#include "golden.h"
#include "models/qwen35/checkpoint.h"

namespace gm {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 60;

// The shards as the command writes them, filled in two unequal parts.
std::filesystem::path write_checkpoint(const std::string& name, const Qwen35Config& config,
                                       uint64_t seed, int64_t shard_bytes) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::create_directories(folder);
  const SynthCheckpoint checkpoint = synth_checkpoint(config, seed, shard_bytes);
  for (const SynthShard& shard : checkpoint.shards) {
    std::vector<std::byte> bytes(static_cast<size_t>(shard.bytes));
    std::memcpy(bytes.data(), shard.header.data(), shard.header.size());
    for (const SynthTensor& tensor : shard.tensors) {
      const int64_t width = size_bytes(tensor.dtype), half = tensor.bytes / width / 3;
      const std::span<std::byte> data(bytes.data() + tensor.offset,
                                      static_cast<size_t>(tensor.bytes));
      fill_synth(tensor, seed, half, data.subspan(static_cast<size_t>(half * width)));
      fill_synth(tensor, seed, 0, data.first(static_cast<size_t>(half * width)));
    }
    must(write_file_atomically(folder / shard.file, bytes));
  }
  must(write_file_atomically(folder / "model.safetensors.index.json", checkpoint.index));
  must(write_file_atomically(folder / "config.json", write_json(config_json(config))));
  return folder;
}

Qwen35Config small_moe() {
  Qwen35Config c = must(read_config(golden_folder("moe-tiny")));
  c.experts = 64;
  c.experts_per_token = 8;
  return c;
}

TEST(Synth, ConfigsReadBackAsTheyWere) {
  std::vector<Qwen35Config> configs;
  for (const std::string_view size : published_sizes()) configs.push_back(*published_config(size));
  for (const char* name : {"dense-tiny", "dense-odd", "moe-tiny"})
    configs.push_back(must(read_config(golden_folder(name))));
  configs.push_back(with_layers(*published_config("4b"), 7));
  configs.back().head_dim = 49;  // 49 * (6 / 49) falls short of 6
  configs.back().rotary_dims = 6;
  for (const Qwen35Config& c : configs) {
    const Json json = config_json(c);
    const Qwen35Config r = must(parse_config(JsonView(json, c.file)));
    EXPECT_EQ(
        std::tie(c.architecture, c.vocab, c.hidden, c.layer_kinds, c.eps, c.tied, c.max_position,
                 c.eos_id, c.heads, c.kv_heads, c.head_dim, c.rotary_dims, c.rope_theta),
        std::tie(r.architecture, r.vocab, r.hidden, r.layer_kinds, r.eps, r.tied, r.max_position,
                 r.eos_id, r.heads, r.kv_heads, r.head_dim, r.rotary_dims, r.rope_theta))
        << c.file;
    EXPECT_EQ(
        std::tie(c.key_heads, c.value_heads, c.key_dim, c.value_dim, c.conv_taps, c.intermediate,
                 c.experts, c.experts_per_token, c.expert_intermediate, c.shared_intermediate),
        std::tie(r.key_heads, r.value_heads, r.key_dim, r.value_dim, r.conv_taps, r.intermediate,
                 r.experts, r.experts_per_token, r.expert_intermediate, r.shared_intermediate))
        << c.file;
  }
}

TEST(Synth, LayersGoOnAsTheyBegan) {
  const Qwen35Config longer = with_layers(*published_config("0.8b"), 64);
  ASSERT_EQ(longer.layers(), 64);
  for (int64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(longer.layer_kinds[static_cast<size_t>(i)] == LayerKind::full_attention, i % 4 == 3);
  }
  EXPECT_EQ(with_layers(*published_config("0.8b"), 3).layers(), 3);
}

// Sizes that the published checkpoints have (text part alone).
TEST(Synth, PublishedSizesHaveThePublishedBytes) {
  for (const auto& [size, bytes, tensors] :
       {std::tuple{"0.8b", 2 * int64_t{752393024} + 2 * 2592, 320},
        std::tuple{"4b", 2 * int64_t{4205751296} + 2 * 3840, 426},
        std::tuple{"35b-a3b", 2 * int64_t{34660610688} + 2 * 4800, 693},
        std::tuple{"397b-a17b", 2 * int64_t{396346350336} + 2 * 8640, 1038}}) {
    const SynthCheckpoint c = synth_checkpoint(*published_config(size), 0, 4'000'000'000);
    const Json index = must(parse_json(c.index, "index"));
    EXPECT_EQ(index["metadata"]["total_size"].get<int64_t>(), bytes) << size;
    EXPECT_EQ(c.tensors, tensors) << size;
    for (const SynthShard& shard : c.shards) {
      if (shard.tensors.size() == 1) continue;
      EXPECT_LT(shard.bytes, 4'000'000'000 + (1 << 20)) << size;
    }
  }
}

TEST(Synth, WhatIsWrittenIsImported) {
  for (const char* name : {"dense-tiny", "dense-odd", "moe-tiny"}) {
    SCOPED_TRACE(name);
    const Qwen35Config config = must(read_config(golden_folder(name)));
    const auto folder =
        write_checkpoint(fmt::format("synth-{}", name), config, 5, int64_t{1} << 20);
    const SafeTensors tensors = must(SafeTensors::open_folder(folder));
    const Qwen35Config read = must(read_config(folder));
    EXPECT_EQ(must(match_checkpoint(read, tensors)), published_dtypes(config));
    std::set<std::string> files;
    for (const auto& [stored, tensor] : tensors.tensors()) files.insert(tensor.file);
    EXPECT_GT(files.size(), 2u);
    // In pieces or at once, in one shard or in several: the same values.
    for (const SynthShard& shard : synth_checkpoint(config, 5, kNoLimit).shards) {
      for (const SynthTensor& tensor : shard.tensors) {
        std::vector<std::byte> whole(static_cast<size_t>(tensor.bytes));
        fill_synth(tensor, 5, 0, whole);
        const std::string prefix = tensor.name == "lm_head.weight" ? "" : "model.language_model.";
        const StoredTensor* stored = tensors.find(prefix + tensor.name);
        ASSERT_NE(stored, nullptr) << tensor.name;
        ASSERT_EQ(std::memcmp(whole.data(), stored->data.data(), whole.size()), 0) << tensor.name;
      }
    }
  }
}

// The mean and deviation of a tensor's values, in its first 100000 elements.
std::pair<double, double> moments(const std::string& name, const std::vector<int64_t>& shape) {
  std::vector<float> values(100000);
  fill_random(0, random_stream(name), 0, synth_shape(name, shape), values);
  double sum = 0, squares = 0;
  for (const float v : values) sum += v, squares += v * v;
  const double n = static_cast<double>(values.size()), mean = sum / n;
  return {mean, std::sqrt(squares / n - mean * mean)};
}

TEST(Synth, EachUseHasItsScale) {
  const auto expect = [](const std::string& name, const std::vector<int64_t>& shape, double mean,
                         double deviation) {
    const auto [m, d] = moments("layers.3." + name, shape);
    EXPECT_NEAR(m, mean, 0.02 * deviation + 0.001 * std::abs(mean)) << name;
    EXPECT_NEAR(d, deviation, 0.02 * deviation) << name;
  };
  expect("embed_tokens.weight", {248320, 1024}, 0, 2 / 32.0);
  expect("mlp.up_proj.weight", {3584, 1024}, 0, 1 / 32.0);
  expect("mlp.experts.down_proj", {64, 1024, 256}, 0, 1 / 16.0);
  expect("linear_attn.conv1d.weight", {6144, 1, 4}, 0, 0.5);
  expect("linear_attn.A_log", {16}, 1.5, 0.7);
  expect("linear_attn.dt_bias", {16}, -4, 1.2);
  expect("linear_attn.norm.weight", {128}, 1, 0.1);
  expect("self_attn.k_norm.weight", {256}, 0.5, 0.1);
  expect("input_layernorm.weight", {1024}, 0, 0.1);
}

// Evaluates a prompt by the reference, in the model's roundings.
struct Evaluation {
  std::vector<RefTensor<float>> values;
  Graph graph;

  const RefTensor<float>& operator[](const std::string& name) const {
    return values[index_of(*graph.find_value(name))];
  }
};

Evaluation evaluate(const Qwen35Config& config, const std::vector<int64_t>& ids, uint64_t seed) {
  const GraphOptions options = {.activations = DType::bf16, .max_seqs = 1, .max_context = 128};
  Graph graph = must(build_model(config, published_dtypes(config), StepClass::mixed, options));
  std::map<std::string, RefTensor<float>, std::less<>> inputs;
  const auto tokens = static_cast<int64_t>(ids.size());
  const auto integers = [&](const char* name, std::vector<int64_t> values) {
    RefTensor<float> tensor;
    tensor.shape = {static_cast<int64_t>(values.size())};
    tensor.ints = std::move(values);
    inputs[name] = std::move(tensor);
  };
  std::vector<int64_t> positions, pages;
  for (int64_t i = 0; i < tokens; ++i) positions.push_back(i);
  for (int64_t i = 0; i < 8; ++i) pages.push_back(i);
  integers("ids", ids);
  integers("pos", positions);
  integers("seq_start", {0, tokens});
  integers("ctx", {0});
  integers("slot", {0});
  integers("pages", pages);
  integers("logit_row", positions);
  inputs["pages"].shape = {1, 8};

  std::map<std::string, std::vector<float>> stored;
  for (const SynthShard& shard : synth_checkpoint(config, seed, kNoLimit).shards) {
    for (const SynthTensor& tensor : shard.tensors) {
      std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes));
      fill_synth(tensor, seed, 0, bytes);
      const StoredTensor as_stored{.name = tensor.name,
                                   .dtype = tensor.dtype == DType::f32 ? "F32" : "BF16",
                                   .shape = tensor.shape,
                                   .file = {},
                                   .data = bytes};
      const std::vector<double> values = floats(as_stored);
      stored[tensor.name].assign(values.begin(), values.end());
    }
  }
  for (const Value& value : graph.values()) {
    RefTensor<float> tensor;
    int64_t count = 1;
    for (const SymExpr& extent : value.type.shape) {
      const std::string text = extent.to_string();
      if (value.kind != ValueKind::weight && value.kind != ValueKind::state) break;
      tensor.shape.push_back(text == "slots" ? 1 : text == "pages" ? 8 : *extent.constant());
      count *= tensor.shape.back();
    }
    if (value.kind == ValueKind::state) {
      tensor.data.assign(static_cast<size_t>(count), 0.0f);
      inputs[value.name] = std::move(tensor);
    } else if (value.kind == ValueKind::weight && !value.source->tensor.empty()) {
      const WeightSource& source = *value.source;
      const std::vector<float>& all = stored.at(source.tensor);
      if (source.slice_axis < 0) {
        tensor.data = all;
      } else {
        const auto& s = source.stored_shape;
        for (int64_t e = 0; e < s[0]; ++e) {
          const auto begin = all.begin() + (e * s[1] + source.slice_begin) * s[2];
          tensor.data.insert(tensor.data.end(), begin,
                             begin + (source.slice_end - source.slice_begin) * s[2]);
        }
      }
      inputs[value.name] = std::move(tensor);
    }
  }
  auto values = must(evaluate_graph<float>(
      graph, inputs,
      {{"tokens", tokens}, {"rows", tokens}, {"seqs", 1}, {"pages", 8}, {"slots", 1}}));
  return {std::move(values), std::move(graph)};
}

std::vector<int64_t> some_ids(int64_t vocab) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 64; ++i) ids.push_back((i * i * 37 + 11 * i + 5) % vocab);
  return ids;
}

TEST(SynthBehaviour, ExpertsSpreadLogitsDifferDecaysVary) {
  const Qwen35Config config = small_moe();
  const Evaluation e = evaluate(config, some_ids(config.vocab), 1);
  for (int64_t layer = 0; layer < config.layers(); ++layer) {
    const auto& chosen = e[fmt::format("layers.{}.mlp.expert", layer)].ints;
    ASSERT_EQ(chosen.size(), 64u * 8);
    std::map<int64_t, int> counts;
    for (const int64_t expert : chosen) ++counts[expert];
    EXPECT_GT(counts.size(), 48u) << "layer " << layer;
    for (const auto& [expert, count] : counts)
      EXPECT_LT(count, 48) << "expert " << expert << " of layer " << layer;
    if (layer % 4 == 3) continue;
    // Of the share that a token leaves of the state, some heads keep much and some little.
    const auto& g = e[fmt::format("layers.{}.linear_attn.g", layer)].data;
    for (const float decay : g) EXPECT_TRUE(decay <= 0 && decay > -60) << decay;
  }
  const auto& logits = e["logits"].data;
  double squares = 0;
  for (const float x : logits) {
    ASSERT_TRUE(std::isfinite(x));
    squares += x * x;
  }
  const double deviation = std::sqrt(squares / static_cast<double>(logits.size()));
  EXPECT_GT(deviation, 0.5);
  EXPECT_LT(deviation, 5);
  const auto& next = e["next"].ints;
  EXPECT_GT(std::set(next.begin(), next.end()).size(), 40u);  // of 64 positions
}

TEST(SynthBehaviour, DecaysSpreadOverHeads) {
  const Qwen35Config config = *published_config("35b-a3b");
  int brief = 0, medium = 0, lasting = 0;
  for (int64_t layer = 0; layer < config.layers(); ++layer) {
    const std::string prefix = fmt::format("layers.{}.linear_attn.", layer);
    std::vector<float> a(32), dt(32);
    fill_random(0, random_stream(prefix + "A_log"), 0, synth_shape(prefix + "A_log", {32}), a);
    fill_random(0, random_stream(prefix + "dt_bias"), 0, synth_shape(prefix + "dt_bias", {32}), dt);
    for (size_t i = 0; i < a.size(); ++i) {
      const double decay = std::exp(-std::exp(a[i]) * std::log1p(std::exp(dt[i])));
      (decay < 0.8 ? brief : decay < 0.98 ? medium : lasting)++;
    }
  }
  const int heads = brief + medium + lasting;
  EXPECT_GT(brief, heads / 20);
  EXPECT_GT(medium, heads / 4);
  EXPECT_GT(lasting, heads / 20);
}

}  // namespace
}  // namespace gm
