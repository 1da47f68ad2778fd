// The configuration of a text model of the Qwen3.5 family, dense or mixture of experts:
// config.json's fields after checking, with one meaning each. Nothing is derived from anything else
// (head_dim is not hidden / heads).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diag.h"
#include "base/json.h"

namespace gm {

enum class LayerKind : uint8_t { linear_attention, full_attention };

// What opens the delta net's output: the checkpoints of the family say silu (or swish, its other
// name) or nothing.
enum class OutputGate : uint8_t { silu, sigmoid };

// Rotary frequencies for contexts longer than those of training, as the reference's "yarn".
struct YarnScaling {
  double factor = 1;
  double original_context = 0;  // tokens of training
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;
  double attention_factor = 1;  // of cos and sin
};

struct Qwen35Config {
  std::string architecture;  // "qwen3_5", "qwen3_5_moe" or "qwen3_next"
  std::string file;          // where it was read, for messages
  int64_t vocab = 0;
  int64_t hidden = 0;
  std::vector<LayerKind> layer_kinds;  // one a layer
  double eps = 1e-6;
  bool tied = false;
  int64_t max_position = 0;  // with yarn: what it extends the context to
  std::optional<int64_t> eos_id;

  // full attention
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t rotary_dims = 0;  // even, of head_dim
  double rope_theta = 0;
  std::optional<YarnScaling> yarn;

  // gated delta net
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int64_t conv_taps = 4;
  OutputGate output_gate = OutputGate::silu;

  // dense MLP
  int64_t intermediate = 0;

  // mixture of experts; experts == 0: dense
  int64_t experts = 0, experts_per_token = 0, expert_intermediate = 0, shared_intermediate = 0;

  bool is_moe() const { return experts > 0; }
  int64_t conv_channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
  int64_t layers() const { return static_cast<int64_t>(layer_kinds.size()); }
};

// Nested (text_config) or flat; `layer_types` wins over `full_attention_interval`. Errors are 12xx
// at the field: absent, absurd or inconsistent sizes, an unknown architecture, and whatever this
// version does not read, by name.
Result<Qwen35Config> parse_config(const JsonView& root);
Result<Qwen35Config> read_config(const std::filesystem::path& folder);

// The published sizes: 0.8b, 2b, 4b, 9b, 27b, 35b-a3b, 122b-a10b, 397b-a17b.
std::optional<Qwen35Config> published_config(std::string_view size);
std::vector<std::string_view> published_sizes();

}  // namespace gm
