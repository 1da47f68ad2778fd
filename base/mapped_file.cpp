#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>

namespace gm {
namespace {

// generic_category's text is the C library's, without its shared static buffer.
std::string reason(int error) { return std::generic_category().message(error); }

struct Descriptor {
  int fd;
  explicit Descriptor(int descriptor) : fd(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Error cannot_open(const std::filesystem::path& path, int error) {
  return err(Code::file_open, Location::of_file(path.string()),
             error == EACCES ? "check its permissions" : "check the path", "cannot open {}: {}",
             path.string(), reason(error));
}

Error cannot_read(const std::filesystem::path& path, int error) {
  return err(Code::file_open, Location::of_file(path.string()),
             error == EISDIR ? "give a file, not a folder" : "", "cannot read {}: {}",
             path.string(), reason(error));
}

Error cannot_write(const std::filesystem::path& path, int error) {
  return err(Code::file_write, Location::of_file(path.string()),
             error == ENOENT ? "create its folder first" : "", "cannot write {}: {}", path.string(),
             reason(error));
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a pipe in the place of the file must be refused, not waited for.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) return cannot_open(path, errno);
  struct stat info{};
  if (::fstat(file.fd, &info) != 0) return cannot_open(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return err(Code::file_open, Location::of_file(path.string()), "give a regular file",
               "cannot open {}: it is {}", path.string(),
               S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
  }
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (size > 0) {  // mmap refuses a length of zero
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (data == MAP_FAILED) return cannot_open(path, errno);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(data, size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<std::string> read_text_file(const std::filesystem::path& path, size_t limit_bytes) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) return cannot_open(path, errno);
  struct stat info{};
  if (::fstat(file.fd, &info) != 0) return cannot_open(path, errno);
  if (S_ISDIR(info.st_mode)) return cannot_read(path, EISDIR);
  std::string text;
  if (S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) <= limit_bytes) {
    text.reserve(static_cast<size_t>(info.st_size) + 1);
  }
  // Read to the end rather than to the stated size: pipes and /proc files state none.
  char piece[1 << 16];
  for (;;) {
    const ssize_t count = ::read(file.fd, piece, sizeof piece);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_read(path, errno);
    if (count == 0) return text;
    if (static_cast<size_t>(count) > limit_bytes - text.size()) {
      return err(
          Code::file_open, Location::of_file(path.string()), "check that it is the right file",
          "{} is larger than {} bytes, the limit for such a file", path.string(), limit_bytes);
    }
    text.append(piece, static_cast<size_t>(count));
  }
}

Result<> write_file_atomically(const std::filesystem::path& path,
                               std::span<const std::byte> bytes) {
  // Unique in this process by the counter and among processes by the id; the name never stays.
  static std::atomic<unsigned> counter{0};
  std::filesystem::path temporary = path;
  temporary += fmt::format(".{}.{}.tmp", ::getpid(), counter++);
  int error = 0;
  {
    Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.fd < 0) return cannot_write(path, errno);
    size_t done = 0;
    while (error == 0 && done < bytes.size()) {
      const ssize_t count = ::write(file.fd, bytes.data() + done, bytes.size() - done);
      if (count >= 0) {
        done += static_cast<size_t>(count);
      } else if (errno != EINTR) {
        error = errno;
      }
    }
    // Without it a crash of the machine could leave the new name with old or no contents.
    if (error == 0 && ::fsync(file.fd) != 0) error = errno;
  }
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(temporary.c_str());
  return cannot_write(path, error);
}

Result<> write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  return write_file_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace gm
