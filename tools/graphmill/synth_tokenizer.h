// The tokenizer of a checkpoint with random weights: one token a byte, and the family's added
// tokens, so that any text can be a prompt and every id that it makes is in the vocabulary.
#pragma once

#include <cstdint>
#include <string>

#include "base/diag.h"

namespace gm {

struct SynthTokenizer {
  std::string json;       // tokenizer.json
  int64_t first_added{};  // the id of <|endoftext|>
};

// Byte b is id b. The added tokens have the published ids if the vocabulary reaches so far, else
// they follow the bytes. All other ids stay without an entry. `where` is for the error when the
// vocabulary is too small.
Result<SynthTokenizer> synth_tokenizer(int64_t vocab, const Location& where);

}  // namespace gm
