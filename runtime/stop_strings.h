// Ends a text at the first of several strings, wherever the borders of its pieces lie. What could
// still become one of them is held back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gm {

class StopStrings {
 public:
  // None may be empty.
  explicit StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {}

  // The text that is certain now. The text ends where, read byte by byte, one of the strings is
  // complete for the first time; if several are at that byte, the longest of them counts. What
  // stands before it is returned and matched() is true from then on.
  std::string push(std::string_view text);
  // The rest, when no more text will come.
  std::string finish();
  bool matched() const { return matched_; }

 private:
  std::vector<std::string> strings_;
  std::string held_;  // a proper beginning of at least one of the strings
  bool matched_ = false;
};

}  // namespace gm
