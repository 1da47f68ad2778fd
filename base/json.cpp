#include "base/json.h"

#include <cmath>
#include <unordered_set>

#include "base/mapped_file.h"

namespace gm {
namespace {

constexpr size_t kMaxDepth = 100;

// Iterates over the text and tells how far the lexer has read: the SAX events come without places.
struct CountingIterator {
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  const char** furthest = nullptr;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    ++at;
    if (furthest != nullptr) *furthest = at;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
};

// Builds the document from the parser's events. It is ours, not the library's, for three reasons:
// duplicate keys must be seen, depth bounded, and keys appended without ordered_json's linear
// search (vocabularies have 250,000).
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const std::string& file)
      : text_(text), file_(file), read_(text.data()) {}

  Result<Json> build() {
    const CountingIterator begin{text_.data(), &read_};
    const CountingIterator end{text_.data() + text_.size(), nullptr};
    const bool good = Json::sax_parse(begin, end, this);
    if (fault_) return Error(std::move(*fault_));
    GM_CHECK(good && stack_.empty(), "JSON parser stopped without a fault");
    return std::move(root_);
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (!stack_.back().keys.insert(name).second) {
      return fail(Code::json_duplicate, key_start(), "leave one of them",
                  fmt::format("key \"{}\" is there twice in one object", name));
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const Json::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...": the
    // place is ours to say.
    std::string what = e.what();
    if (const size_t bracket = what.find("] "); bracket != std::string::npos)
      what.erase(0, bracket + 2);
    if (what.starts_with("parse error at")) {
      if (const size_t colon = what.find(": "); colon != std::string::npos)
        what.erase(0, colon + 2);
    }
    // It quotes what it read, and that may be any bytes at all.
    if (const size_t quote = what.find("; last read: "); quote != std::string::npos) {
      for (const char c : what) {
        if (c < 0x20 || c > 0x7e || what.size() > 200) {
          what.erase(quote);
          break;
        }
      }
    }
    const size_t index = position > 0 ? position - 1 : 0;
    return fail(Code::json_syntax, std::min(index, text_.size()),
                "correct the text there, or make the file again", "not well-formed JSON: " + what);
  }

 private:
  struct Open {
    Json* value;
    std::unordered_set<std::string> keys;
  };

  Json* place(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *stack_.back().value;
    if (parent.is_array()) {
      auto& array = parent.get_ref<Json::array_t&>();
      return &array.emplace_back(std::move(value));
    }
    auto& object = parent.get_ref<Json::object_t&>();
    return &object.emplace_back(std::move(key_), std::move(value)).second;
  }

  template <class T>
  bool add(T&& value) {
    place(Json(std::forward<T>(value)));
    return true;
  }

  bool open(Json container) {
    if (stack_.size() == kMaxDepth) {
      return fail(Code::json_syntax, read_index() - 1,
                  "make the file again: none of those that are read here is so deep",
                  fmt::format("JSON nested deeper than {} levels", kMaxDepth));
    }
    stack_.push_back({place(std::move(container)), {}});
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  size_t read_index() const { return static_cast<size_t>(read_ - text_.data()); }

  // The lexer stands behind the closing quote of a key; quotes inside are escaped, so the first
  // bare one opens it.
  size_t key_start() const {
    size_t i = read_index() - 1;
    while (i > 0) {
      --i;
      if (text_[i] != '"') continue;
      size_t slashes = 0;
      while (slashes < i && text_[i - 1 - slashes] == '\\') ++slashes;
      if (slashes % 2 == 0) break;
    }
    return i;
  }

  bool fail(Code code, size_t index, std::string fix, std::string message) {
    int line = 1;
    size_t line_start = 0;
    for (size_t i = 0; i < index; ++i) {
      if (text_[i] != '\n') continue;
      ++line;
      line_start = i + 1;
    }
    const int column = static_cast<int>(index - line_start) + 1;
    fault_ =
        Diag{code, std::move(message), Location::of_text(file_, line, column), std::move(fix), {}};
    return false;
  }

  std::string_view text_;
  const std::string& file_;
  const char* read_;
  Json root_;
  std::vector<Open> stack_;
  std::string key_;
  std::optional<Diag> fault_;
};

std::string_view kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::number_float:
      return "a fraction";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    default:
      return "something else";
  }
}

Error wrong_type(const JsonView& view, std::string_view expected) {
  return err(Code::json_field, view.where(), fmt::format("put {} there", expected),
             "expected {}, found {}", expected, kind_of(view.json()));
}

// What has no JSON form must not be written as something else: the library would print a NaN as
// null.
void check_finite(const Json& value) {
  if (value.is_number_float()) {
    GM_CHECK(std::isfinite(value.get<double>()), "a number written as JSON is not finite");
  }
  if (value.is_structured()) {
    for (const Json& item : value) check_finite(item);
  }
}

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& file) {
  return Builder(text, file).build();
}

Result<Json> read_json(const std::filesystem::path& path) {
  GM_ASSIGN(const std::string text, read_text_file(path));
  return parse_json(text, path.string());
}

std::string write_json(const Json& value) {
  check_finite(value);
  try {
    return value.dump(2) + "\n";
  } catch (const Json::exception& e) {
    check_failed(__FILE__, __LINE__, "UTF-8", fmt::format("text written as JSON: {}", e.what()));
  }
}

bool JsonView::has(std::string_view key) const {
  return value_->is_object() && value_->find(key) != value_->end();
}

Result<JsonView> JsonView::at(std::string_view key) const {
  if (!value_->is_object()) return wrong_type(*this, "an object");
  std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  const auto found = value_->find(key);
  if (found == value_->end()) {
    return err(Code::json_field, Location::of_path(file_, std::move(path)),
               "add it, or make the file again", "field \"{}\" is missing", key);
  }
  return JsonView(*found, file_, std::move(path));
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  JsonView view = *at(key);
  if (view.is_null()) return std::nullopt;
  return view;
}

Result<std::vector<JsonView>> JsonView::items() const {
  if (!value_->is_array()) return wrong_type(*this, "an array");
  std::vector<JsonView> views;
  views.reserve(value_->size());
  for (const Json& item : *value_) {
    views.emplace_back(item, file_, fmt::format("{}[{}]", path_, views.size()));
  }
  return views;
}

Result<std::vector<std::pair<std::string, JsonView>>> JsonView::members() const {
  if (!value_->is_object()) return wrong_type(*this, "an object");
  std::vector<std::pair<std::string, JsonView>> views;
  views.reserve(value_->size());
  for (const auto& [key, item] : value_->get_ref<const Json::object_t&>()) {
    views.emplace_back(
        key, JsonView(item, file_, path_.empty() ? key : fmt::format("{}.{}", path_, key)));
  }
  return views;
}

Result<std::string> JsonView::string() const {
  if (!value_->is_string()) return wrong_type(*this, "a string");
  return value_->get<std::string>();
}

Result<bool> JsonView::boolean() const {
  if (!value_->is_boolean()) return wrong_type(*this, "true or false");
  return value_->get<bool>();
}

Result<int64_t> JsonView::integer(int64_t lo, int64_t hi) const {
  const std::string expected = lo == INT64_MIN && hi == INT64_MAX ? std::string("an integer")
                               : hi == INT64_MAX ? fmt::format("an integer of at least {}", lo)
                                                 : fmt::format("an integer from {} to {}", lo, hi);
  if (!value_->is_number_integer()) return wrong_type(*this, expected);
  // Unsigned means that it was written without a sign, and it may not fit.
  const bool fits =
      !value_->is_number_unsigned() || value_->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  if (!fits || value_->get<int64_t>() < lo || value_->get<int64_t>() > hi) {
    return err(Code::json_field, where(), fmt::format("put {} there", expected),
               "expected {}, found {}", expected, value_->dump());
  }
  return value_->get<int64_t>();
}

Result<double> JsonView::number() const {
  if (!value_->is_number()) return wrong_type(*this, "a number");
  const double value = value_->get<double>();
  if (!std::isfinite(value))
    return err(Code::json_field, where(), "put a finite number there", "expected a finite number");
  return value;
}

}  // namespace gm
