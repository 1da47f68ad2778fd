// The weights of a plan, filled from a checkpoint in the layouts that the kernels read. Names,
// dtypes and shapes must be exactly those that the plan was compiled for; only the contents may
// differ, so a fine-tune binds without compiling.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "base/diag.h"
#include "base/safetensors.h"
#include "plan/plan.h"
#include "runtime/memory.h"
#include "runtime/thread_pool.h"

namespace gm {

class WeightStore {
 public:
  // The contents of a buffer of the plan.
  const std::byte* find(std::string_view buffer) const;
  int64_t bytes() const { return bytes_; }

 private:
  friend Result<WeightStore> bind_weights(const Plan&, const SafeTensors&, HostMemory&, ThreadPool&,
                                          const std::function<void(int64_t, int64_t)>&);
  std::map<std::string, Buffer, std::less<>> buffers_;
  int64_t bytes_ = 0;
};

// Needs a checked plan. A checkpoint with a layer that the plan lacks is refused, since it belongs
// to another model. `progress` may be empty: progress(bytes done, bytes in all), after each buffer.
Result<WeightStore> bind_weights(const Plan& plan, const SafeTensors& tensors, HostMemory& memory,
                                 ThreadPool& threads,
                                 const std::function<void(int64_t, int64_t)>& progress = {});

}  // namespace gm
