#include "models/qwen35/synth.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "models/qwen35/checkpoint.h"

namespace gm {
namespace {

constexpr std::string_view kPrefix = "model.language_model.";
constexpr double kBellVariance = 21845;  // of BellShape's B

// What tensors of one use are like. A deviation `by_width` is divided by the square root of the
// last extent, so that a product with a row of unit variance has about this deviation.
struct Use {
  std::string_view ending;
  double deviation;
  bool by_width;
  double mean;
};

// The first that fits. The norms but the delta net's multiply by 1 + w; those of queries and keys
// are larger, so that attention has something to choose. The decay of a step is
// exp(-exp(A_log) * softplus(a + dt_bias)): most heads remember for 5 to 500 tokens.
constexpr Use kUses[] = {
    {"embed_tokens.weight", 2.0, true, 0.0},  // also the head if it is tied
    {"lm_head.weight", 2.0, true, 0.0},
    {"linear_attn.A_log", 0.7, false, 1.5},
    {"linear_attn.dt_bias", 1.2, false, -4.0},
    {"linear_attn.norm.weight", 0.1, false, 1.0},
    {"q_norm.weight", 0.1, false, 0.5},
    {"k_norm.weight", 0.1, false, 0.5},
    {"norm.weight", 0.1, false, 0.0},  // of layers, and the last one
    {"", 1.0, true, 0.0},              // what rows are multiplied with
};

std::string_view stored_word(DType dtype) { return dtype == DType::f32 ? "F32" : "BF16"; }

std::string stored_name(const std::string& name) {
  return name == "lm_head.weight" ? name : std::string(kPrefix) + name;
}

// Fills in the header, the offsets and the size of a shard, of which the tensors are known. Wide
// elements come first, so that all are aligned.
void lay_out(SynthShard& shard, uint64_t seed) {
  std::ranges::stable_sort(shard.tensors, std::ranges::greater(),
                           [](const SynthTensor& tensor) { return size_bytes(tensor.dtype); });
  Json header = {
      {"__metadata__",
       {{"format", "pt"}, {"generator", "graphmill synth"}, {"seed", std::to_string(seed)}}}};
  int64_t at = 0;
  for (SynthTensor& tensor : shard.tensors) {
    tensor.offset = at;
    at += tensor.bytes;
    header[stored_name(tensor.name)] = {{"dtype", stored_word(tensor.dtype)},
                                        {"shape", tensor.shape},
                                        {"data_offsets", {tensor.offset, at}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins at a multiple of 8
  const uint64_t length = text.size();
  shard.header.resize(sizeof length);
  std::memcpy(shard.header.data(), &length, sizeof length);
  shard.header += text;
  for (SynthTensor& tensor : shard.tensors)
    tensor.offset += static_cast<int64_t>(shard.header.size());
  shard.bytes = at + static_cast<int64_t>(shard.header.size());
}

}  // namespace

BellShape synth_shape(std::string_view name, const std::vector<int64_t>& shape) {
  for (const Use& use : kUses) {
    if (!name.ends_with(use.ending)) continue;
    // Each operation is rounded correctly in f64, so other programs get the same step.
    const double width = use.by_width ? static_cast<double>(shape.back()) : 1.0;
    const auto step = static_cast<float>(use.deviation / std::sqrt(kBellVariance * width));
    return {step, static_cast<int32_t>(std::lround(use.mean / static_cast<double>(step)))};
  }
  GM_CHECK(false, "no use for {}", name);
}

SynthCheckpoint synth_checkpoint(const Qwen35Config& config, uint64_t seed, int64_t shard_bytes) {
  const WeightDtypes dtypes = published_dtypes(config);
  SynthCheckpoint result;
  int64_t held = 0, data_bytes = 0;
  for (auto& [name, shape] : model_tensors(config)) {
    SynthTensor tensor{.name = name,
                       .dtype = dtypes.at(name),
                       .shape = shape,
                       .bytes = size_bytes(dtypes.at(name)),
                       .stream = random_stream(name),
                       .values = synth_shape(name, shape)};
    for (const int64_t extent : shape) tensor.bytes *= extent;
    if (result.shards.empty() || held + tensor.bytes > shard_bytes) {
      result.shards.emplace_back();
      held = 0;
    }
    held += tensor.bytes;
    data_bytes += tensor.bytes;
    ++result.tensors;
    result.shards.back().tensors.push_back(std::move(tensor));
  }
  Json index = {{"metadata", {{"total_size", data_bytes}}}, {"weight_map", Json::object()}};
  for (size_t i = 0; i < result.shards.size(); ++i) {
    SynthShard& shard = result.shards[i];
    shard.file =
        fmt::format("model.safetensors-{:05}-of-{:05}.safetensors", i + 1, result.shards.size());
    lay_out(shard, seed);
    result.bytes += shard.bytes;
    for (const SynthTensor& tensor : shard.tensors)
      index["weight_map"][stored_name(tensor.name)] = shard.file;
  }
  result.index = write_json(index);
  return result;
}

void fill_synth(const SynthTensor& tensor, uint64_t seed, int64_t first, std::span<std::byte> out) {
  const auto begin = static_cast<uint64_t>(first);
  GM_CHECK(
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(out.data())) % size_bytes(tensor.dtype) == 0,
      "odd address");
  if (tensor.dtype == DType::f32) {
    fill_random(seed, tensor.stream, begin, tensor.values,
                {reinterpret_cast<float*>(out.data()), out.size() / sizeof(float)});
  } else {
    fill_random_bf16(seed, tensor.stream, begin, tensor.values,
                     {reinterpret_cast<uint16_t*>(out.data()), out.size() / sizeof(uint16_t)});
  }
}

Json config_json(const Qwen35Config& c) {
  Json kinds = Json::array();
  for (const LayerKind kind : c.layer_kinds)
    kinds.push_back(kind == LayerKind::full_attention ? "full_attention" : "linear_attention");
  // The reader truncates head_dim * factor, so the factor must not fall below the quotient.
  double factor = static_cast<double>(c.rotary_dims) / static_cast<double>(c.head_dim);
  if (static_cast<int64_t>(static_cast<double>(c.head_dim) * factor) < c.rotary_dims)
    factor = std::nextafter(factor, 2.0);
  Json rope = {
      {"rope_type", "default"}, {"rope_theta", c.rope_theta}, {"partial_rotary_factor", factor}};
  if (c.rotary_dims == 64) {  // for images and videos, which all published models read
    rope["mrope_interleaved"] = true;
    rope["mrope_section"] = {11, 11, 10};
  }
  Json text = {{"model_type", c.architecture + "_text"},
               {"vocab_size", c.vocab},
               {"hidden_size", c.hidden},
               {"num_hidden_layers", c.layers()},
               {"layer_types", std::move(kinds)},
               {"num_attention_heads", c.heads},
               {"num_key_value_heads", c.kv_heads},
               {"head_dim", c.head_dim},
               {"attn_output_gate", true},
               {"attention_bias", false},
               {"linear_num_key_heads", c.key_heads},
               {"linear_num_value_heads", c.value_heads},
               {"linear_key_head_dim", c.key_dim},
               {"linear_value_head_dim", c.value_dim},
               {"linear_conv_kernel_dim", c.conv_taps},
               {"mamba_ssm_dtype", "float32"},
               {"hidden_act", "silu"},
               {"rms_norm_eps", c.eps},
               {"max_position_embeddings", c.max_position},
               {"rope_parameters", std::move(rope)},
               {"tie_word_embeddings", c.tied},
               {"dtype", "bfloat16"}};
  if (c.is_moe()) {
    text["num_experts"] = c.experts;
    text["num_experts_per_tok"] = c.experts_per_token;
    text["moe_intermediate_size"] = c.expert_intermediate;
    text["shared_expert_intermediate_size"] = c.shared_intermediate;
  } else {
    text["intermediate_size"] = c.intermediate;
  }
  if (c.eos_id) text["eos_token_id"] = *c.eos_id;
  const std::string family = c.is_moe() ? "Qwen3_5Moe" : "Qwen3_5";
  return {{"architectures", {family + "ForConditionalGeneration"}},
          {"model_type", c.architecture},
          {"tie_word_embeddings", c.tied},
          {"dtype", "bfloat16"},
          {"text_config", std::move(text)}};
}

Qwen35Config with_layers(Qwen35Config config, int64_t layers) {
  const std::vector<LayerKind> kinds = config.layer_kinds;
  config.layer_kinds.clear();
  for (int64_t i = 0; i < layers; ++i)
    config.layer_kinds.push_back(kinds[static_cast<size_t>(i) % kinds.size()]);
  return config;
}

}  // namespace gm
