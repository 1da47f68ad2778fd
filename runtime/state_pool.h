// The states of all sequences: the buffers that a plan asks for, and who has which slot and which
// pages of them.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "runtime/memory.h"

namespace gm {

class StateStore {
 public:
  static Result<StateStore> create(const Plan& plan, const RunSizes& sizes, HostMemory& memory);
  std::byte* find(std::string_view state) const;

 private:
  std::map<std::string, Buffer, std::less<>> buffers_;
};

// Hands out the ids 0 to size - 1, the lowest free one first, so that a run's ids do not depend on
// its past.
class IdPool {
 public:
  explicit IdPool(int64_t size);
  std::optional<int32_t> take();
  void give_back(int32_t id);
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t size() const { return size_; }

 private:
  int64_t size_;
  std::vector<int32_t> free_;  // a heap, the lowest on top
  std::vector<bool> taken_;
};

// A sequence's pages. They are promised when it is admitted and taken one by one as it grows, so a
// sequence that runs never waits for one that waits for it.
class PageAllocator {
 public:
  PageAllocator(int64_t pages, int64_t page_tokens) : ids_(pages), page_tokens_(page_tokens) {}

  int64_t pages_for(int64_t tokens) const;
  // False if not as many are left that nobody was promised.
  bool promise(int64_t pages);
  // Grows `table` to hold `tokens`; within what was promised.
  void grow(std::vector<int32_t>& table, int64_t tokens);
  // The pages back, and what was promised beyond them.
  void release(std::vector<int32_t>& table, int64_t promised);
  int64_t total() const { return ids_.size(); }
  int64_t unpromised() const { return ids_.size() - promised_; }

 private:
  IdPool ids_;
  int64_t page_tokens_;
  int64_t promised_ = 0;
};

}  // namespace gm
