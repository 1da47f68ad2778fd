// config.json: both nestings, both ways to say which layers attend, and every fault with its code,
// place and fix.
#include "golden.h"

#include "base/mapped_file.h"

namespace gm {
namespace {

Json golden_json(const std::string& name) {
  return must(read_json(golden_folder(name) / "config.json"));
}

Result<Qwen35Config> parse(const Json& json) { return parse_config(JsonView(json, "config.json")); }

TEST(Config, Nested) {
  const auto c = must(parse(golden_json("moe-tiny")));
  EXPECT_EQ(c.architecture, "qwen3_5_moe");
  EXPECT_EQ(c.file, "config.json");
  EXPECT_EQ(c.hidden, 128);
  EXPECT_EQ(c.layers(), 4);
  EXPECT_EQ(c.layer_kinds[3], LayerKind::full_attention);
  EXPECT_EQ(c.rotary_dims, 64);
  EXPECT_EQ(c.rope_theta, 1e7);
  EXPECT_EQ(c.experts, 16);
  EXPECT_EQ(c.experts_per_token, 4);
  EXPECT_EQ(c.conv_channels(), 2 * 128 + 2 * 128);
  EXPECT_EQ(c.eos_id, 2);
  EXPECT_FALSE(c.tied);
  EXPECT_TRUE(must(parse(golden_json("dense-tiny"))).tied);
}

TEST(Config, FlatAndOlderForms) {
  Json json = golden_json("dense-odd");
  const auto c = must(parse(json));
  EXPECT_EQ(c.architecture, "qwen3_5");
  EXPECT_FALSE(c.is_moe());
  EXPECT_EQ(c.rotary_dims, 12);
  EXPECT_EQ(c.eps, 1e-5);
  // Without a list, each third layer attends; with both, the list counts.
  json["full_attention_interval"] = 3;
  EXPECT_EQ(must(parse(json)).layer_kinds, c.layer_kinds);
  json.erase("layer_types");
  const auto every = must(parse(json)).layer_kinds;
  EXPECT_EQ(every[2], LayerKind::full_attention);
  EXPECT_EQ(every[4], LayerKind::linear_attention);
  // Rotary numbers beside rope_parameters.
  json.erase("rope_parameters");
  json["rope_theta"] = 5000;
  json["partial_rotary_factor"] = 0.5;
  json["rope_scaling"] = nullptr;
  json["eos_token_id"] = {7, 8};
  json.erase("tie_word_embeddings");
  const auto older = must(parse(json));
  EXPECT_EQ(older.rope_theta, 5000);
  EXPECT_EQ(older.rotary_dims, 24);
  EXPECT_EQ(older.eos_id, 7);
  EXPECT_FALSE(older.tied);
}

TEST(Config, TheRootSaysWhetherTheHeadIsTied) {
  Json json = golden_json("dense-tiny");
  json["tie_word_embeddings"] = false;
  EXPECT_FALSE(must(parse(json)).tied);
  json.erase("tie_word_embeddings");
  EXPECT_TRUE(must(parse(json)).tied);
}

struct Fault {
  const char* key;    // in text_config, or "/key" in the root
  const char* value;  // JSON; empty: erased
  Code code;
  const char* location;
  const char* message;
};

void expect_fault(const std::string& base, const Fault& fault) {
  SCOPED_TRACE(fmt::format("{} = {}", fault.key, fault.value));
  Json json = golden_json(base);
  const bool root = fault.key[0] == '/';
  const std::string key = fault.key + (root ? 1 : 0);
  Json& level = root || !json.contains("text_config") ? json : json["text_config"];
  if (*fault.value == '\0') {
    level.erase(key);
  } else {
    level[key] = must(parse_json(fault.value, "value"));
  }
  const auto result = parse(json);
  ASSERT_FALSE(result);
  const Diag& diag = result.error();
  EXPECT_EQ(diag.code, fault.code) << diag.to_string();
  EXPECT_EQ(diag.location.to_string(), fmt::format("config.json: {}", fault.location));
  EXPECT_NE(diag.message.find(fault.message), std::string::npos) << diag.to_string();
  EXPECT_FALSE(diag.fix.empty()) << diag.to_string();
  EXPECT_EQ(diag.exit_code(), Exit::user_error);
}

TEST(Config, FaultsOfDenseModels) {
  using enum Code;
  const Fault faults[] = {
      {"/model_type", "\"llama\"", config_architecture, "model_type",
       "unknown architecture \"llama\""},
      {"/model_type", "\"qwen3_next\"", config_architecture, "model_type",
       "unknown architecture \"qwen3_next\""},
      {"/model_type", "\"qwen3_5_text\"", config_architecture, "model_type",
       "unknown architecture"},
      {"/model_type", "", config_field, "model_type", "missing"},
      {"/architectures", "[\"LlamaForCausalLM\"]", config_architecture, "architectures[0]",
       "LlamaForCausalLM"},
      {"/architectures", "[\"Qwen3_5MoeForCausalLM\"]", config_architecture, "architectures[0]",
       "in a model of type \"qwen3_5\""},
      {"/text_config", "3", config_field, "text_config", "expected an object"},
      {"model_type", "\"qwen3_5_moe_text\"", config_architecture, "text_config.model_type",
       "which has \"qwen3_5_text\""},
      {"hidden_size", "", config_field, "text_config.hidden_size",
       "field \"hidden_size\" is missing"},
      {"hidden_size", "0", config_field, "text_config.hidden_size",
       "an integer from 1 to 1048576, found 0"},
      {"hidden_size", "-256", config_field, "text_config.hidden_size", "found -256"},
      {"hidden_size", "99999999999999999999", config_field, "text_config.hidden_size",
       "expected an integer"},
      {"hidden_size", "\"256\"", config_field, "text_config.hidden_size", "found a string"},
      {"hidden_size", "256.5", config_field, "text_config.hidden_size", "found a fraction"},
      {"hidden_size", "null", config_field, "text_config.hidden_size", "found null"},
      {"vocab_size", "16777217", config_field, "text_config.vocab_size", "found 16777217"},
      {"num_hidden_layers", "1000000000", config_field, "text_config.num_hidden_layers",
       "from 1 to 4096"},
      {"num_hidden_layers", "3", config_inconsistent, "text_config.layer_types",
       "4 layers are listed, but num_hidden_layers is 3"},
      {"layer_types", "", config_field, "text_config",
       "neither layer_types nor full_attention_interval"},
      {"layer_types",
       "[\"full_attention\", \"full_attention\", \"full_attention\", \"sliding_attention\"]",
       config_unsupported, "text_config.layer_types[3]", "sliding_attention"},
      {"num_key_value_heads", "3", config_inconsistent, "text_config.num_attention_heads",
       "num_key_value_heads = 3"},
      {"linear_num_key_heads", "3", config_inconsistent, "text_config.linear_num_value_heads",
       "linear_num_key_heads = 3"},
      {"linear_conv_kernel_dim", "1", config_field, "text_config.linear_conv_kernel_dim",
       "from 2 to 64"},
      {"linear_conv_kernel_dim", "65", config_field, "text_config.linear_conv_kernel_dim",
       "from 2 to 64"},
      {"head_dim", "", config_field, "text_config.head_dim", "missing"},
      {"head_dim", "4", config_inconsistent, "text_config.rope_parameters.partial_rotary_factor",
       "1 rotated dimensions, which must be even"},
      {"intermediate_size", "", config_field, "text_config.intermediate_size", "missing"},
      {"num_experts", "4", config_inconsistent, "text_config.num_experts",
       "4 experts in a model that is not of experts"},
      {"rms_norm_eps", "0", config_field, "text_config.rms_norm_eps", "from 1e-30 to 1, found 0"},
      {"rms_norm_eps", "\"small\"", config_field, "text_config.rms_norm_eps", "expected a number"},
      {"max_position_embeddings", "", config_field, "text_config.max_position_embeddings",
       "missing"},
      {"eos_token_id", "1024", config_field, "text_config.eos_token_id", "from 0 to 1023"},
      {"hidden_act", "\"gelu\"", config_unsupported, "text_config.hidden_act",
       "hidden_act = \"gelu\" is not supported"},
      {"output_gate_type", "\"sigmoid\"", config_unsupported, "text_config.output_gate_type",
       "sigmoid"},
      {"mamba_ssm_dtype", "\"bfloat16\"", config_unsupported, "text_config.mamba_ssm_dtype",
       "bfloat16"},
      {"attention_bias", "true", config_unsupported, "text_config.attention_bias",
       "attention_bias = true"},
      {"attention_bias", "1", config_field, "text_config.attention_bias", "expected true or false"},
      {"attn_output_gate", "false", config_unsupported, "text_config.attn_output_gate",
       "attn_output_gate = false"},
      {"/quantization_config", "{\"quant_method\": \"gptq\"}", config_unsupported,
       "quantization_config", "quantised"},
      {"rope_parameters", "", config_field, "text_config.rope_theta", "missing"},
      {"rope_parameters", "{\"rope_type\": \"yarn\", \"factor\": 4}", config_unsupported,
       "text_config.rope_parameters.rope_type", "rope_type = \"yarn\""},
      {"rope_parameters", "{\"rope_theta\": 1e7}", config_field,
       "text_config.rope_parameters.partial_rotary_factor", "missing"},
      {"rope_parameters", "{\"rope_theta\": 1e7, \"partial_rotary_factor\": 1.5}", config_field,
       "text_config.rope_parameters.partial_rotary_factor", "from 0 to 1, found 1.5"},
      {"rope_parameters", "{\"rope_theta\": null, \"partial_rotary_factor\": 0.5}", config_field,
       "text_config.rope_parameters.rope_theta", "expected a number, found null"},
      {"rope_parameters", "[]", config_field, "text_config.rope_parameters", "expected an object"},
      {"rope_scaling", "{\"type\": \"yarn\"}", config_unsupported, "text_config.rope_scaling.type",
       "yarn"},
      {"rope_theta", "10", config_inconsistent, "text_config.rope_theta", "10 here and 10000000"},
      {"/tie_word_embeddings", "\"yes\"", config_field, "tie_word_embeddings",
       "expected true or false"},
  };
  for (const Fault& fault : faults) expect_fault("dense-tiny", fault);
}

TEST(Config, FaultsOfModelsOfExperts) {
  using enum Code;
  const Fault faults[] = {
      {"num_experts", "0", config_field, "text_config.num_experts", "from 1 to 4096"},
      {"num_experts", "", config_field, "text_config.num_experts", "missing"},
      {"num_experts_per_tok", "17", config_field, "text_config.num_experts_per_tok",
       "from 1 to 16"},
      {"shared_expert_intermediate_size", "", config_field,
       "text_config.shared_expert_intermediate_size", "missing"},
      {"norm_topk_prob", "false", config_unsupported, "text_config.norm_topk_prob",
       "norm_topk_prob = false"},
      {"decoder_sparse_step", "2", config_unsupported, "text_config.decoder_sparse_step",
       "decoder_sparse_step = 2"},
      {"mlp_only_layers", "[0]", config_unsupported, "text_config.mlp_only_layers", "dense layer"},
      {"/model_type", "\"qwen3_5\"", config_architecture, "text_config.model_type",
       "qwen3_5_moe_text"},
  };
  for (const Fault& fault : faults) expect_fault("moe-tiny", fault);
}

TEST(Config, TensorsOfMoreThanATrillionElementsAreRefused) {
  Json json = golden_json("moe-tiny");
  json["text_config"]["hidden_size"] = 1 << 20;
  json["text_config"]["moe_intermediate_size"] = 1 << 20;
  const auto result = parse(json);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::config_inconsistent);
  EXPECT_EQ(result.error().location.to_string(), "config.json: text_config.num_experts");
}

TEST(Config, FilesThatAreNotThere) {
  const auto result = read_config("/nowhere");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::file_open);
  const auto list = parse(Json::array());
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().code, Code::config_field);
}

}  // namespace
}  // namespace gm
