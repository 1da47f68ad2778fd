// Checkpoints: what is skipped, what is accepted, and every fault with its code, tensor and
// expectation.
#include "golden.h"

#include <fstream>

#include "tests/unit/base/temp_folder.h"

namespace gm {
namespace {

struct Entry {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using Entries = std::map<std::string, Entry>;

class CheckpointTest : public TempFolder {
 protected:
  CheckpointTest() {
    config = *published_config("0.8b");
    config.file = "config.json";
    config.vocab = 11;
    config.hidden = 6;
    config.heads = config.kv_heads = 1;
    config.head_dim = 4;
    config.rotary_dims = 2;
    config.key_heads = config.value_heads = 1;
    config.key_dim = config.value_dim = 2;
    config.intermediate = 5;
    config.layer_kinds = {LayerKind::linear_attention, LayerKind::full_attention};
  }

  void make_moe() {
    config.architecture = "qwen3_5_moe";
    config.experts = 3;
    config.experts_per_token = 2;
    config.expert_intermediate = config.shared_intermediate = 5;
  }

  // What the config asks for, in BF16, under the names of a multimodal wrapper.
  Entries sound() const {
    Entries entries;
    for (const auto& [name, shape] : model_tensors(config)) {
      const std::string full = name == "lm_head.weight" ? name : "model.language_model." + name;
      entries[full] = entry("BF16", shape);
    }
    return entries;
  }

  static Entry entry(const std::string& dtype, std::vector<int64_t> shape, char fill = 1) {
    int64_t bytes = *stored_dtype_bytes(dtype);
    for (const int64_t extent : shape) bytes *= extent;
    return {dtype, std::move(shape), std::string(static_cast<size_t>(bytes), fill)};
  }

  Result<WeightDtypes> match(const Entries& entries) {
    Json header = Json::object();
    std::string data;
    for (const auto& [name, e] : entries) {
      header[name] = {{"dtype", e.dtype},
                      {"shape", e.shape},
                      {"data_offsets", {data.size(), data.size() + e.bytes.size()}}};
      data += e.bytes;
    }
    const std::string text = header.dump();
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(text.size() >> (8 * i));
    file = write("model.safetensors", bytes + text + data);
    const auto checkpoint = must(SafeTensors::open_folder(folder));
    return match_checkpoint(config, checkpoint);
  }

  void expect_fault(const Entries& entries, Code code, const std::string& tensor,
                    const std::string& message) {
    const auto result = match(entries);
    ASSERT_FALSE(result) << message;
    const Diag& diag = result.error();
    EXPECT_EQ(diag.code, code) << diag.to_string();
    EXPECT_EQ(diag.location.to_string(), fmt::format("{}: {}", file.string(), tensor))
        << diag.to_string();
    EXPECT_NE(diag.message.find(message), std::string::npos) << diag.to_string();
    EXPECT_FALSE(diag.fix.empty());
  }

  Qwen35Config config;
  std::filesystem::path file;
};

const std::string kP = "model.language_model.";

TEST(CheckpointNames, Prefixes) {
  EXPECT_EQ(canonical_tensor_name("model.language_model.layers.0.mlp.gate.weight"),
            "layers.0.mlp.gate.weight");
  EXPECT_EQ(canonical_tensor_name("language_model.model.norm.weight"), "norm.weight");
  EXPECT_EQ(canonical_tensor_name("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(canonical_tensor_name("model.norm.weight"), "norm.weight");
  EXPECT_EQ(canonical_tensor_name("lm_head.weight"), "lm_head.weight");
  EXPECT_TRUE(is_skipped_tensor("model.visual.pos_embed.weight"));
  EXPECT_TRUE(is_skipped_tensor("visual.pos_embed.weight"));
  EXPECT_TRUE(is_skipped_tensor("mtp.layers.0.mlp.experts.7.up_proj.weight"));
  EXPECT_FALSE(is_skipped_tensor("model.language_model.visual.weight"));
  EXPECT_FALSE(is_skipped_tensor("model.norm.weight"));
}

TEST_F(CheckpointTest, AcceptsEachFloatDtypeAndSkipsByName) {
  Entries entries = sound();
  entries[kP + "norm.weight"] = entry("F16", {6});
  entries[kP + "layers.0.linear_attn.A_log"] = entry("F32", {1});
  entries["mtp.fc.weight"] = entry("BF16", {1});
  entries["mtp.layers.0.mlp.experts.7.up_proj.weight_scale"] = entry("U8", {1});
  entries["model.visual.blocks.0.norm1.bias"] = entry("F64", {1});
  const auto dtypes = match(entries);
  ASSERT_TRUE(dtypes) << dtypes.error().to_string();
  EXPECT_EQ(dtypes->size(), model_tensors(config).size());
  EXPECT_EQ(dtypes->at("norm.weight"), DType::f16);
  EXPECT_EQ(dtypes->at("layers.0.linear_attn.A_log"), DType::f32);
  EXPECT_EQ(dtypes->at("layers.1.self_attn.q_proj.weight"), DType::bf16);
}

TEST_F(CheckpointTest, MissingTensors) {
  Entries entries = sound();
  entries.erase(kP + "layers.1.self_attn.k_proj.weight");
  expect_fault(entries, Code::tensor_missing, kP + "layers.1.self_attn.k_proj.weight",
               "is missing; expected [4, 6] in BF16, F16 or F32");
  config.tied = false;
  entries = sound();
  entries.erase("lm_head.weight");
  expect_fault(entries, Code::tensor_missing, "lm_head.weight", "expected [11, 6]");
}

TEST_F(CheckpointTest, UnknownShapesAndDtypes) {
  const std::string bias = kP + "layers.1.self_attn.q_proj.bias", norm = kP + "norm.weight";
  Entries entries = sound();
  entries[bias] = entry("BF16", {8});
  expect_fault(entries, Code::tensor_unknown, bias, "is none of a qwen3_5 model of 2 layers");
  entries = sound();
  entries[kP + "layers.2.input_layernorm.weight"] = entry("BF16", {6});
  expect_fault(entries, Code::tensor_unknown, kP + "layers.2.input_layernorm.weight",
               "of 2 layers");
  entries = sound();
  entries["model.norm.weight"] = entry("BF16", {6});
  expect_fault(entries, Code::tensor_unknown, "model.norm.weight", "are the same one of the model");
  entries = sound();
  entries[norm] = entry("BF16", {7});
  expect_fault(entries, Code::tensor_shape, norm, "is [7]; expected [6] by config.json");
  entries[norm] = entry("BF16", {1, 6});
  expect_fault(entries, Code::tensor_shape, norm, "is [1, 6]; expected [6]");
  entries[norm] = entry("F64", {6});
  expect_fault(entries, Code::tensor_dtype, norm, "is stored as F64; expected BF16, F16 or F32");
}

TEST_F(CheckpointTest, QuantisedTensors) {
  const std::string up = kP + "layers.0.mlp.up_proj.";
  for (const char* dtype : {"I8", "U8", "F8_E4M3", "F8_E5M2", "I32", "U32"}) {
    Entries entries = sound();
    entries[up + "weight"] = entry(dtype, {5, 6});
    expect_fault(entries, Code::tensor_quantised, up + "weight", fmt::format("({})", dtype));
  }
  for (const char* name : {"qweight", "weight_scale", "weight_scale_inv", "qzeros", "scales",
                           "weight_packed", "g_idx", "biases"}) {
    Entries entries = sound();
    entries[up + name] = entry("F32", {1});
    expect_fault(entries, Code::tensor_quantised, up + name, "is part of a quantised checkpoint");
  }
}

TEST_F(CheckpointTest, OtherLayouts) {
  const std::string conv = kP + "layers.0.linear_attn.conv1d.weight";
  Entries entries = sound();
  entries[conv] = entry("BF16", {6, 4, 1});
  expect_fault(entries, Code::tensor_layout, conv, "is [6, 4, 1], as MLX stores it");
  // A quantised one is MLX's before it is quantised.
  entries[kP + "layers.0.linear_attn.in_proj_a.scales"] = entry("BF16", {1, 1});
  expect_fault(entries, Code::tensor_layout, conv, "checkpoints that MLX has converted");
  entries = sound();
  const std::string stacked = kP + "layers.1.mlp.switch_mlp.up_proj.weight";
  entries[stacked] = entry("BF16", {3, 5, 6});
  expect_fault(entries, Code::tensor_layout, stacked, "checkpoints that MLX has converted");
  // A model of the family's later form does not say in which order its rows would be.
  entries = sound();
  const std::string fused = kP + "layers.0.linear_attn.in_proj_qkvz.weight";
  entries[fused] = entry("BF16", {8, 6});
  expect_fault(entries, Code::tensor_layout, fused,
               "that only qwen3_next defines; a qwen3_5 model");
}

TEST_F(CheckpointTest, ExpertsOneByOne) {
  make_moe();
  const std::string mlp = kP + "layers.1.mlp.experts.";
  const auto apart = [&] {
    Entries entries = sound();
    EXPECT_EQ(entries.erase(mlp + "gate_up_proj") + entries.erase(mlp + "down_proj"), 2u);
    for (const char* e : {"0", "1", "2"}) {
      entries[mlp + e + ".gate_proj.weight"] = entry("BF16", {5, 6});
      entries[mlp + e + ".up_proj.weight"] = entry("BF16", {5, 6});
      entries[mlp + e + ".down_proj.weight"] = entry("BF16", {6, 5});
    }
    return entries;
  };
  Entries entries = apart();
  const auto dtypes = match(entries);
  ASSERT_TRUE(dtypes) << dtypes.error().to_string();
  EXPECT_TRUE(dtypes->contains("layers.0.mlp.experts.gate_up_proj"));
  EXPECT_FALSE(dtypes->contains("layers.1.mlp.experts.gate_up_proj"));
  EXPECT_TRUE(dtypes->contains("layers.1.mlp.experts.2.down_proj.weight"));

  entries.erase(mlp + "2.up_proj.weight");
  expect_fault(entries, Code::tensor_missing, mlp + "2.up_proj.weight", "expected [5, 6]");
  entries = apart();
  entries[mlp + "3.up_proj.weight"] = entry("BF16", {5, 6});
  expect_fault(entries, Code::tensor_unknown, mlp + "3.up_proj.weight", "is none of");
  entries = apart();
  entries[mlp + "1.down_proj.weight"] = entry("BF16", {5, 6});
  expect_fault(entries, Code::tensor_shape, mlp + "1.down_proj.weight", "expected [6, 5]");
  entries = apart();
  entries[mlp + "1.down_proj.weight"] = entry("F16", {6, 5});
  expect_fault(entries, Code::tensor_dtype, mlp + "1.down_proj.weight",
               "is stored as F16, but that of expert 0 as BF16");
  // Both forms at once: the second is one too many.
  entries = apart();
  entries[mlp + "down_proj"] = entry("BF16", {3, 6, 5});
  expect_fault(entries, Code::tensor_unknown, mlp + "0.down_proj.weight", "is none of");
}

TEST_F(CheckpointTest, FusedProjections) {
  config.architecture = "qwen3_next";
  const std::string gdn = kP + "layers.0.linear_attn.";
  Entries entries = sound();
  ASSERT_TRUE(match(entries));  // taken apart already
  for (const char* name : {"in_proj_qkv.weight", "in_proj_z.weight", "in_proj_b.weight"})
    EXPECT_EQ(entries.erase(gdn + name), 1u);
  entries[gdn + "in_proj_qkvz.weight"] = entry("BF16", {8, 6});
  entries[gdn + "in_proj_ba.weight"] = entry("BF16", {2, 6});
  // A tensor of the other form as well.
  expect_fault(entries, Code::tensor_unknown, gdn + "in_proj_a.weight", "is none of a qwen3_next");
  entries.erase(gdn + "in_proj_a.weight");
  const auto dtypes = match(entries);
  ASSERT_TRUE(dtypes) << dtypes.error().to_string();
  EXPECT_TRUE(dtypes->contains("layers.0.linear_attn.in_proj_ba.weight"));
  EXPECT_FALSE(dtypes->contains("layers.0.linear_attn.in_proj_b.weight"));
  entries[gdn + "in_proj_qkvz.weight"] = entry("BF16", {6, 6});
  expect_fault(entries, Code::tensor_shape, gdn + "in_proj_qkvz.weight", "expected [8, 6]");
  entries.erase(gdn + "in_proj_qkvz.weight");
  expect_fault(entries, Code::tensor_missing, gdn + "in_proj_qkv.weight", "expected [6, 6]");
}

TEST_F(CheckpointTest, TiedHeads) {
  Entries entries = sound();
  entries["lm_head.weight"] = entries[kP + "embed_tokens.weight"];
  const auto dtypes = match(entries);
  ASSERT_TRUE(dtypes) << dtypes.error().to_string();
  EXPECT_FALSE(dtypes->contains("lm_head.weight"));
  entries["lm_head.weight"].bytes.back() ^= 1;
  expect_fault(entries, Code::tensor_tied, "lm_head.weight", "differs from the embedding");
  entries["lm_head.weight"] = entry("BF16", {10, 6});
  expect_fault(entries, Code::tensor_tied, "lm_head.weight", "differs from the embedding");
}

// The fault is in the folder, not in the shard that happens to come last.
TEST(Checkpoint, MissingFromShards) {
  const Golden golden("moe-tiny");
  Qwen35Config config = golden.config;
  config.layer_kinds.push_back(LayerKind::linear_attention);
  const auto result = match_checkpoint(config, golden.checkpoint);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::tensor_missing);
  EXPECT_EQ(result.error().location.file, golden_folder("moe-tiny").string());
  EXPECT_EQ(result.error().location.path, "model.language_model.layers.4.input_layernorm.weight");
}

}  // namespace
}  // namespace gm
