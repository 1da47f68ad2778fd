#include <cmath>

#include "models/qwen35/config_fields.h"
#include "models/qwen35/rotary.h"

namespace gm::config_fields {
namespace {

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

Result<double> number(const JsonView& object, std::string_view key, double lo, double hi) {
  GM_ASSIGN(const JsonView view, field(object.at(key)));
  GM_ASSIGN(const double value, field(view.number()));
  if (value >= lo && value <= hi) return value;
  return err(Code::config_field, view.where(), std::string(kRefetch),
             "expected a number from {} to {}, found {}", lo, hi, value);
}

// Absent, null and, as in the reference, 0 mean `otherwise`.
Result<double> optional_number(const JsonView& object, std::string_view key, double lo, double hi,
                               double otherwise) {
  const auto view = object.find(key);
  if (!view || view->json() == 0) return otherwise;
  return number(object, key, lo, hi);
}

Result<> read_yarn(const JsonView& block, Qwen35Config& config) {
  YarnScaling yarn;
  if (config.rope_theta <= 1) {
    return inconsistent(block, "rope_theta", "yarn needs a rope_theta above 1, not {}",
                        config.rope_theta);
  }
  GM_ASSIGN(yarn.factor, number(block, "factor", 1, 1e4));
  int64_t original = config.max_position;
  if (block.find("original_max_position_embeddings")) {
    GM_ASSIGN(original, integer(block, "original_max_position_embeddings", 1, kMostTokens));
  }
  yarn.original_context = static_cast<double>(original);
  GM_ASSIGN(yarn.beta_fast, optional_number(block, "beta_fast", 1e-3, 1e6, 32));
  GM_ASSIGN(yarn.beta_slow, optional_number(block, "beta_slow", 1e-3, 1e6, 1));
  if (yarn.beta_fast < yarn.beta_slow) {
    return inconsistent(block, "beta_fast", "beta_fast = {} is less than beta_slow = {}",
                        yarn.beta_fast, yarn.beta_slow);
  }
  if (const auto view = block.find("truncate")) {
    GM_ASSIGN(yarn.truncate, field(view->boolean()));
  }
  GM_ASSIGN(const double mscale, optional_number(block, "mscale", 1e-3, 1e3, 0));
  GM_ASSIGN(const double all_dim, optional_number(block, "mscale_all_dim", 1e-3, 1e3, 0));
  yarn.attention_factor = yarn_attention_factor(yarn.factor, mscale, all_dim);
  if (block.find("attention_factor")) {
    GM_ASSIGN(yarn.attention_factor, number(block, "attention_factor", 1e-3, 1e3));
  }
  // The published files keep max_position_embeddings at what the model was trained for.
  const double stretched = std::floor(yarn.factor * yarn.original_context);
  config.max_position =
      std::max(config.max_position,
               static_cast<int64_t>(std::min(stretched, static_cast<double>(kMostTokens))));
  config.yarn = yarn;
  return {};
}

}  // namespace

Result<> read_rotary(const JsonView& text, Qwen35Config& config) {
  const auto rope = text.find("rope_parameters");
  std::optional<JsonView> yarn, plain;  // the blocks that say so
  for (const char* block : {"rope_parameters", "rope_scaling"}) {
    const auto view = text.find(block);
    if (!view) continue;
    GM_TRY(field(view->members()));
    for (const char* key : {"rope_type", "type"}) {
      GM_TRY(expect_text(*view, key, {"default", "yarn"}));
      if (const auto type = view->find(key)) (type->json() == "yarn" ? yarn : plain) = *view;
    }
  }
  if (yarn && plain) {
    return err(Code::config_inconsistent, yarn->where(), "leave one of them",
               "the rotary type is \"yarn\" here and \"default\" in {}", plain->where().path);
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
  return yarn ? read_yarn(*yarn, config) : Result<>();
}

}  // namespace gm::config_fields
