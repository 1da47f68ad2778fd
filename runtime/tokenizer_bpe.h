// Byte-pair merging of one pre-token: of all adjacent pairs that have a merge, the one of the
// lowest rank is joined first, the leftmost among equals, until none is left. A heap over a linked
// list makes it n log n, so that a pre-token as long as the text costs no more than the text's
// worth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gm {

class MergeTable {
 public:
  void reserve(size_t count) { merges_.reserve(count); }
  // The next rank; false if the pair has a merge already.
  bool add(int32_t left, int32_t right, int32_t merged);

  // Working memory of `apply`, reused from word to word.
  struct Scratch {
    struct Symbol {
      int32_t id;
      uint32_t previous;
      uint32_t next;
    };
    std::vector<Symbol> symbols;
    std::vector<std::pair<uint64_t, int32_t>> heap;
  };
  // Appends the merged ids of `word` to `out`. At most 2^31 ids.
  void apply(std::span<const int32_t> word, Scratch& scratch, std::vector<int32_t>& out) const;

 private:
  struct Merge {
    uint32_t rank;
    int32_t merged;
  };
  struct PairHash {
    size_t operator()(uint64_t key) const;
  };
  const Merge* find(int32_t left, int32_t right) const;

  std::unordered_map<uint64_t, Merge, PairHash> merges_;
};

}  // namespace gm
