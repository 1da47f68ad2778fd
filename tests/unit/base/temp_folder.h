// A folder of its own for a test, removed at the end.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace gm {

class TempFolder : public ::testing::Test {
 protected:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "graphmill.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder = name;
  }
  ~TempFolder() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }

  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::ofstream file(folder / name, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return folder / name;
  }

  std::filesystem::path folder;
};

}  // namespace gm
