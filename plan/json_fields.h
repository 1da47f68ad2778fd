// Small readers that the JSON members of a plan share.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/sym.h"

namespace gm {

inline constexpr std::string_view kRecompile = "recompile the plan";

template <class... A>
Error field_error(const JsonView& at, fmt::format_string<A...> text, A&&... args) {
  return err(Code::plan_field, at.where(), std::string(kRecompile), text, std::forward<A>(args)...);
}

// Every key of the object is one of these: a field that this version does not know could change
// what the others mean.
Result<> known_keys(const JsonView& object, std::initializer_list<std::string_view> keys);

Result<std::string> string_field(const JsonView& object, std::string_view key);
Result<int64_t> integer_field(const JsonView& object, std::string_view key, int64_t lo = INT64_MIN,
                              int64_t hi = INT64_MAX);
Result<bool> boolean_field(const JsonView& object, std::string_view key);

// `read` makes a Result<T> of each item's JsonView.
template <class T, class F>
Result<std::vector<T>> list_field(const JsonView& object, std::string_view key, F read) {
  GM_ASSIGN(const JsonView array, object.at(key));
  GM_ASSIGN(const std::vector<JsonView> items, array.items());
  std::vector<T> list;
  list.reserve(items.size());
  for (const JsonView& item : items) {
    GM_ASSIGN(T value, read(item));
    list.push_back(std::move(value));
  }
  return list;
}

Result<std::vector<std::string>> strings_field(const JsonView& object, std::string_view key);
Result<std::vector<int64_t>> integers_field(const JsonView& object, std::string_view key,
                                            int64_t lo = INT64_MIN, int64_t hi = INT64_MAX);

// A symbolic integer is a JSON integer if it is constant and its text otherwise.
Json sym_json(const SymExpr& e);
Result<SymExpr> read_sym(const JsonView& at);

// The enumerator of `all` that to_string() names so.
template <class E, size_t N>
Result<E> enum_field(const JsonView& object, std::string_view key, const std::array<E, N>& all) {
  GM_ASSIGN(const JsonView at, object.at(key));
  GM_ASSIGN(const std::string text, at.string());
  for (const E value : all) {
    if (to_string(value) == text) return value;
  }
  std::string known;
  for (const E value : all)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", to_string(value));
  return field_error(at, "\"{}\" is none of {}", text, known);
}

}  // namespace gm
