#include "runtime/instance.h"

namespace gm {

Result<std::unique_ptr<Instance>> Instance::create(std::shared_ptr<const Plan> plan,
                                                   std::shared_ptr<KernelLibrary> library,
                                                   const SafeTensors& tensors,
                                                   InstanceOptions options) {
  std::unique_ptr<Instance> instance(new Instance());
  instance->plan_ = std::move(plan);
  instance->library_ = std::move(library);
  const Plan& p = *instance->plan_;
  GM_ASSIGN(instance->sizes_, RunSizes::for_plan(p, options.sizes));
  GM_ASSIGN(instance->need_, memory_need(p, instance->sizes_));
  if (!options.memory_budget) options.memory_budget = available_memory();
  if (options.memory_budget) GM_TRY(check_memory(instance->need_, *options.memory_budget));
  instance->threads_ = std::make_unique<ThreadPool>(instance->sizes_.threads);
  GM_ASSIGN(instance->weights_,
            bind_weights(p, tensors, instance->memory_, *instance->threads_, options.progress));
  GM_ASSIGN(instance->states_, StateStore::create(p, instance->sizes_, instance->memory_));
  GM_ASSIGN(
      instance->executor_,
      Executor::create(p, *instance->library_, instance->weights_, instance->states_,
                       instance->sizes_, instance->memory_, *instance->threads_, options.executor));
  instance->memory_.seal();
  return instance;
}

}  // namespace gm
