// A plan that is ready to run: its weights, states and memory, all owned here and gone with it.
// Nothing is shared between instances and nothing outlives one.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/safetensors.h"
#include "plan/plan.h"
#include "runtime/executor.h"
#include "runtime/kernel_library.h"
#include "runtime/memory.h"
#include "runtime/state_pool.h"
#include "runtime/thread_pool.h"
#include "runtime/weights.h"

namespace gm {

struct InstanceOptions {
  RunSizes sizes;                        // zeros: from the plan and the machine
  std::optional<int64_t> memory_budget;  // bytes; nothing: what the system says is available
  ExecutorOptions executor;
  std::function<void(int64_t done, int64_t total)> progress;  // of the weights' bytes; may be empty
};

class Instance {
 public:
  // Needs a checked plan. Sums the memory and refuses before anything is allocated; afterwards all
  // of it is sealed. The tensors are only read during the call.
  static Result<std::unique_ptr<Instance>> create(std::shared_ptr<const Plan> plan,
                                                  std::shared_ptr<KernelLibrary> library,
                                                  const SafeTensors& tensors,
                                                  InstanceOptions options = {});
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const Plan& plan() const { return *plan_; }
  const RunSizes& sizes() const { return sizes_; }
  const MemoryNeed& need() const { return need_; }
  HostMemory& memory() { return memory_; }
  Executor& executor() { return *executor_; }
  const StateStore& states() const { return states_; }

 private:
  Instance() = default;

  // In the order of need: what is below uses what is above.
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<KernelLibrary> library_;
  RunSizes sizes_;
  MemoryNeed need_;
  HostMemory memory_;
  std::unique_ptr<ThreadPool> threads_;
  WeightStore weights_;
  StateStore states_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace gm
