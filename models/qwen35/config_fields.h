// What the readers of config.json share: fields with this module's codes, and short forms for its
// errors.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "models/qwen35/config.h"

namespace gm::config_fields {

inline constexpr int64_t kMostTokens = (int64_t{1} << 31) - 1;  // of one sequence
inline constexpr std::string_view kRefetch =
    "give the value that the model was trained with, or fetch config.json again";

// A fault of a field as this module's own, with something to do about it.
template <class T>
Result<T> field(Result<T> value) {
  if (value) return value;
  Diag diag = std::move(value).error();
  diag.code = Code::config_field;
  diag.fix = kRefetch;
  return Error(std::move(diag));
}

inline Error unsupported(const JsonView& view, std::string_view what, std::string_view reads) {
  return err(Code::config_unsupported, view.where(), std::string(reads), "{} is not supported",
             what);
}

template <class... A>
Error inconsistent(const JsonView& text, std::string_view key, fmt::format_string<A...> format,
                   A&&... args) {
  const auto view = text.find(key);
  return err(Code::config_inconsistent, view ? view->where() : text.where(), std::string(kRefetch),
             format, std::forward<A>(args)...);
}

inline Result<int64_t> integer(const JsonView& text, std::string_view key, int64_t lo, int64_t hi) {
  GM_ASSIGN(const JsonView view, field(text.at(key)));
  return field(view.integer(lo, hi));
}

inline Result<> expect_text(const JsonView& text, std::string_view key,
                            std::initializer_list<std::string_view> only) {
  const auto view = text.find(key);
  if (!view) return {};
  GM_ASSIGN(const std::string value, field(view->string()));
  if (std::find(only.begin(), only.end(), value) != only.end()) return {};
  return unsupported(*view, fmt::format("{} = \"{}\"", key, value),
                     fmt::format("only \"{}\" {} read", fmt::join(only, "\" and \""),
                                 only.size() == 1 ? "is" : "are"));
}

// The rotary fields of the text part, in either of their places; needs head_dim and max_position.
Result<> read_rotary(const JsonView& text, Qwen35Config& config);

}  // namespace gm::config_fields
