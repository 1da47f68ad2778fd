// The byte-level BPE tokenizer of the Qwen3.5 family, read from Hugging Face's tokenizer.json:
// added tokens, NFC, the model's Split pattern, merges. It gives the ids that Hugging Face gives
// with add_special_tokens=False. What the file asks for beyond that is refused with the place in
// the file, never ignored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diag.h"

namespace gm {

struct TokenizerModel;

// Movable. The const members may be called from several threads at once.
class Tokenizer {
 public:
  static Result<Tokenizer> parse(std::string_view json_text, const std::string& file_for_messages);
  static Result<Tokenizer> open_folder(const std::filesystem::path& folder);  // its tokenizer.json
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Invalid UTF-8 is an error with the offset of the first bad byte. Added tokens, special ones
  // too, are recognised in the text; nothing is put in front or behind.
  Result<std::vector<int32_t>> encode(std::string_view utf8) const;
  // The bytes of the tokens one after another, with U+FFFD for what is not UTF-8. An id without an
  // entry is an error.
  Result<std::string> decode(std::span<const int32_t> ids, bool skip_special = false) const;

  // The id of an added token or of a vocabulary entry, as written in the file.
  std::optional<int32_t> token_id(std::string_view content) const;
  bool has_entry(int32_t id) const;
  bool is_special(int32_t id) const;
  int32_t id_limit() const;  // one more than the largest id that has an entry
  // Maximal [low, high) ranges of ids that have entries, ascending: what a sampler may choose from.
  std::vector<std::pair<int32_t, int32_t>> entry_ranges() const;
  // What the id adds to a decoded text; not always UTF-8 by itself, and empty for an id without an
  // entry.
  std::string token_bytes(int32_t id) const;

 private:
  explicit Tokenizer(std::unique_ptr<const TokenizerModel> model);
  std::unique_ptr<const TokenizerModel> model_;
};

}  // namespace gm
