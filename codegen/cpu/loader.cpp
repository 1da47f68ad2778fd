#include "codegen/cpu/loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <climits>

namespace gm {
namespace {

constexpr const char* kLibrary = "libgraphmill_cpu.so";

std::string program_folder() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return ".";
  const std::string_view text(path.data(), static_cast<size_t>(length));
  const size_t slash = text.rfind('/');
  return slash == std::string_view::npos ? "." : std::string(text.substr(0, slash));
}

}  // namespace

Result<const CpuBackend*> open_cpu_backend(std::span<const std::string> folders) {
  std::string tried;
  for (const std::string& folder : folders) {
    const std::string path = folder + "/" + kLibrary;
    tried += (tried.empty() ? "" : ", ") + path;
    if (access(path.c_str(), F_OK) != 0) continue;
    // Never closed: LLVM keeps state until the process ends.
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return err(Code::cpu_library, Location::of_file(path),
                 "install graphmill's CPU library together with LLVM 19's (libLLVM.so.19.1)",
                 "the CPU code generator cannot be opened: {}", dlerror());
    }
    using Entry = const CpuBackend* (*)();
    const auto entry = reinterpret_cast<Entry>(dlsym(library, kCpuBackendEntry));
    if (entry == nullptr || entry()->version != kCpuBackendVersion) {
      return err(Code::cpu_library, Location::of_file(path),
                 "install the program and its library from the same build",
                 "the CPU code generator is of another version of graphmill");
    }
    return entry();
  }
  return err(Code::cpu_library, Location::of_file(kLibrary),
             "install it beside the program or in ../lib, or compile for a GPU target",
             "the CPU code generator is missing (tried {})", tried);
}

Result<const CpuBackend*> cpu_backend() {
  static const Result<const CpuBackend*> backend = [] {
    const std::string folder = program_folder();
    const std::array<std::string, 2> folders = {folder, folder + "/../lib"};
    return open_cpu_backend(folders);
  }();
  return backend;
}

Result<CpuTarget> parse_cpu_target(std::string_view text) {
  if (text == "cpu" || text == "cpu:v3") return CpuTarget{CpuLevel::v3, "x86-64-v3", ""};
  if (text == "cpu:v4") return CpuTarget{CpuLevel::v4, "x86-64-v4", ""};
  if (text == "cpu:native") {
    GM_ASSIGN(const CpuBackend* backend, cpu_backend());
    return backend->host_target();
  }
  return err(Code::cpu_target, Location::of_path("--target", std::string(text)),
             "use cpu, cpu:v3, cpu:v4 or cpu:native", "unknown CPU target '{}'", text);
}

Result<NativeObject> compile_kernels(std::span<const Kernel> kernels, const CpuTarget& target,
                                     const std::function<void(int, int)>& progress) {
  GM_ASSIGN(const CpuBackend* backend, cpu_backend());
  return backend->compile(kernels, target, progress);
}

}  // namespace gm
