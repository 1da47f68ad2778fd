#include "base/checkpoint_names.h"

#include <array>

namespace gm {

std::string_view checkpoint_prefix(std::string_view name) {
  // Longest first: each of the first two contains the third.
  constexpr std::array<std::string_view, 3> kPrefixes = {"model.language_model.",
                                                         "language_model.model.", "model."};
  if (name.starts_with("language_model.lm_head.")) return name.substr(0, 15);
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) return name.substr(0, prefix.size());
  }
  return {};
}

std::string canonical_tensor_name(std::string_view name) {
  return std::string(name.substr(checkpoint_prefix(name).size()));
}

bool is_skipped_tensor(std::string_view name) {
  return name.starts_with("model.visual.") || name.starts_with("visual.") ||
         name.starts_with("mtp.");
}

}  // namespace gm
