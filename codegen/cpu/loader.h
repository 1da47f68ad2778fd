// Opens libgraphmill_cpu.so, the only part of the program that needs LLVM, when first needed:
// beside the program, then in ../lib. A missing or foreign library is an error with the places that
// were tried.
#pragma once

#include <span>
#include <string>

#include "codegen/cpu/cpu_codegen.h"

namespace gm {

// What the library exports through `graphmill_cpu_backend`.
struct CpuBackend {
  int version;  // kCpuBackendVersion
  Result<CpuTarget> (*host_target)();
  Result<NativeObject> (*compile)(std::span<const Kernel> kernels, const CpuTarget& target,
                                  const std::function<void(int, int)>& progress);
};
inline constexpr int kCpuBackendVersion = 1;
inline constexpr const char* kCpuBackendEntry = "graphmill_cpu_backend";

// From the program's own folders; the result of the first call is kept.
Result<const CpuBackend*> cpu_backend();
// From the first of `folders` that has the library.
Result<const CpuBackend*> open_cpu_backend(std::span<const std::string> folders);

}  // namespace gm
