// Prints tokens as they are sampled. A token may end inside a UTF-8 character; the stream holds
// such bytes back until the character is whole or cannot become so. All that push() and finish()
// returned, joined, is what Tokenizer::decode gives for all the ids.
#pragma once

#include <cstdint>
#include <string>

#include "base/diag.h"
#include "runtime/tokenizer.h"

namespace gm {

class TextStream {
 public:
  // The tokenizer must outlive the stream.
  explicit TextStream(const Tokenizer& tokenizer, bool skip_special = false)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  // The text that is certain now, maybe empty. An id without an entry is an error and changes
  // nothing.
  Result<std::string> push(int32_t id);
  // The rest, with U+FFFD for an unfinished character; the stream is then as new.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string held_;  // at most the first three bytes of a character
};

}  // namespace gm
