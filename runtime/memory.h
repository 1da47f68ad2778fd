// Memory of a run. What will be needed is summed part by part before anything is allocated, and
// refused when it does not fit. All of it then comes from one HostMemory, which is sealed once
// everything is there: a later allocation is an error, since memory that a step sees must not come
// and go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/diag.h"
#include "plan/plan.h"

namespace gm {

// Zeroed memory, 64-byte aligned at least; freed with it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  friend class HostMemory;
  void release();
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  bool mapped_ = false;
};

class HostMemory {
 public:
  // `what` is for the message when the system refuses.
  Result<Buffer> allocate(int64_t bytes, std::string_view what);
  void seal() { sealed_ = true; }
  bool sealed() const { return sealed_; }
  int64_t allocated_bytes() const { return allocated_; }

 private:
  bool sealed_ = false;
  int64_t allocated_ = 0;
};

// What is chosen when a plan is opened; `for_plan` fills what was left 0 and refuses what the plan
// does not allow.
struct RunSizes {
  int64_t slots = 0;        // sequences at a time; 0: as many as the plan was compiled for
  int64_t pages = 0;        // of the cache; 0: enough for all of them at full length
  int64_t rows = 0;         // rows of logits in a step; 0: one a sequence
  int threads = 0;          // 0: as many as the machine has
  bool move_arena = false;  // a second arena, to alternate between (Executor's poison mode)

  static Result<RunSizes> for_plan(const Plan& plan, RunSizes wanted);
};

struct MemoryPart {
  std::string name;  // "weights", "kv cache", ...
  int64_t bytes = 0;
  std::string detail;  // "4 slots"
};

struct MemoryNeed {
  std::vector<MemoryPart> parts;
  int64_t total = 0;
};

// Error: a size leaves 64 bits.
Result<MemoryNeed> memory_need(const Plan& plan, const RunSizes& sizes);

// The lesser of MemAvailable and what the control group leaves; nothing if the system does not say.
std::optional<int64_t> available_memory();

// memory_budget with the sum part by part in the notes if `need` is above `budget`.
Result<> check_memory(const MemoryNeed& need, int64_t budget);

// The program's symbols with the upper ends that they have in this run: slots, pages and rows as
// chosen.
SymTable run_symbols(const Program& program, const RunSizes& sizes);

// "12.3 MiB"
std::string bytes_text(int64_t bytes);

}  // namespace gm
