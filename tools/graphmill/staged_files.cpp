#include "tools/graphmill/staged_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace gm {
namespace {

Error cannot_write(const std::filesystem::path& path, int error) {
  std::string_view fix;
  if (error == ENOENT) fix = "create its folder first";
  if (error == EACCES || error == EPERM || error == EROFS) fix = "choose a place you may write to";
  if (error == ENOSPC || error == EDQUOT) fix = "free space, or choose another disk";
  if (error == EFBIG) fix = "give smaller shards, or a file system or limit that allows such files";
  if (error == EMFILE) fix = "raise the limit of open files (ulimit -n), or give larger shards";
  if (error == ENOTDIR || error == EEXIST) fix = "give a folder";
  return err(Code::file_write, Location::of_file(path.string()), std::string(fix),
             "cannot write {}: {}", path.string(), std::generic_category().message(error));
}

}  // namespace

Result<StagedFiles> StagedFiles::in(const std::filesystem::path& folder) {
  StagedFiles files(folder);
  if (::mkdir(folder.c_str(), 0777) == 0) {
    files.made_folder_ = true;
  } else if (errno != EEXIST) {
    return cannot_write(folder, errno);
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return cannot_write(folder, ENOTDIR);
  return files;
}

StagedFiles::StagedFiles(StagedFiles&& other) noexcept
    : folder_(std::move(other.folder_)),
      made_folder_(std::exchange(other.made_folder_, false)),
      files_(std::exchange(other.files_, {})) {}

StagedFiles::~StagedFiles() { discard(); }

void StagedFiles::discard() {
  for (const File& file : files_) {
    if (file.descriptor >= 0) ::close(file.descriptor);
    if (!file.temporary.empty()) ::unlink(file.temporary.c_str());
  }
  files_.clear();
  if (made_folder_) ::rmdir(folder_.c_str());  // fails if something was put there, which is right
  made_folder_ = false;
}

Result<size_t> StagedFiles::create(const std::string& name) {
  const std::filesystem::path path = folder_ / name;
  const std::filesystem::path temporary = folder_ / fmt::format("{}.{}.tmp", name, ::getpid());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return cannot_write(path, errno);
  files_.push_back({path, temporary, descriptor});
  return files_.size() - 1;
}

Result<> StagedFiles::write(size_t file, int64_t offset, std::span<const std::byte> bytes) const {
  const int descriptor = files_[file].descriptor;
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::pwrite(descriptor, bytes.data() + done, bytes.size() - done,
                                   offset + static_cast<int64_t>(done));
    if (count < 0 && errno != EINTR) return cannot_write(files_[file].name, errno);
    if (count > 0) done += static_cast<size_t>(count);
  }
  // Only a hint: file systems without it write later.
  ::sync_file_range(descriptor, offset, static_cast<off64_t>(bytes.size()), SYNC_FILE_RANGE_WRITE);
  return {};
}

Result<> StagedFiles::commit(std::span<const std::filesystem::path> replaced) {
  for (File& file : files_) {
    if (::fsync(file.descriptor) != 0) return cannot_write(file.name, errno);
    if (::close(std::exchange(file.descriptor, -1)) != 0) return cannot_write(file.name, errno);
  }
  for (const std::filesystem::path& path : replaced) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return cannot_write(path, errno);
  }
  for (File& file : files_) {
    if (std::rename(file.temporary.c_str(), file.name.c_str()) != 0)
      return cannot_write(file.name, errno);
    file.temporary.clear();
    made_folder_ = false;
  }
  files_.clear();
  return {};
}

}  // namespace gm
