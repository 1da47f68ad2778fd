// config.json: both nestings, both ways to say which layers attend, and every fault with its code,
// place and fix.
#include "golden.h"

#include <algorithm>

#include "base/mapped_file.h"
#include "models/qwen35/rotary.h"

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
      {"/model_type", "\"qwen4_exp\"", config_architecture, "model_type",
       "\"qwen4_exp\" is not read: its hyper-connections"},
      {"/model_type", "\"qwen3_next\"", config_architecture, "text_config.model_type",
       "which has \"qwen3_next_text\""},
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
      {"output_gate_type", "\"tanh\"", config_unsupported, "text_config.output_gate_type",
       "output_gate_type = \"tanh\""},
      {"mamba_ssm_dtype", "\"bfloat16\"", config_unsupported, "text_config.mamba_ssm_dtype",
       "bfloat16"},
      {"attention_bias", "true", config_unsupported, "text_config.attention_bias",
       "attention_bias = true"},
      {"attention_bias", "1", config_field, "text_config.attention_bias", "expected true or false"},
      {"attn_output_gate", "false", config_unsupported, "text_config.attn_output_gate",
       "attn_output_gate = false"},
      {"/quantization_config", "{\"quant_method\": \"gptq\"}", config_unsupported,
       "quantization_config", "a checkpoint quantised by gptq"},
      {"quantization_config", "{\"quant_method\": \"fp8\"}", config_unsupported,
       "text_config.quantization_config", "a checkpoint quantised by fp8"},
      {"/quantization_config", "{\"bits\": 4}", config_unsupported, "quantization_config",
       "quantised by an unknown method"},
      {"/quantization", "{\"bits\": 4}", config_unsupported, "quantization",
       "a checkpoint that MLX has quantised"},
      {"rope_parameters", "", config_field, "text_config.rope_theta", "missing"},
      {"rope_parameters", "{\"rope_type\": \"longrope\", \"factor\": 4}", config_unsupported,
       "text_config.rope_parameters.rope_type", "rope_type = \"longrope\""},
      {"rope_parameters", "{\"rope_theta\": 1e7}", config_field,
       "text_config.rope_parameters.partial_rotary_factor", "missing"},
      {"rope_parameters", "{\"rope_theta\": 1e7, \"partial_rotary_factor\": 1.5}", config_field,
       "text_config.rope_parameters.partial_rotary_factor", "from 0 to 1, found 1.5"},
      {"rope_parameters", "{\"rope_theta\": null, \"partial_rotary_factor\": 0.5}", config_field,
       "text_config.rope_parameters.rope_theta", "expected a number, found null"},
      {"rope_parameters", "[]", config_field, "text_config.rope_parameters", "expected an object"},
      {"rope_scaling", "{\"type\": \"linear\"}", config_unsupported,
       "text_config.rope_scaling.type", "linear"},
      {"rope_scaling", "{\"type\": \"yarn\", \"factor\": 4}", config_inconsistent,
       "text_config.rope_scaling", "\"yarn\" here and \"default\" in text_config.rope_parameters"},
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

// Qwen3.6 and 3.8: more keys, the gate by either of its names.
TEST(Config, LaterMembersOfTheFamily) {
  Json json = golden_json("dense-tiny");
  json["language_model_only"] = false;
  json["text_config"]["bos_token_id"] = 1;
  json["text_config"]["pad_token_id"] = nullptr;
  json["text_config"]["partial_rotary_factor"] = 0.25;
  for (const char* name : {"silu", "swish"}) {
    json["text_config"]["output_gate_type"] = name;
    EXPECT_EQ(must(parse(json)).output_gate, OutputGate::silu) << name;
  }
  json["text_config"]["output_gate_type"] = "sigmoid";
  EXPECT_EQ(must(parse(json)).output_gate, OutputGate::sigmoid);
  json["text_config"].erase("output_gate_type");
  EXPECT_EQ(must(parse(json)).output_gate, OutputGate::silu);
}

Json next_json() {
  return must(parse_json(R"({
    "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "attention_bias": false,
    "attention_dropout": 0.0, "bos_token_id": 151643, "decoder_sparse_step": 1,
    "eos_token_id": 151645, "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu",
    "hidden_size": 2048, "intermediate_size": 5120, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "linear_value_head_dim": 128, "max_position_embeddings": 262144, "mlp_only_layers": [],
    "moe_intermediate_size": 512, "norm_topk_prob": true, "num_attention_heads": 16,
    "num_experts": 512, "num_experts_per_tok": 10, "num_hidden_layers": 48,
    "num_key_value_heads": 2, "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-06,
    "rope_scaling": null, "rope_theta": 10000000, "shared_expert_intermediate_size": 512,
    "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936})",
                         "config.json"));
}

TEST(Config, Qwen3Next) {
  const auto c = must(parse(next_json()));
  EXPECT_EQ(c.architecture, "qwen3_next");
  EXPECT_EQ(c.layers(), 48);
  EXPECT_EQ(std::ranges::count(c.layer_kinds, LayerKind::full_attention), 12);
  EXPECT_EQ(c.layer_kinds[3], LayerKind::full_attention);
  EXPECT_EQ(c.experts, 512);
  EXPECT_EQ(c.experts_per_token, 10);
  EXPECT_EQ(c.rotary_dims, 64);
  EXPECT_EQ(c.eos_id, 151645);
  // Experts one by one and packed have equal elements: 79.67 billion, as published.
  int64_t elements = 0;
  for (const auto& [name, shape] : model_tensors(c)) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    elements += count;
  }
  EXPECT_EQ(elements, 79'674'391'296);

  Json json = next_json();
  json["num_experts"] = 0;
  EXPECT_FALSE(must(parse(json)).is_moe());
  EXPECT_EQ(must(parse(json)).intermediate, 5120);
  json.erase("num_experts");
  const auto without = parse(json);
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().location.to_string(), "config.json: num_experts");
  json = next_json();
  json["architectures"] = {"Qwen3_5MoeForCausalLM"};
  const auto other = parse(json);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::config_architecture);
  EXPECT_EQ(other.error().location.to_string(), "config.json: architectures[0]");
}

// The published block, and values that the reference's own code gives for it and for another one.
TEST(Config, Yarn) {
  Json json = golden_json("dense-tiny");
  Json& text = json["text_config"];
  text["max_position_embeddings"] = 262144;
  Json& rope = text["rope_parameters"];
  rope["rope_type"] = "yarn";
  rope["factor"] = 4.0;
  rope["original_max_position_embeddings"] = 262144;
  const auto c = must(parse(json));
  ASSERT_TRUE(c.yarn);
  EXPECT_EQ(c.max_position, 1048576);
  EXPECT_DOUBLE_EQ(c.yarn->attention_factor, 1.138629436111989);
  const double want[] = {1.00000000e+00, 6.04296386e-01, 3.65174145e-01, 2.20673397e-01,
                         1.33352146e-01, 8.05842131e-02, 4.86967526e-02, 2.94272732e-02,
                         1.77827943e-02, 1.07460786e-02, 6.49381662e-03, 3.92418960e-03,
                         2.37137382e-03, 1.43301266e-03, 8.65964335e-04, 4.74239816e-04,
                         2.56935076e-04, 1.37349751e-04, 7.21738688e-05, 3.70722482e-05,
                         1.84492237e-05, 8.75977003e-06, 3.84981604e-06, 2.32643015e-06,
                         1.40585337e-06, 8.49552066e-07, 5.13381224e-07, 3.10234441e-07,
                         1.87473560e-07, 1.13289595e-07, 6.84604942e-08, 4.13704271e-08};
  const auto got = rotary_frequencies(c);
  ASSERT_EQ(got.size(), std::size(want));
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 5e-7 * want[i]) << i;
    EXPECT_EQ(got[i], static_cast<double>(static_cast<float>(got[i])));
  }
  // Every optional number, beside rope_parameters as older files have it.
  Json odd = golden_json("dense-odd");
  odd["max_position_embeddings"] = 128;
  odd["rope_parameters"].erase("rope_type");
  odd["rope_scaling"] = {{"type", "yarn"},   {"factor", 8.0}, {"beta_fast", 16},
                         {"beta_slow", 2},   {"mscale", 1.0}, {"mscale_all_dim", 0.8},
                         {"truncate", false}};
  const auto o = must(parse(odd));
  EXPECT_EQ(o.max_position, 1024);
  EXPECT_DOUBLE_EQ(o.yarn->attention_factor, 1.0356570849393496);
  const double small[] = {1.00000000e+00, 1.32751288e-02, 1.24999986e-03,
                          1.25000006e-04, 1.24999960e-05, 1.25000042e-06};
  const auto frequencies = rotary_frequencies(o);
  ASSERT_EQ(frequencies.size(), std::size(small));
  for (size_t i = 0; i < frequencies.size(); ++i)
    EXPECT_NEAR(frequencies[i], small[i], 1e-6 * small[i]) << i;
  odd["rope_scaling"]["attention_factor"] = 1.5;
  EXPECT_EQ(must(parse(odd)).yarn->attention_factor, 1.5);
}

TEST(Config, FaultsOfYarn) {
  using enum Code;
  const auto block = [](const char* more) {
    return std::string(
               R"({"rope_type": "yarn", "rope_theta": 1e7, "partial_rotary_factor": 0.25)") +
           more + "}";
  };
  const std::string none = block(""), factor = block(R"(, "factor": 0.5)"),
                    original = block(R"(, "factor": 4, "original_max_position_embeddings": 0)"),
                    beta = block(R"(, "factor": 4, "beta_fast": 1, "beta_slow": 2)"),
                    attention = block(R"(, "factor": 4, "attention_factor": 0)"),
                    truncate = block(R"(, "factor": 4, "truncate": 1)");
  const std::string at = "text_config.rope_parameters";
  const struct {
    const std::string& value;
    Code code;
    const char* key;
    const char* message;
  } faults[] = {{none, config_field, ".factor", "missing"},
                {factor, config_field, ".factor", "from 1 to 10000, found 0.5"},
                {original, config_field, ".original_max_position_embeddings", "found 0"},
                {beta, config_inconsistent, ".beta_fast", "less than beta_slow = 2"},
                {attention, config_field, ".attention_factor", "found 0"},
                {truncate, config_field, ".truncate", "expected true or false"}};
  for (const auto& fault : faults) {
    const std::string place = at + fault.key;
    expect_fault("dense-tiny", {"rope_parameters", fault.value.c_str(), fault.code, place.c_str(),
                                fault.message});
  }
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
