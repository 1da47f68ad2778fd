// NumPy's .npy files: logits that people look at elsewhere, and the tensors of `eval`.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "base/diag.h"

namespace gm {

// Row-major; the product of `shape` must be values.size(). Written to a temporary name and renamed.
// As <f4, <f8, <i8.
Result<> write_npy(const std::filesystem::path& path, std::span<const int64_t> shape,
                   std::span<const float> values);
Result<> write_npy(const std::filesystem::path& path, std::span<const int64_t> shape,
                   std::span<const double> values);
Result<> write_npy(const std::filesystem::path& path, std::span<const int64_t> shape,
                   std::span<const int64_t> values);

struct NpyArray {
  std::vector<int64_t> shape;
  bool floating = true;
  std::vector<double> numbers;    // of <f4 and <f8
  std::vector<int64_t> integers;  // of <i4 and <i8
};

// Row-major arrays of <f4, <f8, <i4 or <i8. Errors: GM1001, and GM2080 for any other contents.
Result<NpyArray> read_npy(const std::filesystem::path& path);

}  // namespace gm
