// JSON with located errors. Parsing is nlohmann-json's; a JsonView adds the path of a value, so
// that a missing or mistyped field is reported as "config.json: text_config.hidden_size".
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/diag.h"

namespace gm {

using Json = nlohmann::ordered_json;  // keeps the order it was written in

// Depth is bounded; duplicate keys are refused. `file` is used in messages only.
Result<Json> parse_json(std::string_view text, const std::string& file);
Result<Json> read_json(const std::filesystem::path& path);
// Two-space indentation, one trailing newline, no locale, shortest round-trip floats: equal values
// give equal bytes.
std::string write_json(const Json& value);

// A non-owning look at one value of a document, with where it is.
class JsonView {
 public:
  JsonView(const Json& value, std::string file, std::string path = {})
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  const Json& json() const { return *value_; }
  Location where() const { return Location::of_path(file_, path_); }
  bool is_object() const { return value_->is_object(); }
  bool is_null() const { return value_->is_null(); }

  bool has(std::string_view key) const;
  Result<JsonView> at(std::string_view key) const;           // missing: json_field
  std::optional<JsonView> find(std::string_view key) const;  // missing or null: nothing
  Result<std::vector<JsonView>> items() const;               // must be an array
  Result<std::vector<std::pair<std::string, JsonView>>> members()
      const;  // must be an object; in file order

  Result<std::string> string() const;
  Result<bool> boolean() const;
  // An integer within [lo, hi]; a float, a string or an out-of-range number is an error that says
  // what was expected.
  Result<int64_t> integer(int64_t lo = INT64_MIN, int64_t hi = INT64_MAX) const;
  Result<double> number() const;  // finite

 private:
  const Json* value_;
  std::string file_;
  std::string path_;
};

}  // namespace gm
