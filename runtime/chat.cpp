#include "runtime/chat.h"

namespace gm {
namespace {

// What the template's `trim` drops: all that Python takes for white space, not that of ASCII alone.
constexpr std::string_view kSpaces[] = {
    "\t",           "\n",           "\v",           "\f",           "\r",
    "\x1C",         "\x1D",         "\x1E",         "\x1F",         " ",
    "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
    "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
    "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
    "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};

std::string_view trimmed(std::string_view text) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view space : kSpaces) {
      const size_t before = text.size();
      if (text.starts_with(space)) text.remove_prefix(space.size());
      if (text.ends_with(space)) text.remove_suffix(space.size());
      again = again || text.size() < before;
    }
  }
  return text;
}

}  // namespace

std::string chat_text(const Chat& chat) {
  std::string text;
  const auto turn = [&](std::string_view role, std::string_view content) {
    text += fmt::format("<|im_start|>{}\n{}<|im_end|>\n", role, trimmed(content));
  };
  if (chat.system) turn("system", *chat.system);
  turn("user", chat.user);
  text += "<|im_start|>assistant\n<think>\n";
  if (!chat.think) text += "\n</think>\n\n";
  return text;
}

Result<std::vector<int32_t>> encode_chat(const Tokenizer& tokenizer, const Chat& chat,
                                         const Location& where) {
  for (const std::string_view token : {"<|im_start|>", "<|im_end|>", "<think>", "</think>"}) {
    if (tokenizer.token_id(token)) continue;
    return err(Code::request_chat, where,
               "frame the prompt as this model was trained, and give it without a chat",
               "the tokenizer has no token {}, which a chat is framed with", token);
  }
  return tokenizer.encode(chat_text(chat));
}

}  // namespace gm
