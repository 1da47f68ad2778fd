// Unicode normalisation form C (canonical decomposition, ordering, composition), with utf8proc's
// tables. Linear in the text but for the sorting of runs of combining marks, which is n log n.
// The Unicode version is utf8proc's. Hugging Face's tables are of Unicode 9, so that a combining
// mark assigned since (about 110) may there stay in its place where here it is put in canonical
// order.
#pragma once

#include <string>
#include <string_view>

namespace gm {

// `text` must be valid UTF-8.
std::string unicode_nfc(std::string_view text);

}  // namespace gm
