#include "runtime/native_library.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gm {
namespace {

using NativeFn = void (*)(const int64_t* dims, void* const* args, int64_t begin, int64_t end,
                          void* scratch);

// A file descriptor that is closed.
struct Descriptor {
  explicit Descriptor(int number) : fd(number) {}
  Descriptor(Descriptor&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  int fd;
};

class NativeLibrary : public KernelLibrary {
 public:
  NativeLibrary(void* handle, Descriptor memory) : memory_(std::move(memory)), handle_(handle) {}
  ~NativeLibrary() override { dlclose(handle_); }

  Result<KernelFn> find(const PlanKernel& kernel) override {
    void* symbol = kernel.symbol.empty() ? nullptr : dlsym(handle_, kernel.symbol.c_str());
    if (symbol == nullptr) {
      return err(Code::run_kernel, {}, "compile the plan again",
                 "the native code has no function \"{}\" for kernel {}", kernel.symbol,
                 kernel.name);
    }
    const auto function = reinterpret_cast<NativeFn>(symbol);
    return [function](const int64_t* dims, void* const* args, int64_t begin, int64_t end,
                      std::byte* scratch) { function(dims, args, begin, end, scratch); };
  }

 private:
  // Open as long as the library is loaded: the loader knows it by the name /proc/self/fd/N, and
  // would take another library of the same number for this one.
  Descriptor memory_;
  void* handle_;
};

}  // namespace

Result<std::unique_ptr<KernelLibrary>> load_native_library(const Plan& plan,
                                                           const std::string& file) {
  const Location where = Location::of_path(file, "kernels/cpu.so");
  if (plan.stage != "native" || plan.shared_object.empty()) {
    return err(Code::run_stage, where,
               "run it with --executor interpreter, or compile for a cpu target",
               "the plan has no native code (its stage is {})", plan.stage);
  }
  GM_TRY(check_cpu_features(plan.target, plan.target_features, file));
  std::vector<std::string> exports;
  for (const PlanKernel& kernel : plan.kernels) exports.push_back(kernel.symbol);
  GM_TRY(check_shared_object(plan.shared_object, std::move(exports), file));

  const auto refused = [&](std::string_view why) {
    return err(Code::native_load, where, "run it with --executor interpreter",
               "the native code cannot be loaded: {}", why);
  };
  Descriptor memory(memfd_create("graphmill-kernels", MFD_CLOEXEC));
  if (memory.fd < 0) return refused(std::strerror(errno));
  for (size_t done = 0; done < plan.shared_object.size();) {
    const ssize_t n =
        write(memory.fd, plan.shared_object.data() + done, plan.shared_object.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return refused(std::strerror(errno));
    done += static_cast<size_t>(n);
  }
  void* handle = dlopen(fmt::format("/proc/self/fd/{}", memory.fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return refused(why == nullptr ? "no reason given" : why);
  }
  return std::make_unique<NativeLibrary>(handle, std::move(memory));
}

}  // namespace gm
