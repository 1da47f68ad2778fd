#include "runtime/text_stream.h"

#include <array>
#include <utility>

#include "runtime/byte_level.h"

namespace gm {

Result<std::string> TextStream::push(int32_t id) {
  if (!tokenizer_->has_entry(id)) {
    // decode() words the error
    const std::array<int32_t, 1> ids{id};
    return tokenizer_->decode(ids);
  }
  std::string text;
  if (skip_special_ && tokenizer_->is_special(id)) return text;
  held_ += tokenizer_->token_bytes(id);
  held_.erase(0, append_utf8_lossy(text, held_, true));
  return text;
}

std::string TextStream::finish() { return utf8_lossy(std::exchange(held_, {})); }

}  // namespace gm
