#include "models/qwen35/config.h"

#include <algorithm>
#include <iterator>
#include <system_error>

#include "models/qwen35/config_fields.h"

namespace gm {
namespace {

using namespace config_fields;

constexpr int64_t kMostElements = int64_t{1} << 40;  // of one tensor
constexpr std::string_view kReads =
    "this version reads qwen3_5, qwen3_5_moe and qwen3_next: give the folder of a model of these";
constexpr std::string_view kInBf16 = "give the folder of the model as published, in BF16";

// What a model type's classes are called.
struct Architecture {
  std::string_view type;
  std::string_view class_prefix;
};
constexpr Architecture kArchitectures[] = {
    {"qwen3_5_moe", "Qwen3_5Moe"}, {"qwen3_5", "Qwen3_5"}, {"qwen3_next", "Qwen3Next"}};

// The name of the architecture, from model_type of the root, with the text part's own words checked
// against it.
Result<std::string> read_architecture(const JsonView& root, const JsonView& text, bool nested) {
  GM_ASSIGN(const JsonView type_view, field(root.at("model_type")));
  GM_ASSIGN(const std::string type, field(type_view.string()));
  if (type.starts_with("qwen4_exp")) {
    return err(
        Code::config_architecture, type_view.where(), std::string(kReads),
        "architecture \"{}\" is not read: its hyper-connections, sparse-attention indexer and "
        "n-gram embeddings are ops that this version does not have",
        type);
  }
  const auto known = std::ranges::find_if(kArchitectures, [&](const Architecture& a) {
    return type == a.type || (!nested && type == fmt::format("{}_text", a.type));
  });
  if (known == std::end(kArchitectures)) {
    return err(Code::config_architecture, type_view.where(), std::string(kReads),
               "unknown architecture \"{}\"", type);
  }
  const std::string base(known->type);
  if (const auto view = text.find("model_type")) {
    GM_ASSIGN(const std::string inner, field(view->string()));
    if (inner != base && inner != base + "_text") {
      return err(Code::config_architecture, view->where(), std::string(kReads),
                 "the text part is \"{}\" in a model of type \"{}\", which has \"{}_text\"", inner,
                 type, base);
    }
  }
  if (const auto view = root.find("architectures")) {
    GM_ASSIGN(const auto items, field(view->items()));
    for (const JsonView& item : items) {
      GM_ASSIGN(const std::string name, field(item.string()));
      // The first prefix that fits is the longest.
      const auto of = std::ranges::find_if(
          kArchitectures, [&](const Architecture& a) { return name.starts_with(a.class_prefix); });
      if (of != known) {
        return err(Code::config_architecture, item.where(), std::string(kReads),
                   "architecture \"{}\" in a model of type \"{}\"", name, type);
      }
    }
  }
  return base;
}

// Quantised checkpoints, by the name of what made them.
Result<> refuse_quantised(const JsonView& root, const JsonView& text) {
  for (const JsonView* level : {&root, &text}) {
    if (const auto view = level->find("quantization")) {
      return unsupported(*view, "a checkpoint that MLX has quantised (quantization)", kInBf16);
    }
  }
  for (const JsonView* level : {&root, &text}) {
    const auto view = level->find("quantization_config");
    if (!view) continue;
    const auto method = view->is_object() ? view->find("quant_method") : std::nullopt;
    const std::string name = method && method->json().is_string()
                                 ? method->json().get<std::string>()
                                 : "an unknown method";
    return unsupported(
        *view, fmt::format("a checkpoint quantised by {} (quantization_config)", name), kInBf16);
  }
  return {};
}

Result<> expect_flag(const JsonView& text, std::string_view key, bool only) {
  const auto view = text.find(key);
  if (!view) return {};
  GM_ASSIGN(const bool value, field(view->boolean()));
  if (value == only) return {};
  return unsupported(*view, fmt::format("{} = {}", key, value),
                     fmt::format("only {} = {} is read", key, only));
}

// Whatever would change the formulas and is not one of the published models' choices.
Result<> refuse_variants(const JsonView& root, const JsonView& text, bool moe) {
  GM_TRY(refuse_quantised(root, text));
  GM_TRY(expect_text(text, "hidden_act", {"silu"}));
  GM_TRY(expect_text(text, "output_gate_type", {"silu", "swish", "sigmoid"}));
  GM_TRY(expect_text(text, "mamba_ssm_dtype", {"float32"}));
  GM_TRY(expect_flag(text, "attention_bias", false));
  GM_TRY(expect_flag(text, "attn_output_gate", true));
  GM_TRY(expect_flag(text, "use_sliding_window", false));
  if (!moe) return {};
  GM_TRY(expect_flag(text, "norm_topk_prob", true));
  if (const auto view = text.find("decoder_sparse_step")) {
    GM_ASSIGN(const int64_t step, field(view->integer()));
    if (step != 1) {
      return unsupported(*view, fmt::format("decoder_sparse_step = {}", step), "only 1 is read");
    }
  }
  if (const auto view = text.find("mlp_only_layers")) {
    GM_ASSIGN(const auto layers, field(view->items()));
    if (!layers.empty()) {
      return unsupported(*view, "a dense layer among those of experts (mlp_only_layers)",
                         "only an empty list is read");
    }
  }
  return {};
}

Result<> read_layers(const JsonView& text, Qwen35Config& config) {
  GM_ASSIGN(const int64_t layers, integer(text, "num_hidden_layers", 1, 4096));
  if (const auto view = text.find("layer_types")) {
    GM_ASSIGN(const auto items, field(view->items()));
    if (static_cast<int64_t>(items.size()) != layers) {
      return inconsistent(text, "layer_types", "{} layers are listed, but num_hidden_layers is {}",
                          items.size(), layers);
    }
    for (const JsonView& item : items) {
      GM_ASSIGN(const std::string kind, field(item.string()));
      if (kind == "linear_attention") {
        config.layer_kinds.push_back(LayerKind::linear_attention);
      } else if (kind == "full_attention") {
        config.layer_kinds.push_back(LayerKind::full_attention);
      } else {
        return unsupported(item, fmt::format("a layer of type \"{}\"", kind),
                           "only \"linear_attention\" and \"full_attention\" are read");
      }
    }
    return {};
  }
  if (!text.find("full_attention_interval")) {
    return err(Code::config_field, text.where(), std::string(kRefetch),
               "neither layer_types nor full_attention_interval says which layers are of full "
               "attention");
  }
  GM_ASSIGN(const int64_t interval, integer(text, "full_attention_interval", 1, 4096));
  for (int64_t i = 0; i < layers; ++i) {
    config.layer_kinds.push_back((i + 1) % interval == 0 ? LayerKind::full_attention
                                                         : LayerKind::linear_attention);
  }
  return {};
}

Result<> read_end_of_sequence(const JsonView& text, Qwen35Config& config) {
  auto view = text.find("eos_token_id");
  if (!view) return {};
  if (view->json().is_array()) {
    GM_ASSIGN(const auto items, view->items());
    if (items.empty()) return {};
    view = items.front();
  }
  GM_ASSIGN(config.eos_id, field(view->integer(0, config.vocab - 1)));
  return {};
}

Result<> read_sizes(const JsonView& text, bool moe, Qwen35Config& config) {
  constexpr int64_t kMostChosen = 64;  // experts; their sum is unrolled
  constexpr int64_t kHeads = 4096, kDim = 4096, kWidth = int64_t{1} << 20;
  GM_ASSIGN(config.vocab, integer(text, "vocab_size", 1, int64_t{1} << 24));
  GM_ASSIGN(config.hidden, integer(text, "hidden_size", 1, kWidth));
  GM_ASSIGN(config.max_position, integer(text, "max_position_embeddings", 1, kMostTokens));
  GM_ASSIGN(config.heads, integer(text, "num_attention_heads", 1, kHeads));
  GM_ASSIGN(config.kv_heads, integer(text, "num_key_value_heads", 1, kHeads));
  GM_ASSIGN(config.head_dim, integer(text, "head_dim", 2, kDim));
  GM_ASSIGN(config.key_heads, integer(text, "linear_num_key_heads", 1, kHeads));
  GM_ASSIGN(config.value_heads, integer(text, "linear_num_value_heads", 1, kHeads));
  GM_ASSIGN(config.key_dim, integer(text, "linear_key_head_dim", 1, kDim));
  GM_ASSIGN(config.value_dim, integer(text, "linear_value_head_dim", 1, kDim));
  GM_ASSIGN(config.conv_taps, integer(text, "linear_conv_kernel_dim", 2, 64));
  if (moe) {
    GM_ASSIGN(config.experts, integer(text, "num_experts", 1, 4096));
    GM_ASSIGN(config.experts_per_token,
              integer(text, "num_experts_per_tok", 1, std::min(config.experts, kMostChosen)));
    GM_ASSIGN(config.expert_intermediate, integer(text, "moe_intermediate_size", 1, kWidth));
    GM_ASSIGN(config.shared_intermediate,
              integer(text, "shared_expert_intermediate_size", 1, kWidth));
  } else {
    GM_ASSIGN(config.intermediate, integer(text, "intermediate_size", 1, kWidth));
    if (const auto view = text.find("num_experts")) {
      GM_ASSIGN(const int64_t experts, field(view->integer(0)));
      if (experts != 0) {
        return inconsistent(text, "num_experts", "{} experts in a model that is not of experts",
                            experts);
      }
    }
  }
  if (config.heads % config.kv_heads != 0) {
    return inconsistent(text, "num_attention_heads",
                        "{} query heads cannot be shared out among num_key_value_heads = {}",
                        config.heads, config.kv_heads);
  }
  if (config.value_heads % config.key_heads != 0) {
    return inconsistent(text, "linear_num_value_heads",
                        "{} value heads cannot be shared out among linear_num_key_heads = {}",
                        config.value_heads, config.key_heads);
  }
  return {};
}

// The ranges above keep these products well inside 64 bits.
Result<> check_tensor_sizes(const JsonView& text, const Qwen35Config& c) {
  const struct {
    std::string_view key;
    int64_t elements;
  } tensors[] = {
      {"vocab_size", c.vocab * c.hidden},
      {"num_attention_heads", 2 * c.heads * c.head_dim * c.hidden},
      {"linear_num_value_heads", c.conv_channels() * std::max(c.hidden, c.conv_taps)},
      {"intermediate_size", c.intermediate * c.hidden},
      {"num_experts", 2 * c.experts * c.expert_intermediate * c.hidden},
      {"shared_expert_intermediate_size", c.shared_intermediate * c.hidden},
  };
  for (const auto& tensor : tensors) {
    if (tensor.elements <= kMostElements) continue;
    return inconsistent(text, tensor.key, "a weight would have {} elements, more than 2^40",
                        tensor.elements);
  }
  return {};
}

// A file of llama.cpp, or a folder of such files without the original's config.json.
Result<> refuse_gguf(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(folder, ignored)) {
    files.push_back(folder);
  } else if (!std::filesystem::exists(folder / "config.json", ignored)) {
    auto entry = std::filesystem::directory_iterator(folder, ignored);
    for (; entry != std::filesystem::directory_iterator(); entry.increment(ignored)) {
      files.push_back(entry->path());
    }
  }
  std::ranges::sort(files);
  for (const std::filesystem::path& file : files) {
    if (file.extension() != ".gguf" || !std::filesystem::exists(file, ignored)) continue;
    return err(Code::tensor_layout, Location::of_file(file.string()), std::string(kInBf16),
               "GGUF files are not read: they hold norms with 1 added, -exp(A_log) and value heads "
               "in another order, mostly quantised");
  }
  return {};
}

}  // namespace

Result<Qwen35Config> parse_config(const JsonView& root) {
  GM_TRY(field(root.members()));
  const auto inner = root.find("text_config");
  const JsonView& text = inner ? *inner : root;
  GM_TRY(field(text.members()));
  Qwen35Config config;
  GM_ASSIGN(config.architecture, read_architecture(root, text, inner.has_value()));
  bool moe = config.architecture == "qwen3_5_moe";
  if (config.architecture == "qwen3_next") {  // of experts, unless it says that it has none
    GM_ASSIGN(const int64_t experts, integer(text, "num_experts", 0, INT64_MAX));
    moe = experts > 0;
  }
  GM_TRY(refuse_variants(root, text, moe));
  if (const auto view = text.find("output_gate_type"); view && view->json() == "sigmoid") {
    config.output_gate = OutputGate::sigmoid;
  }
  config.file = root.where().file;
  GM_TRY(read_sizes(text, moe, config));
  GM_TRY(read_layers(text, config));
  GM_TRY(read_rotary(text, config));
  GM_TRY(read_end_of_sequence(text, config));
  GM_TRY(check_tensor_sizes(text, config));

  GM_ASSIGN(const JsonView eps, field(text.at("rms_norm_eps")));
  GM_ASSIGN(config.eps, field(eps.number()));
  if (!(config.eps >= 1e-30 && config.eps <= 1.0)) {
    return err(Code::config_field, eps.where(), std::string(kRefetch),
               "expected a number from 1e-30 to 1, found {}", config.eps);
  }
  // The root's word counts; a file that has none means untied, as the reference's own default does.
  for (const JsonView* level : {&root, &text}) {
    if (const auto view = level->find("tie_word_embeddings")) {
      GM_ASSIGN(config.tied, field(view->boolean()));
      break;
    }
  }
  return config;
}

Result<Qwen35Config> read_config(const std::filesystem::path& folder) {
  GM_TRY(refuse_gguf(folder));
  const std::filesystem::path file = folder / "config.json";
  GM_ASSIGN(const Json json, read_json(file));
  return parse_config(JsonView(json, file.string()));
}

}  // namespace gm
