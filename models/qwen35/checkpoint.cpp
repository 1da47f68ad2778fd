#include "models/qwen35/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/checkpoint_names.h"

namespace gm {
namespace {

constexpr std::string_view kEmbedding = "embed_tokens.weight";
constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kOriginal = "give the folder of the model as published, in BF16";
constexpr std::string_view kSameModel =
    "config.json and the tensors must be of one model: fetch both again";

Location at(const StoredTensor& tensor) { return Location::of_path(tensor.file, tensor.name); }

std::string extents(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::optional<DType> read_dtype(std::string_view stored) {
  if (stored == "BF16") return DType::bf16;
  if (stored == "F16") return DType::f16;
  if (stored == "F32") return DType::f32;
  return std::nullopt;
}

// Companions of packed integers: names of the common quantisers.
bool is_quantiser_name(std::string_view name) {
  constexpr std::string_view kEndings[] = {
      "scale",   "scales",    "scale_inv",     "scale_2",      "zeros",   "zero_point",
      "qweight", "g_idx",     "weight_packed", "weight_shape", ".biases", ".SCB",
      "absmax",  "quant_map", "quant_state",   "perm_indices"};
  return std::ranges::any_of(kEndings,
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

// MLX transposes the convolution's weight, stacks experts under another name and adds 1 to norms,
// which cannot be seen on the norms themselves.
bool is_mlx(const Qwen35Config& config, const StoredTensor& tensor, std::string_view name) {
  return name.contains(".mlp.switch_mlp.") ||
         (name.ends_with(".linear_attn.conv1d.weight") &&
          tensor.shape == std::vector<int64_t>{config.conv_channels(), config.conv_taps, 1});
}

// Checkpoints that hold the right numbers in another form. Found before anything is compared, since
// a name that is not expected or a shape that differs would be the symptom only.
Result<> refuse_form(const Qwen35Config& config, const StoredTensor& tensor,
                     const std::string& name) {
  constexpr std::string_view kIntegers[] = {"U8",  "I8",  "F8_E4M3", "F8_E5M2",
                                            "U16", "I16", "U32",     "I32"};
  if (std::ranges::find(kIntegers, tensor.dtype) != std::end(kIntegers) ||
      is_quantiser_name(name)) {
    return err(Code::tensor_quantised, at(tensor), std::string(kOriginal),
               "tensor {} ({}) is part of a quantised checkpoint; BF16, F16 and F32 are read",
               tensor.name, tensor.dtype);
  }
  const bool fused = name.ends_with(".linear_attn.in_proj_qkvz.weight") ||
                     name.ends_with(".linear_attn.in_proj_ba.weight");
  if (fused && config.architecture != "qwen3_next") {
    return err(Code::tensor_layout, at(tensor), std::string(kOriginal),
               "tensor {} fuses projections, in an order of rows that only qwen3_next defines; a "
               "{} model has in_proj_qkv, in_proj_z, in_proj_b and in_proj_a",
               tensor.name, config.architecture);
  }
  return {};
}

// The names and shapes of a layer's tensors become those of the form that the checkpoint has.
// `found` are its canonical names.
template <class Found>
void take_stored_forms(const Qwen35Config& c, const Found& found,
                       std::map<std::string, std::vector<int64_t>, std::less<>>& expected) {
  for (int64_t layer = 0; layer < c.layers(); ++layer) {
    const std::string mlp = fmt::format("layers.{}.mlp.experts.", layer);
    const std::string gdn = fmt::format("layers.{}.linear_attn.", layer);
    // A form is recognised by any of its tensors, so that what else lacks is named in that form.
    const auto begins = [&](const std::string& prefix) {
      const auto next = found.lower_bound(prefix);
      return next != found.end() && next->first.starts_with(prefix);
    };
    bool single = false;
    for (char digit = '0'; digit <= '9'; ++digit) single = single || begins(mlp + digit);
    if (single && c.is_moe()) {
      const int64_t width = c.expert_intermediate;
      const bool halves = !found.contains(mlp + "gate_up_proj");
      const bool down = !found.contains(mlp + "down_proj");
      if (halves) expected.erase(mlp + "gate_up_proj");
      if (down) expected.erase(mlp + "down_proj");
      for (int64_t e = 0; e < c.experts; ++e) {
        const std::string expert = fmt::format("{}{}.", mlp, e);
        if (halves) expected[expert + "gate_proj.weight"] = {width, c.hidden};
        if (halves) expected[expert + "up_proj.weight"] = {width, c.hidden};
        if (down) expected[expert + "down_proj.weight"] = {c.hidden, width};
      }
    }
    if (found.contains(gdn + "in_proj_qkvz.weight") && expected.erase(gdn + "in_proj_qkv.weight")) {
      expected.erase(gdn + "in_proj_z.weight");
      expected[gdn + "in_proj_qkvz.weight"] = {c.conv_channels() + c.value_heads * c.value_dim,
                                               c.hidden};
    }
    if (found.contains(gdn + "in_proj_ba.weight") && expected.erase(gdn + "in_proj_b.weight")) {
      expected.erase(gdn + "in_proj_a.weight");
      expected[gdn + "in_proj_ba.weight"] = {2 * c.value_heads, c.hidden};
    }
  }
}

// Experts that are stored one by one become one weight, which has one dtype.
template <class Found>
Result<> check_expert_dtypes(const Qwen35Config& c, const Found& found) {
  for (int64_t layer = 0; layer < c.layers(); ++layer) {
    for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
      const auto expert = [&](int64_t e) {
        return found.find(fmt::format("layers.{}.mlp.experts.{}.{}.weight", layer, e, part));
      };
      const auto first = expert(0);
      if (first == found.end()) continue;
      for (int64_t e = 1; e < c.experts; ++e) {
        const auto other = expert(e);
        if (other->second->dtype == first->second->dtype) continue;
        return err(Code::tensor_dtype, at(*other->second), std::string(kSameModel),
                   "tensor {} is stored as {}, but that of expert 0 as {}", other->second->name,
                   other->second->dtype, first->second->dtype);
      }
    }
  }
  return {};
}

Error missing(const Qwen35Config& config, const SafeTensors& checkpoint, const std::string& name,
              const std::vector<int64_t>& shape) {
  std::string_view prefix;
  std::string place;
  for (const auto& [stored, tensor] : checkpoint.tensors()) {
    if (is_skipped_tensor(stored)) continue;
    if (prefix.empty() && !stored.contains("lm_head")) prefix = checkpoint_prefix(stored);
    if (place.empty()) place = tensor.file;
    // One of several shards would be the wrong place to look.
    if (place != tensor.file) place = std::filesystem::path(tensor.file).parent_path().string();
  }
  const std::string full = name == kHead ? name : std::string(prefix) + name;
  std::string fix(kSameModel);
  if (name == kHead) fix += ", or set tie_word_embeddings if the head is the embedding";
  return err(Code::tensor_missing, Location::of_path(place.empty() ? config.file : place, full),
             std::move(fix), "tensor {} is missing; expected {} in BF16, F16 or F32", full,
             extents(shape));
}

// A copy of the embedding is harmless, any other head contradicts the config.
Result<> check_tied_head(const StoredTensor& head, const StoredTensor* embedding) {
  if (embedding != nullptr && head.dtype == embedding->dtype && head.shape == embedding->shape &&
      head.data.size() == embedding->data.size() &&
      std::memcmp(head.data.data(), embedding->data.data(), head.data.size()) == 0) {
    return {};
  }
  return err(Code::tensor_tied, at(head), "set tie_word_embeddings to false if this head is meant",
             "tensor {} differs from the embedding, but tie_word_embeddings says that they are one",
             head.name);
}

}  // namespace

std::map<std::string, std::vector<int64_t>, std::less<>> model_tensors(const Qwen35Config& c) {
  std::map<std::string, std::vector<int64_t>, std::less<>> tensors;
  tensors[std::string(kEmbedding)] = {c.vocab, c.hidden};
  tensors["norm.weight"] = {c.hidden};
  if (!c.tied) tensors[std::string(kHead)] = {c.vocab, c.hidden};
  for (int64_t layer = 0; layer < c.layers(); ++layer) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    const auto add = [&](std::string_view name, std::vector<int64_t> shape) {
      tensors[prefix + std::string(name)] = std::move(shape);
    };
    add("input_layernorm.weight", {c.hidden});
    add("post_attention_layernorm.weight", {c.hidden});
    if (c.layer_kinds[static_cast<size_t>(layer)] == LayerKind::full_attention) {
      add("self_attn.q_proj.weight", {2 * c.heads * c.head_dim, c.hidden});
      add("self_attn.k_proj.weight", {c.kv_heads * c.head_dim, c.hidden});
      add("self_attn.v_proj.weight", {c.kv_heads * c.head_dim, c.hidden});
      add("self_attn.o_proj.weight", {c.hidden, c.heads * c.head_dim});
      add("self_attn.q_norm.weight", {c.head_dim});
      add("self_attn.k_norm.weight", {c.head_dim});
    } else {
      add("linear_attn.in_proj_qkv.weight", {c.conv_channels(), c.hidden});
      add("linear_attn.in_proj_z.weight", {c.value_heads * c.value_dim, c.hidden});
      add("linear_attn.in_proj_b.weight", {c.value_heads, c.hidden});
      add("linear_attn.in_proj_a.weight", {c.value_heads, c.hidden});
      add("linear_attn.conv1d.weight", {c.conv_channels(), 1, c.conv_taps});
      add("linear_attn.A_log", {c.value_heads});
      add("linear_attn.dt_bias", {c.value_heads});
      add("linear_attn.norm.weight", {c.value_dim});
      add("linear_attn.out_proj.weight", {c.hidden, c.value_heads * c.value_dim});
    }
    if (c.is_moe()) {
      add("mlp.gate.weight", {c.experts, c.hidden});
      add("mlp.experts.gate_up_proj", {c.experts, 2 * c.expert_intermediate, c.hidden});
      add("mlp.experts.down_proj", {c.experts, c.hidden, c.expert_intermediate});
      add("mlp.shared_expert.gate_proj.weight", {c.shared_intermediate, c.hidden});
      add("mlp.shared_expert.up_proj.weight", {c.shared_intermediate, c.hidden});
      add("mlp.shared_expert.down_proj.weight", {c.hidden, c.shared_intermediate});
      add("mlp.shared_expert_gate.weight", {1, c.hidden});
    } else {
      add("mlp.gate_proj.weight", {c.intermediate, c.hidden});
      add("mlp.up_proj.weight", {c.intermediate, c.hidden});
      add("mlp.down_proj.weight", {c.hidden, c.intermediate});
    }
  }
  return tensors;
}

Result<WeightDtypes> match_checkpoint(const Qwen35Config& config, const SafeTensors& checkpoint) {
  std::map<std::string, const StoredTensor*, std::less<>> found;
  // Before all else: what MLX has converted may be quantised as well, and is MLX's in any case.
  for (const auto& [stored, tensor] : checkpoint.tensors()) {
    if (is_skipped_tensor(stored) || !is_mlx(config, tensor, canonical_tensor_name(stored)))
      continue;
    return err(Code::tensor_layout, at(tensor), std::string(kOriginal),
               "tensor {} is {}, as MLX stores it: checkpoints that MLX has converted, whose norms "
               "have 1 added, are not read",
               stored, extents(tensor.shape));
  }
  for (const auto& [stored, tensor] : checkpoint.tensors()) {
    if (is_skipped_tensor(stored)) continue;
    const std::string name = canonical_tensor_name(stored);
    GM_TRY(refuse_form(config, tensor, name));
    const auto [other, added] = found.emplace(name, &tensor);
    if (!added) {
      return err(Code::tensor_unknown, at(tensor), std::string(kOriginal),
                 "tensors {} and {} are the same one of the model", other->second->name, stored);
    }
  }
  auto expected = model_tensors(config);
  take_stored_forms(config, found, expected);

  WeightDtypes dtypes;
  for (const auto& [name, tensor] : found) {
    if (config.tied && name == kHead) {
      const auto embedding = found.find(kEmbedding);
      GM_TRY(check_tied_head(*tensor, embedding == found.end() ? nullptr : embedding->second));
      continue;
    }
    const auto wanted = expected.find(name);
    if (wanted == expected.end()) {
      return err(Code::tensor_unknown, at(*tensor), std::string(kSameModel),
                 "tensor {} is none of a {} model of {} layers", tensor->name, config.architecture,
                 config.layers());
    }
    if (tensor->shape != wanted->second) {
      return err(Code::tensor_shape, at(*tensor), std::string(kSameModel),
                 "tensor {} is {}; expected {} by {}", tensor->name, extents(tensor->shape),
                 extents(wanted->second), config.file);
    }
    const auto dtype = read_dtype(tensor->dtype);
    if (!dtype) {
      return err(Code::tensor_dtype, at(*tensor), std::string(kOriginal),
                 "tensor {} is stored as {}; expected BF16, F16 or F32", tensor->name,
                 tensor->dtype);
    }
    dtypes.emplace(name, *dtype);
  }
  for (const auto& [name, shape] : expected) {
    if (!found.contains(name)) return missing(config, checkpoint, name, shape);
  }
  GM_TRY(check_expert_dtypes(config, found));
  return dtypes;
}

WeightDtypes published_dtypes(const Qwen35Config& config) {
  WeightDtypes dtypes;
  for (const auto& [name, shape] : model_tensors(config)) {
    const bool f32 = name.ends_with(".A_log") || name.ends_with(".linear_attn.norm.weight");
    dtypes.emplace(name, f32 ? DType::f32 : DType::bf16);
  }
  return dtypes;
}

}  // namespace gm
