// NumPy's .npy files of float32, for logits that people look at elsewhere.
#pragma once

#include <filesystem>
#include <span>

#include "base/diag.h"

namespace gm {

// Row-major; the product of `shape` must be values.size(). Written to a temporary name and renamed.
Result<> write_npy(const std::filesystem::path& path, std::span<const int64_t> shape,
                   std::span<const float> values);

}  // namespace gm
