// Unicode normalisation form C (canonical decomposition, ordering, composition), with utf8proc's
// tables. Linear in the text but for the sorting of runs of combining marks, which is n log n.
#pragma once

#include <string>
#include <string_view>

namespace gm {

// `text` must be valid UTF-8.
std::string unicode_nfc(std::string_view text);

}  // namespace gm
