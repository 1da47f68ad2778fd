// Safetensors files made by hand, with the data at an odd offset.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/safetensors.h"

namespace gm::test {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "graphmill.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct FileTensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

inline std::filesystem::path write_checkpoint(const std::filesystem::path& path,
                                              const std::vector<FileTensor>& tensors) {
  std::string header = "{", data;
  for (const FileTensor& t : tensors) {
    header +=
        fmt::format("{}\"{}\": {{\"dtype\": \"{}\", \"shape\": [{}], \"data_offsets\": [{}, {}]}}",
                    header.size() == 1 ? "" : ", ", t.name, t.dtype, fmt::join(t.shape, ", "),
                    data.size(), data.size() + t.bytes.size());
    data += t.bytes;
  }
  header += "}";
  if (header.size() % 2 == 0)
    header += ' ';  // 8 bytes of length before it: the data is at an odd offset
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  std::ofstream(path, std::ios::binary) << file << header << data;
  return path;
}

}  // namespace gm::test
