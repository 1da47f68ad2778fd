#include "runtime/state_pool.h"

#include <algorithm>
#include <functional>

namespace gm {

Result<StateStore> StateStore::create(const Plan& plan, const RunSizes& sizes, HostMemory& memory) {
  StateStore store;
  for (const StateBuffer& state : plan.states) {
    int64_t bytes = size_bytes(state.dtype);
    const bool paged = state.shape.at(0) == SymExpr::symbol("pages");
    bytes *= paged ? sizes.pages : sizes.slots;
    for (size_t i = 1; i < state.shape.size(); ++i) bytes *= state.shape[i].constant().value_or(0);
    GM_ASSIGN(Buffer buffer, memory.allocate(bytes, "state " + state.name));
    store.buffers_.emplace(state.name, std::move(buffer));
  }
  return store;
}

std::byte* StateStore::find(std::string_view state) const {
  const auto found = buffers_.find(state);
  return found == buffers_.end() ? nullptr : found->second.data();
}

IdPool::IdPool(int64_t size) : size_(size), taken_(static_cast<size_t>(size), false) {
  GM_CHECK(size >= 0 && size <= INT32_MAX, "a pool of {} ids", size);
  free_.reserve(static_cast<size_t>(size));
  for (int64_t id = 0; id < size; ++id)
    free_.push_back(static_cast<int32_t>(id));  // a heap already
}

std::optional<int32_t> IdPool::take() {
  if (free_.empty()) return std::nullopt;
  std::pop_heap(free_.begin(), free_.end(), std::greater<>());
  const int32_t id = free_.back();
  free_.pop_back();
  taken_[static_cast<size_t>(id)] = true;
  return id;
}

void IdPool::give_back(int32_t id) {
  GM_CHECK(id >= 0 && id < size_ && taken_[static_cast<size_t>(id)], "id {} was not taken", id);
  taken_[static_cast<size_t>(id)] = false;
  free_.push_back(id);
  std::push_heap(free_.begin(), free_.end(), std::greater<>());
}

int64_t PageAllocator::pages_for(int64_t tokens) const {
  return tokens / page_tokens_ + (tokens % page_tokens_ != 0);
}

bool PageAllocator::promise(int64_t pages) {
  if (pages > unpromised()) return false;
  promised_ += pages;
  return true;
}

void PageAllocator::grow(std::vector<int32_t>& table, int64_t tokens) {
  while (static_cast<int64_t>(table.size()) < pages_for(tokens)) {
    const std::optional<int32_t> page = ids_.take();
    GM_CHECK(page.has_value(), "a sequence takes more pages than it was promised");
    table.push_back(*page);
  }
}

void PageAllocator::release(std::vector<int32_t>& table, int64_t promised) {
  GM_CHECK(static_cast<int64_t>(table.size()) <= promised && promised <= promised_,
           "{} pages of {} promised ones come back", table.size(), promised);
  for (const int32_t page : table) ids_.give_back(page);
  table.clear();
  promised_ -= promised;
}

}  // namespace gm
