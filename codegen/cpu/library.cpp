// The library's one entry: kernels are compiled on a few threads, each result into the place of its
// kernel, so that the order of completion leaves no trace.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include <llvm/Config/llvm-config.h>

#include "codegen/cpu/link.h"
#include "codegen/cpu/loader.h"
#include "codegen/cpu/module.h"

namespace gm::cpu {
namespace {

Result<NativeObject> compile(std::span<const Kernel> kernels, const CpuTarget& target,
                             const std::function<void(int, int)>& progress) {
  const size_t count = kernels.size();
  NativeObject result;
  result.llvm_version = LLVM_VERSION_STRING;
  std::vector<KernelObject> objects(count);
  std::vector<std::optional<Diag>> errors(count);
  std::vector<std::unique_ptr<llvm::TargetMachine>> machines;
  const size_t threads = std::clamp<size_t>(
      std::min<size_t>(count, std::max(2u, std::thread::hardware_concurrency())), 1, 16);
  for (size_t i = 0; i < threads; ++i) {
    GM_ASSIGN(machines.emplace_back(), create_target_machine(target));
  }
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  int done = 0;
  const auto work = [&](llvm::TargetMachine& machine) {
    for (size_t i = next++; i < count; i = next++) {
      auto object = compile_kernel(kernels[i], fmt::format("k{}", i), machine);
      const std::scoped_lock lock(mutex);
      if (object) {
        objects[i] = *std::move(object);
      } else {
        errors[i] = std::move(object).error();
      }
      if (progress) progress(++done, static_cast<int>(count));
    }
  };
  {
    std::vector<std::jthread> pool;
    for (size_t i = 1; i < threads; ++i) pool.emplace_back([&, i] { work(*machines[i]); });
    work(*machines[0]);
  }
  for (std::optional<Diag>& error : errors) {
    if (error) return Error(*std::move(error));
  }
  for (size_t i = 0; i < count; ++i)
    result.kernels.push_back({kernels[i].name, fmt::format("k{}", i), objects[i].scratch_bytes});
  if (count > 0) {
    GM_ASSIGN(result.shared_object, link_objects(objects));
  }
  return result;
}

}  // namespace
}  // namespace gm::cpu

extern "C" __attribute__((visibility("default"))) const gm::CpuBackend* graphmill_cpu_backend() {
  static constexpr gm::CpuBackend kBackend = {gm::kCpuBackendVersion, gm::cpu::host_target,
                                              gm::cpu::compile};
  return &kBackend;
}
