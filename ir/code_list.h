// Every code with all that can be said of it without a case at hand: what docs/codes.md lists and
// `graphmill explain` prints. Codes themselves are declared in base/codes.def and ir/reasons.def;
// here are the ranges that they are in.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diag.h"

namespace gm {

struct CodeRange {
  int first, last;
  std::string_view title;
  std::string_view advice;  // of errors: what to do about any of them
};

struct CodeEntry {
  int number = 0;
  std::string name;           // "GM1001", "F202"
  std::string label;          // "file-open", "index-maps-differ"
  std::string_view summary;   // what it means
  const CodeRange* range{};   // the one that has it
  Exit exit = Exit::ok;       // of errors
  std::string_view remedy{};  // of reasons: what would change the decision
};

// In the order of their numbers, as are the entries.
std::span<const CodeRange> error_ranges();
std::span<const CodeRange> reason_ranges();
std::vector<CodeEntry> all_errors();
std::vector<CodeEntry> all_reasons();

}  // namespace gm
