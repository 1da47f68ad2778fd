// Tensor names of Qwen checkpoints. The same tensor has another prefix in a multimodal wrapper, in
// a text-only export and in older containers; everything behind the import knows it by its
// canonical name ("layers.0.mlp.gate.weight").
#pragma once

#include <string>
#include <string_view>

namespace gm {

// The name without `model.language_model.`, `language_model.model.` or `model.`; a head at
// `language_model.lm_head.` is `lm_head.`. Other names stay as they are.
std::string canonical_tensor_name(std::string_view name);
// What canonical_tensor_name drops.
std::string_view checkpoint_prefix(std::string_view name);

// Tensors that text models do not use: the vision tower (`model.visual.`, `visual.`) and the draft
// layer (`mtp.`).
bool is_skipped_tensor(std::string_view name);

}  // namespace gm
