// Native code for the CPU: L2 kernels (after the expansion of exp, sin and so on) become one shared
// object with one exported function a kernel, without constructors, needed libraries or undefined
// symbols. The bytes depend on nothing but the kernels, the target and the LLVM version. LLVM
// itself lives in libgraphmill_cpu.so; the functions below open it when first called (loader.h).
//
// Every kernel is
//   void k(const int64_t* dims, void* const* args, int64_t begin, int64_t end, void* scratch)
// dims in the order of Kernel::symbols, args in the order of Kernel::params, work items [begin,
// end) counted through all parts in order (the last grid axis fastest), scratch a 64-byte aligned
// block of at least scratch_bytes that no other thread uses meanwhile. No weight and no step input
// may overlap a written parameter; an activation may take the place of another element by element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diag.h"
#include "ir/tile.h"

namespace gm {

enum class CpuLevel : uint8_t { v3, v4, native };  // x86-64-v3, x86-64-v4, the host

struct CpuTarget {
  CpuLevel level{};
  std::string cpu;       // LLVM's name: "x86-64-v3", "znver4"
  std::string features;  // LLVM's list "+avx2,-avx512f", sorted; empty where the name says all
  bool operator==(const CpuTarget&) const = default;
};

// "cpu" (v3), "cpu:v3", "cpu:v4", "cpu:native". Only the last opens the library.
Result<CpuTarget> parse_cpu_target(std::string_view text);

struct NativeKernel {
  std::string name;    // Kernel::name
  std::string symbol;  // its function in the shared object: k0, k1, ... in the order given
  int64_t scratch_bytes = 0;
};

struct NativeObject {
  std::vector<std::byte> shared_object;  // empty if there are no kernels
  std::vector<NativeKernel> kernels;
  std::string llvm_version;
};

// Needs verified kernels. `progress` may be empty; it is called from worker threads, one call at a
// time.
Result<NativeObject> compile_kernels(std::span<const Kernel> kernels, const CpuTarget& target,
                                     const std::function<void(int done, int total)>& progress = {});

}  // namespace gm
