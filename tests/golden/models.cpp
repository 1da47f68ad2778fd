#include "models.h"

#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "runtime/native_library.h"
#include "tools/common/interpreter_library.h"

namespace gm::golden {
namespace {

std::shared_ptr<KernelLibrary> library(const std::shared_ptr<const Plan>& plan, Backend backend) {
  if (backend == Backend::native) return need(load_native_library(*plan, "plan"));
  return interpreter_library(plan, "plan");
}

}  // namespace

std::string folder(const std::string& model) {
  return GRAPHMILL_SOURCE_DIR "/tests/golden/" + model;
}

std::vector<std::vector<int32_t>> prompts(const std::string& model) {
  const SafeTensors tensors = need(SafeTensors::open_file(folder(model) + "/golden.safetensors"));
  std::vector<std::vector<int32_t>> result;
  while (const StoredTensor* t = tensors.find(fmt::format("case{}.prompt", result.size()))) {
    std::vector<int32_t> ids(t->data.size() / sizeof(int32_t));
    std::memcpy(ids.data(), t->data.data(), t->data.size());
    result.push_back(std::move(ids));
  }
  return result;
}

std::shared_ptr<const Plan> plan(const std::string& model, DType dtype, bool fusion,
                                 const std::string& target) {
  static std::map<std::string, std::shared_ptr<const Plan>> plans;
  auto& known = plans[fmt::format("{} {} {} {}", model, to_string(dtype), fusion, target)];
  if (known) return known;
  CompileOptions options;
  options.dtype = dtype;
  options.fusion = fusion;
  options.target = target;
  options.max_tokens = 512;
  options.max_context = 512;
  CompileResult compiled = need(compile_model(need(import_checkpoint(folder(model))), options));
  known = std::make_shared<const Plan>(*std::move(compiled.plan));
  return known;
}

Outcome generate(const std::string& model, DType dtype, const std::vector<Request>& requests,
                 const How& how) {
  const auto compiled = plan(model, dtype, how.fusion, how.target);
  const SafeTensors tensors = need(SafeTensors::open_folder(folder(model)));
  InstanceOptions options;
  options.sizes.threads = how.threads;
  options.sizes.rows = 512;
  options.sizes.move_arena = how.poison;
  options.executor.poison = how.poison;
  const auto instance =
      need(Instance::create(compiled, library(compiled, how.backend), tensors, options));
  GeneratorOptions generator_options;
  generator_options.prefill_chunk = how.prefill_chunk;
  generator_options.capture = Capture::all;
  Generator generator = need(Generator::create(*instance, generator_options));
  Outcome outcome;
  auto take = [&](std::span<const Request> some) {
    for (Completion& c : need(generator.run(some))) {
      outcome.tokens.push_back(std::move(c.ids));
      outcome.logits.push_back(std::move(c.logits));
    }
  };
  if (how.batched) {
    take(requests);
  } else {
    for (const Request& request : requests) take({&request, 1});
  }
  return outcome;
}

}  // namespace gm::golden
