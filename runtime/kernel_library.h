// Where kernels come from: the native code of a plan (runtime/native_library.h), or an interpreter
// of their text that the tools provide. The runtime itself knows neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/diag.h"
#include "plan/plan.h"

namespace gm {

// One kernel: dims in the order of PlanKernel::dims, args in the order of PlanKernel::params, work
// items [begin, end) counted through all parts in order, scratch of PlanKernel::scratch_bytes,
// 64-byte aligned, used by no other thread. Called from several threads at once with disjoint
// ranges.
using KernelFn = std::function<void(const int64_t* dims, void* const* args, int64_t begin,
                                    int64_t end, std::byte* scratch)>;

class KernelLibrary {
 public:
  virtual ~KernelLibrary() = default;
  // The function stays valid while the library lives.
  virtual Result<KernelFn> find(const PlanKernel& kernel) = 0;
};

}  // namespace gm
