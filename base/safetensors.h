// Reading checkpoints: one safetensors file, or a folder of shards with
// model.safetensors.index.json, memory-mapped and never trusted. Tensor data is read with memcpy
// only, since files may place tensors at odd offsets.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diag.h"
#include "base/mapped_file.h"

namespace gm {

// One tensor as the header describes it. `dtype` is the file's own word ("BF16", "F8_E4M3", ...):
// what may be used is the importer's business.
struct StoredTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string file;                 // for messages
  std::span<const std::byte> data;  // within the mapping; any alignment
};

// Tensors by name over one or several files. Movable; spans stay valid while it lives.
class SafeTensors {
 public:
  // A *.safetensors file. Errors: unreadable, header longer than the file, bad JSON, unknown dtype
  // word, offsets out of order, past the end, overlapping, or not size(dtype) * product(shape),
  // duplicate names.
  static Result<SafeTensors> open_file(const std::filesystem::path& file);
  // A checkpoint folder: model.safetensors.index.json if there is one (every shard it names must
  // exist and hold exactly the tensors mapped to it), else model.safetensors.
  static Result<SafeTensors> open_folder(const std::filesystem::path& folder);

  const StoredTensor* find(std::string_view name) const;
  const std::map<std::string, StoredTensor, std::less<>>& tensors() const { return tensors_; }

 private:
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

// Bytes an element of the file's dtype word takes; nothing for an unknown word or sub-byte type.
std::optional<int64_t> stored_dtype_bytes(std::string_view dtype);

}  // namespace gm
