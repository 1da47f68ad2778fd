// Files that appear together or not at all: each is written under a temporary name in its folder,
// and they get their names when all are complete. What was not committed is removed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/diag.h"

namespace gm {

class StagedFiles {
 public:
  // Makes the folder if it is not there; its parent must be.
  static Result<StagedFiles> in(const std::filesystem::path& folder);
  StagedFiles(StagedFiles&& other) noexcept;
  StagedFiles& operator=(StagedFiles&&) = delete;
  ~StagedFiles();

  // The number that write() takes.
  Result<size_t> create(const std::string& name);
  // Several threads may write at once. The disk begins with the bytes at once, so that little is
  // left for commit().
  Result<> write(size_t file, int64_t offset, std::span<const std::byte> bytes) const;
  // Waits for the disk, removes the files that are replaced, and gives the new ones their names in
  // the order in which they were created.
  Result<> commit(std::span<const std::filesystem::path> replaced = {});

 private:
  struct File {
    std::filesystem::path name, temporary;
    int descriptor;
  };
  explicit StagedFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void discard();

  std::filesystem::path folder_;
  bool made_folder_ = false;
  std::vector<File> files_;
};

}  // namespace gm
