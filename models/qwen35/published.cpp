#include <array>

#include "models/qwen35/config.h"

namespace gm {
namespace {

// What the published sizes differ in. Everything else is equal for all of them.
struct Published {
  std::string_view size;
  int64_t hidden, layers, intermediate, heads, kv_heads, value_heads;
  bool tied;
  int64_t experts, experts_per_token, expert_width;
};

constexpr std::array<Published, 8> kPublished = {{
    {"0.8b", 1024, 24, 3584, 8, 2, 16, true, 0, 0, 0},
    {"2b", 2048, 24, 6144, 8, 2, 16, true, 0, 0, 0},
    {"4b", 2560, 32, 9216, 16, 4, 32, true, 0, 0, 0},
    {"9b", 4096, 32, 12288, 16, 4, 32, false, 0, 0, 0},
    {"27b", 5120, 64, 17408, 24, 4, 48, false, 0, 0, 0},
    {"35b-a3b", 2048, 40, 0, 16, 2, 32, false, 256, 8, 512},
    {"122b-a10b", 3072, 48, 0, 32, 2, 64, false, 256, 8, 1024},
    {"397b-a17b", 4096, 60, 0, 32, 2, 64, false, 512, 10, 1024},
}};

}  // namespace

std::optional<Qwen35Config> published_config(std::string_view size) {
  for (const Published& p : kPublished) {
    if (p.size != size) continue;
    Qwen35Config c;
    c.architecture = p.experts > 0 ? "qwen3_5_moe" : "qwen3_5";
    c.file = fmt::format("Qwen3.5 {}", size);
    c.vocab = 248320;
    c.hidden = p.hidden;
    for (int64_t layer = 0; layer < p.layers; ++layer) {
      c.layer_kinds.push_back(layer % 4 == 3 ? LayerKind::full_attention
                                             : LayerKind::linear_attention);
    }
    c.eps = 1e-6;
    c.tied = p.tied;
    c.max_position = 262144;
    c.eos_id = 248044;
    c.heads = p.heads;
    c.kv_heads = p.kv_heads;
    c.head_dim = 256;
    c.rotary_dims = 64;
    c.rope_theta = 1e7;
    c.key_heads = 16;
    c.value_heads = p.value_heads;
    c.key_dim = 128;
    c.value_dim = 128;
    c.conv_taps = 4;
    c.intermediate = p.intermediate;
    c.experts = p.experts;
    c.experts_per_token = p.experts_per_token;
    c.expert_intermediate = p.expert_width;
    c.shared_intermediate = p.expert_width;  // equal in all published sizes
    return c;
  }
  return std::nullopt;
}

std::vector<std::string_view> published_sizes() {
  std::vector<std::string_view> sizes;
  for (const Published& p : kPublished) sizes.push_back(p.size);
  return sizes;
}

}  // namespace gm
