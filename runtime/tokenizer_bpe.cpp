#include "runtime/tokenizer_bpe.h"

#include <algorithm>
#include <functional>

namespace gm {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr int32_t kGone = -1;  // a symbol that was joined to its left neighbour

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

// The standard hash is the identity, under which the dense ids of a vocabulary collide by design of
// the key.
size_t MergeTable::PairHash::operator()(uint64_t key) const {
  key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9u;
  key = (key ^ key >> 27) * 0x94D049BB133111EBu;
  return key ^ key >> 31;
}

bool MergeTable::add(int32_t left, int32_t right, int32_t merged) {
  const Merge merge{static_cast<uint32_t>(merges_.size()), merged};
  return merges_.emplace(pair_key(left, right), merge).second;
}

const MergeTable::Merge* MergeTable::find(int32_t left, int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void MergeTable::apply(std::span<const int32_t> word, Scratch& scratch,
                       std::vector<int32_t>& out) const {
  if (word.size() < 2) {
    out.insert(out.end(), word.begin(), word.end());
    return;
  }
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto count = static_cast<uint32_t>(word.size());
  symbols.resize(count);
  heap.clear();
  for (uint32_t i = 0; i < count; ++i)
    symbols[i] = {word[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};

  // (rank, place of the left symbol) orders the heap; the merged id comes along.
  const auto candidate = [&](uint32_t left) -> bool {
    const uint32_t right = symbols[left].next;
    if (right == kNone) return false;
    const Merge* merge = find(symbols[left].id, symbols[right].id);
    if (!merge) return false;
    heap.emplace_back(static_cast<uint64_t>(merge->rank) << 32 | left, merge->merged);
    return true;
  };
  const auto push = [&](uint32_t left) {
    if (candidate(left)) std::ranges::push_heap(heap, std::greater{});
  };
  for (uint32_t i = 0; i + 1 < count; ++i) candidate(i);
  std::ranges::make_heap(heap, std::greater{});

  while (!heap.empty()) {
    std::ranges::pop_heap(heap, std::greater{});
    const auto [key, merged] = heap.back();
    heap.pop_back();
    const auto left = static_cast<uint32_t>(key);
    if (symbols[left].id == kGone || symbols[left].next == kNone) continue;
    const uint32_t right = symbols[left].next;
    // An entry is stale when either symbol has been joined to something since. The pair then has
    // another rank or none.
    const Merge* merge = find(symbols[left].id, symbols[right].id);
    if (!merge || merge->rank != key >> 32) continue;
    symbols[left].id = merged;
    symbols[right].id = kGone;
    symbols[left].next = symbols[right].next;
    if (symbols[left].next != kNone) symbols[symbols[left].next].previous = left;
    if (symbols[left].previous != kNone) push(symbols[left].previous);
    push(left);
  }
  for (uint32_t i = 0; i != kNone; i = symbols[i].next) out.push_back(symbols[i].id);
}

}  // namespace gm
