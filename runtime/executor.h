// Runs steps of a plan on the CPU, kernel after kernel in the order of the plan, each one's work
// items shared by the threads of the pool. Everything is allocated when it is made: one arena for
// all programs, scratch for each thread, and the inputs and outputs of each program at their
// largest.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "runtime/kernel_library.h"
#include "runtime/memory.h"
#include "runtime/state_pool.h"
#include "runtime/step.h"
#include "runtime/thread_pool.h"
#include "runtime/weights.h"

namespace gm {

// Valid until the next step.
struct TensorView {
  DType dtype{};
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;

  int64_t elements() const;
  std::vector<float> to_f32() const;  // of float dtypes
  std::span<const int32_t> i32() const;
  std::span<const float> f32() const;
};

struct ExecutorOptions {
  // Before each step, everything that a step must write before it reads is overwritten, and the
  // arena lies elsewhere (RunSizes::move_arena). No output bit may change.
  bool poison = false;
};

class Executor {
 public:
  // Everything that is passed must outlive the executor. The plan must be checked.
  static Result<std::unique_ptr<Executor>> create(const Plan& plan, KernelLibrary& library,
                                                  const WeightStore& weights,
                                                  const StateStore& states, const RunSizes& sizes,
                                                  HostMemory& memory, ThreadPool& threads,
                                                  ExecutorOptions options = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Checks the step's extents and inputs, then runs it. An error leaves all states as they were.
  Result<> run(const Step& step);

  // Of the last step; nothing if its program has no such output.
  std::optional<TensorView> output(std::string_view name) const;

  int64_t steps() const { return steps_; }
  // The extent of an input's axis that does not depend on the step (the columns of `pages`);
  // nothing if there is none.
  std::optional<int64_t> input_extent(std::string_view program, std::string_view input,
                                      size_t axis) const;

 private:
  struct BoundProgram;

  Executor(const Plan& plan, const RunSizes& sizes, ThreadPool& threads, ExecutorOptions options);
  Result<> bind(const Program& program, KernelLibrary& library, const WeightStore& weights,
                const StateStore& states, HostMemory& memory);
  Result<> set_dims(BoundProgram& program, const Step& step);
  Result<> set_inputs(BoundProgram& program, const Step& step);
  void poison(BoundProgram& program);

  const Plan& plan_;
  const RunSizes sizes_;
  ThreadPool& threads_;
  const ExecutorOptions options_;
  std::array<Buffer, 2> arenas_;
  size_t arena_ = 0;
  Buffer scratch_;
  int64_t scratch_each_ = 0;
  std::vector<std::unique_ptr<BoundProgram>> programs_;
  const BoundProgram* last_ = nullptr;
  std::vector<uint8_t> seen_;
  std::vector<int64_t> node_dims_;
  int64_t steps_ = 0;
};

}  // namespace gm
