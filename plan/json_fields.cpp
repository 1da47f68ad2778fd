#include "plan/json_fields.h"

#include <algorithm>

namespace gm {

Result<> known_keys(const JsonView& object, std::initializer_list<std::string_view> keys) {
  GM_ASSIGN(const auto members, object.members());
  for (const auto& [key, value] : members) {
    if (std::ranges::find(keys, key) == keys.end()) {
      return field_error(value, "field \"{}\" is unknown", key);
    }
  }
  return {};
}

Result<std::string> string_field(const JsonView& object, std::string_view key) {
  GM_ASSIGN(const JsonView at, object.at(key));
  return at.string();
}

Result<int64_t> integer_field(const JsonView& object, std::string_view key, int64_t lo,
                              int64_t hi) {
  GM_ASSIGN(const JsonView at, object.at(key));
  return at.integer(lo, hi);
}

Result<bool> boolean_field(const JsonView& object, std::string_view key) {
  GM_ASSIGN(const JsonView at, object.at(key));
  return at.boolean();
}

Result<std::vector<std::string>> strings_field(const JsonView& object, std::string_view key) {
  return list_field<std::string>(object, key, [](const JsonView& item) { return item.string(); });
}

Result<std::vector<int64_t>> integers_field(const JsonView& object, std::string_view key,
                                            int64_t lo, int64_t hi) {
  return list_field<int64_t>(object, key,
                             [&](const JsonView& item) { return item.integer(lo, hi); });
}

Json sym_json(const SymExpr& e) {
  if (const std::optional<int64_t> value = e.constant()) return *value;
  return e.to_string();
}

Result<SymExpr> read_sym(const JsonView& at) {
  if (!at.json().is_string()) {
    if (!at.json().is_number_integer()) {
      return field_error(at, "expected an integer, or the text of a symbolic one");
    }
    GM_ASSIGN(const int64_t value, at.integer());
    return SymExpr(value);
  }
  GM_ASSIGN(const std::string text, at.string());
  Result<SymExpr> e = SymExpr::parse(text);
  if (!e) return field_error(at, "\"{}\" is not a symbolic integer: {}", text, e.error().message);
  return e;
}

}  // namespace gm
