// What a tokenizer.json holds, checked and indexed: the inside of Tokenizer, shared by its reader
// and its uses.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/tokenizer_bpe.h"
#include "runtime/tokenizer_regex.h"

namespace gm {

inline constexpr int32_t kMaxTokenIds = 1 << 24;

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
};
using TokenIds = std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>>;

// Finds added tokens in a text: the leftmost, and of those that start there the longest.
class AddedTokenFinder {
 public:
  // False if there is one of this text already.
  bool add(std::string_view text, int32_t id);
  struct Match {
    size_t start;
    size_t length;
    int32_t id;
  };
  std::optional<Match> next(std::string_view text, size_t from) const;

 private:
  TokenIds ids_;
  std::array<std::vector<size_t>, 256>
      lengths_;  // by first byte: the lengths there are, descending
};

// The ids that have entries and the bytes each adds to a decoded text.
class TokenEntries {
 public:
  // All entries, sorted by id, each id once.
  void assign(const std::vector<std::pair<int32_t, std::string>>& entries);
  std::optional<std::string_view> find(int32_t id) const;
  const std::vector<std::pair<int32_t, int32_t>>& ranges() const { return ranges_; }

 private:
  std::vector<std::pair<int32_t, int32_t>> ranges_;
  std::vector<size_t> first_index_;  // of each range, into offsets_
  std::vector<size_t> offsets_;      // into bytes_, one more than entries
  std::string bytes_;
};

struct TokenizerModel {
  TokenizerRegex regex;
  bool nfc = false;
  bool ignore_merges = false;
  AddedTokenFinder raw_added{};         // found in the text as it is
  AddedTokenFinder normalized_added{};  // found after NFC
  TokenIds added{};                     // by content
  std::set<int32_t> special{};
  TokenIds vocab{};        // by bytes: entries written in the byte-level alphabet
  TokenIds other_vocab{};  // by content: entries that are not, which no text encodes to
  std::array<int32_t, 256> byte_ids{};  // -1: the vocabulary lacks the byte
  MergeTable merges{};
  TokenEntries entries{};

  // The id of a vocabulary entry by its content as written in the file.
  std::optional<int32_t> vocab_id(std::string_view content) const;
};

}  // namespace gm
