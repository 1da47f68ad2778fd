#include "runtime/unicode_nfc.h"

#include <algorithm>
#include <array>
#include <vector>

#include <utf8proc.h>

#include "base/diag.h"
#include "runtime/byte_level.h"

namespace gm {

// utf8proc_map would do all of this in one call, but it orders combining marks by a quadratic
// exchange sort, which lets a short hostile text cost minutes.
std::string unicode_nfc(std::string_view text) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return std::string(text);

  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  std::vector<utf8proc_int32_t> chars;
  chars.reserve(text.size());
  std::array<utf8proc_int32_t, 32> parts;  // a canonical decomposition has at most 4 characters
  for (size_t at = 0; at < text.size();) {
    const auto c = static_cast<utf8proc_int32_t>(utf8_next(text, at));
    int boundary_class = 0;  // of graphemes, unused
    const auto count =
        utf8proc_decompose_char(c, parts.data(), parts.size(), kOptions, &boundary_class);
    GM_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()),
             "U+{:04X} decomposes into {} characters", c, count);
    chars.insert(chars.end(), parts.begin(), parts.begin() + count);
  }

  const auto combining = [](utf8proc_int32_t c) {
    return utf8proc_get_property(c)->combining_class;
  };
  for (auto first = chars.begin(); first != chars.end();) {
    if (combining(*first) == 0) {
      ++first;
      continue;
    }
    const auto last = std::find_if(first, chars.end(), [&](auto c) { return combining(c) == 0; });
    std::stable_sort(first, last, [&](auto a, auto b) { return combining(a) < combining(b); });
    first = last;
  }

  const auto count =
      utf8proc_normalize_utf32(chars.data(), static_cast<utf8proc_ssize_t>(chars.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  GM_CHECK(count >= 0, "utf8proc_normalize_utf32 failed with {}", count);
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    append_utf8(out, static_cast<char32_t>(chars[static_cast<size_t>(i)]));
  return out;
}

}  // namespace gm
