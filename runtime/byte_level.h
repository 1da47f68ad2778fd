// The byte-level alphabet of GPT-2 tokenizers, in which each of the 256 bytes is written as one
// printable character, and the UTF-8 rules that reading text and printing tokens share. Invalid
// UTF-8 is replaced as Rust's from_utf8_lossy and Python's errors="replace" do: one U+FFFD for each
// maximal prefix of a sequence that cannot be completed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gm {

enum class Utf8Kind : uint8_t {
  valid,       // `length` bytes are one character
  invalid,     // `length` bytes can become no character, whatever follows
  incomplete,  // the text ends inside a character; `length` bytes of it are there
};
struct Utf8Step {
  Utf8Kind kind;
  size_t length;  // 1 to 4
};

// What stands at the front of `text`, which must not be empty.
Utf8Step utf8_step(std::string_view text);
// The offset of the first byte that is not part of a valid character, if there is one.
std::optional<size_t> utf8_error_offset(std::string_view text);
// Appends `text` with U+FFFD for what is invalid. With `hold_incomplete`, an unfinished character
// at the end is left out; the return value is the number of bytes of `text` consumed.
size_t append_utf8_lossy(std::string& out, std::string_view text, bool hold_incomplete);
std::string utf8_lossy(std::string_view text);
// One character of valid UTF-8 at `text[at]`, moving `at` behind it.
char32_t utf8_next(std::string_view text, size_t& at);
void append_utf8(std::string& out, char32_t c);

// The bytes that a token written in the byte-level alphabet stands for; nothing if any character is
// not of the alphabet.
std::optional<std::string> byte_level_bytes(std::string_view written);
// The reverse: bytes written in the alphabet.
std::string byte_level_text(std::string_view bytes);

}  // namespace gm
