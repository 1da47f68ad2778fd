// Frames a conversation the way the chat template of the Qwen3.5 family does:
//
//   <|im_start|>system\nTEXT<|im_end|>\n<|im_start|>user\nTEXT<|im_end|>\n<|im_start|>assistant\n
//
// and behind it what opens the answer: `<think>\n`, after which the model reasons first, or
// `<think>\n\n</think>\n\n`, after which it answers at once. White space around a text is dropped,
// as the template does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/diag.h"
#include "runtime/tokenizer.h"

namespace gm {

struct Chat {
  std::optional<std::string> system;
  std::string user;
  bool think = true;
};

std::string chat_text(const Chat& chat);

// The ids of chat_text. The tokens of the frame must be tokens of the tokenizer, since a model that
// was not trained with them does not know what they mean. `where` is the conversation's place.
Result<std::vector<int32_t>> encode_chat(const Tokenizer& tokenizer, const Chat& chat,
                                         const Location& where);

}  // namespace gm
