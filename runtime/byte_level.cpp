#include "runtime/byte_level.h"

#include <array>

namespace gm {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr size_t kAlphabetEnd = 0x144;  // the last of the alphabet is U+0143

// Printable Latin-1 stands for itself; the other bytes take U+0100 and up, in ascending order.
struct Alphabet {
  std::array<char32_t, 256> of_byte{};
  std::array<int16_t, kAlphabetEnd> to_byte{};

  constexpr Alphabet() {
    to_byte.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool own =
          (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
      const char32_t c = own ? static_cast<char32_t>(b) : next++;
      of_byte[static_cast<size_t>(b)] = c;
      to_byte[c] = static_cast<int16_t>(b);
    }
  }
};
constexpr Alphabet kAlphabet;

uint8_t byte_at(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const uint8_t first = byte_at(text, 0);
  if (first < 0x80) return {Utf8Kind::valid, 1};
  size_t width = 0;
  // The second byte has a narrower range where a longer form, a surrogate or more than U+10FFFF
  // would result.
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    width = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    width = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    width = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {Utf8Kind::invalid, 1};
  }
  for (size_t i = 1; i < width; ++i) {
    if (i == text.size()) return {Utf8Kind::incomplete, i};
    const uint8_t b = byte_at(text, i);
    if (b < low || b > high) return {Utf8Kind::invalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Kind::valid, width};
}

std::optional<size_t> utf8_error_offset(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind != Utf8Kind::valid) return at;
    at += step.length;
  }
  return std::nullopt;
}

size_t append_utf8_lossy(std::string& out, std::string_view text, bool hold_incomplete) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind == Utf8Kind::incomplete && hold_incomplete) break;
    if (step.kind == Utf8Kind::valid) {
      out.append(text.substr(at, step.length));
    } else {
      out.append(kReplacement);
    }
    at += step.length;
  }
  return at;
}

std::string utf8_lossy(std::string_view text) {
  std::string out;
  append_utf8_lossy(out, text, false);
  return out;
}

char32_t utf8_next(std::string_view text, size_t& at) {
  const uint8_t first = byte_at(text, at++);
  if (first < 0x80) return first;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  char32_t c = first & (0x3Fu >> more);
  for (int i = 0; i < more; ++i) c = c << 6 | (byte_at(text, at++) & 0x3Fu);
  return c;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      out += static_cast<char>(0xE0 | c >> 12);
    } else {
      out += static_cast<char>(0xF0 | c >> 18);
      out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    }
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
  }
  out += static_cast<char>(0x80 | (c & 0x3F));
}

std::optional<std::string> byte_level_bytes(std::string_view written) {
  if (utf8_error_offset(written)) return std::nullopt;
  std::string bytes;
  bytes.reserve(written.size());
  for (size_t at = 0; at < written.size();) {
    const char32_t c = utf8_next(written, at);
    if (c >= kAlphabetEnd || kAlphabet.to_byte[c] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.to_byte[c]);
  }
  return bytes;
}

std::string byte_level_text(std::string_view bytes) {
  std::string out;
  for (const char b : bytes) append_utf8(out, kAlphabet.of_byte[static_cast<uint8_t>(b)]);
  return out;
}

}  // namespace gm
