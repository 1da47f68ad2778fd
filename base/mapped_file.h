// A whole file, read-only, memory-mapped. An empty file is an empty span.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/diag.h"

namespace gm {

class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  MappedFile(void* data, size_t size) : data_(data), size_(size) {}
  void* data_;
  size_t size_;
};

// A small text file as a string; files over `limit_bytes` are refused.
Result<std::string> read_text_file(const std::filesystem::path& path,
                                   size_t limit_bytes = 64u << 20);
// Writes to a temporary name beside `path` and renames, so that a failure leaves no half file.
Result<> write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
Result<> write_file_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace gm
