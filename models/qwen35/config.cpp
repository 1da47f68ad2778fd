#include "models/qwen35/config.h"

#include <algorithm>

namespace gm {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;  // of one tensor
constexpr std::string_view kReads =
    "this version reads qwen3_5 and qwen3_5_moe: give the folder of a Qwen3.5 model";
constexpr std::string_view kRefetch =
    "give the value that the model was trained with, or fetch config.json again";

// A fault of a field as this module's own, with something to do about it.
template <class T>
Result<T> field(Result<T> value) {
  if (value) return value;
  Diag diag = std::move(value).error();
  diag.code = Code::config_field;
  diag.fix = kRefetch;
  return Error(std::move(diag));
}

Error unsupported(const JsonView& view, std::string_view what, std::string_view reads) {
  return err(Code::config_unsupported, view.where(), std::string(reads), "{} is not supported",
             what);
}

template <class... A>
Error inconsistent(const JsonView& text, std::string_view key, fmt::format_string<A...> format,
                   A&&... args) {
  const auto view = text.find(key);
  return err(Code::config_inconsistent, view ? view->where() : text.where(), std::string(kRefetch),
             format, std::forward<A>(args)...);
}

Result<int64_t> integer(const JsonView& text, std::string_view key, int64_t lo, int64_t hi) {
  GM_ASSIGN(const JsonView view, field(text.at(key)));
  return field(view.integer(lo, hi));
}

// A number within [lo, hi] that newer files keep in rope_parameters and older ones beside it. Files
// that have it twice must agree with themselves.
Result<double> rotary_number(const JsonView& text, const std::optional<JsonView>& rope,
                             std::string_view key, double lo, double hi) {
  std::optional<JsonView> inner = rope ? rope->find(key) : std::nullopt;
  const std::optional<JsonView> outer = text.find(key);
  const JsonView& holder = rope ? *rope : text;
  if (!inner && !outer) {  // absent, or null, which the type check below refuses
    GM_ASSIGN(inner, field(holder.at(key)));
  }
  GM_ASSIGN(const double value, field((inner ? *inner : *outer).number()));
  if (value < lo || value > hi) {
    return err(Code::config_field, (inner ? *inner : *outer).where(), std::string(kRefetch),
               "expected a number from {} to {}, found {}", lo, hi, value);
  }
  if (inner && outer) {
    GM_ASSIGN(const double other, field(outer->number()));
    if (other != value) {
      return err(Code::config_inconsistent, outer->where(), "leave one of them",
                 "{} is {} here and {} in rope_parameters", key, other, value);
    }
  }
  return value;
}

// The architecture, from model_type of the root, with the text part's own words checked against it.
Result<bool> read_architecture(const JsonView& root, const JsonView& text, bool nested) {
  GM_ASSIGN(const JsonView type_view, field(root.at("model_type")));
  GM_ASSIGN(const std::string type, field(type_view.string()));
  const bool dense = type == "qwen3_5" || (!nested && type == "qwen3_5_text");
  const bool moe = type == "qwen3_5_moe" || (!nested && type == "qwen3_5_moe_text");
  if (!dense && !moe) {
    return err(Code::config_architecture, type_view.where(), std::string(kReads),
               "unknown architecture \"{}\"", type);
  }
  const std::string base = moe ? "qwen3_5_moe" : "qwen3_5";
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
      if (name.starts_with("Qwen3_5Moe") != moe || !name.starts_with("Qwen3_5")) {
        return err(Code::config_architecture, item.where(), std::string(kReads),
                   "architecture \"{}\" in a model of type \"{}\"", name, type);
      }
    }
  }
  return moe;
}

Result<> expect_flag(const JsonView& text, std::string_view key, bool only) {
  const auto view = text.find(key);
  if (!view) return {};
  GM_ASSIGN(const bool value, field(view->boolean()));
  if (value == only) return {};
  return unsupported(*view, fmt::format("{} = {}", key, value),
                     fmt::format("only {} = {} is read", key, only));
}

Result<> expect_text(const JsonView& text, std::string_view key,
                     std::initializer_list<std::string_view> only) {
  const auto view = text.find(key);
  if (!view) return {};
  GM_ASSIGN(const std::string value, field(view->string()));
  if (std::find(only.begin(), only.end(), value) != only.end()) return {};
  return unsupported(*view, fmt::format("{} = \"{}\"", key, value),
                     fmt::format("only \"{}\" is read", fmt::join(only, "\" and \"")));
}

// Whatever would change the formulas and is not one of the published models' choices.
Result<> refuse_variants(const JsonView& root, const JsonView& text, bool moe) {
  for (const JsonView* level : {&root, &text}) {
    if (const auto view = level->find("quantization_config")) {
      return unsupported(*view, "a quantised checkpoint (quantization_config)",
                         "give the folder of the model in BF16");
    }
  }
  GM_TRY(expect_text(text, "hidden_act", {"silu"}));
  GM_TRY(expect_text(text, "output_gate_type", {"silu", "swish"}));
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

Result<> read_rotary(const JsonView& text, Qwen35Config& config) {
  const auto rope = text.find("rope_parameters");
  for (const char* block : {"rope_parameters", "rope_scaling"}) {
    const auto view = text.find(block);
    if (!view) continue;
    GM_TRY(field(view->members()));
    for (const char* key : {"rope_type", "type"}) GM_TRY(expect_text(*view, key, {"default"}));
  }
  GM_ASSIGN(config.rope_theta, rotary_number(text, rope, "rope_theta", 1.0, 1e15));
  GM_ASSIGN(const double factor, rotary_number(text, rope, "partial_rotary_factor", 0.0, 1.0));
  // Truncated, as the reference does.
  config.rotary_dims = static_cast<int64_t>(static_cast<double>(config.head_dim) * factor);
  if (config.rotary_dims < 2 || config.rotary_dims % 2 != 0) {
    const JsonView& holder = rope && rope->has("partial_rotary_factor") ? *rope : text;
    return inconsistent(holder, "partial_rotary_factor",
                        "{} of head_dim = {} are {} rotated dimensions, which must be even and "
                        "at least 2",
                        factor, config.head_dim, config.rotary_dims);
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
  GM_ASSIGN(config.max_position,
            integer(text, "max_position_embeddings", 1, (int64_t{1} << 31) - 1));
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

}  // namespace

Result<Qwen35Config> parse_config(const JsonView& root) {
  GM_TRY(field(root.members()));
  const auto inner = root.find("text_config");
  const JsonView& text = inner ? *inner : root;
  GM_TRY(field(text.members()));
  GM_ASSIGN(const bool moe, read_architecture(root, text, inner.has_value()));
  GM_TRY(refuse_variants(root, text, moe));

  Qwen35Config config;
  config.architecture = moe ? "qwen3_5_moe" : "qwen3_5";
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
  const std::filesystem::path file = folder / "config.json";
  GM_ASSIGN(const Json json, read_json(file));
  return parse_config(JsonView(json, file.string()));
}

}  // namespace gm
