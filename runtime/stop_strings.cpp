#include "runtime/stop_strings.h"

#include <algorithm>
#include <utility>

namespace gm {

std::string StopStrings::push(std::string_view text) {
  if (matched_) return {};
  const size_t before = held_.size();
  held_ += text;
  const std::string_view all = held_;
  for (size_t end = before + 1; end <= all.size(); ++end) {
    size_t longest = 0;
    for (const std::string& s : strings_) {
      if (all.substr(0, end).ends_with(s)) longest = std::max(longest, s.size());
    }
    if (longest == 0) continue;
    matched_ = true;
    std::string certain(all.substr(0, end - longest));
    held_.clear();
    return certain;
  }
  // The longest end of the text that is a beginning of a string.
  size_t keep = 0;
  for (const std::string& s : strings_) {
    for (size_t length = std::min(s.size() - 1, all.size()); length > keep; --length) {
      if (all.ends_with(std::string_view(s).substr(0, length))) keep = length;
    }
  }
  std::string certain(all.substr(0, all.size() - keep));
  held_.erase(0, certain.size());
  return certain;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace gm
