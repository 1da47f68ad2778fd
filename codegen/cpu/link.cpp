#include "codegen/cpu/link.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>

#include <lld/Common/Driver.h>

LLD_HAS_DRIVER(elf)

namespace gm::cpu {
namespace {

// LLD works on files. A private folder with fixed names inside; removed with everything in it.
class PrivateFolder {
 public:
  static Result<PrivateFolder> make() {
    std::error_code code;
    std::filesystem::path base = std::filesystem::temp_directory_path(code);
    if (code) base = "/tmp";
    std::string path = (base / "graphmill-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) {
      return err(Code::file_write, Location::of_file(base.string()),
                 "set TMPDIR to a folder with room", "a temporary folder cannot be made: {}",
                 std::strerror(errno));
    }
    return PrivateFolder(std::move(path));
  }
  PrivateFolder(PrivateFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  std::string file(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Result<> write_file(const std::string& path, std::span<const char> bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) {
    return err(Code::file_write, Location::of_file(path), "set TMPDIR to a folder with room",
               "an object file cannot be written");
  }
  return {};
}

Result<std::vector<std::byte>> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = in ? static_cast<std::streamoff>(in.tellg()) : -1;
  std::vector<std::byte> bytes(size > 0 ? static_cast<size_t>(size) : 0);
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), size);
  if (!in || bytes.empty()) {
    return err(Code::cpu_link, Location::of_file(path), "set TMPDIR to a folder with room",
               "the linker left no shared object");
  }
  return bytes;
}

}  // namespace

Result<std::vector<std::byte>> link_objects(std::span<const KernelObject> objects) {
  GM_ASSIGN(const PrivateFolder folder, PrivateFolder::make());
  std::vector<std::string> files;
  for (size_t i = 0; i < objects.size(); ++i) {
    files.push_back(folder.file(fmt::format("{}.o", i)));
    GM_TRY(write_file(files.back(), objects[i].bytes));
  }
  const std::string output = folder.file("kernels.so");
  std::vector<const char*> arguments = {"ld.lld",
                                        "-shared",
                                        "-m",
                                        "elf_x86_64",
                                        "-z",
                                        "defs",
                                        "-z",
                                        "relro",
                                        "-z",
                                        "now",
                                        "-z",
                                        "noexecstack",
                                        "--build-id=none",
                                        "--threads=1",
                                        "-s",
                                        "-o",
                                        output.c_str(),
                                        "--hash-style=gnu",
                                        "--no-undefined"};
  for (const std::string& file : files) arguments.push_back(file.c_str());
  // LLD keeps its state in globals.
  static std::mutex mutex;
  static bool usable = true;
  const std::scoped_lock lock(mutex);
  GM_CHECK(usable, "the linker broke down in an earlier call");
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  const lld::Result result = lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  usable = result.canRunAgain;
  if (result.retCode != 0) {
    return err(Code::cpu_link, {}, "report this; it is no fault of the model",
               "the kernels cannot be linked: {}", messages);
  }
  return read_file(output);
}

}  // namespace gm::cpu
