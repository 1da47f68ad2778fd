#include "codegen/cpu/sym_text.h"

#include <array>
#include <charconv>
#include <utility>

#include "base/diag.h"

namespace gm::cpu {
namespace {

using Kind = SymTree::Kind;

constexpr std::array<std::pair<std::string_view, Kind>, 5> kFunctions = {
    {{"ceildiv", Kind::ceildiv},
     {"floordiv", Kind::floordiv},
     {"mod", Kind::mod},
     {"min", Kind::min},
     {"max", Kind::max}}};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  SymTree whole() {
    SymTree tree = sum();
    GM_CHECK(peek() == '\0', "'{}' at {} of '{}'", peek(), at_, text_);
    return tree;
  }

 private:
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) { GM_CHECK(take(c), "no '{}' at {} of '{}'", c, at_, text_); }

  SymTree sum() {
    SymTree left = product();
    for (;;) {
      if (take('+')) {
        left = SymTree{Kind::add, 0, {}, {std::move(left), product()}};
      } else if (take('-')) {
        left = SymTree{Kind::sub, 0, {}, {std::move(left), product()}};
      } else {
        return left;
      }
    }
  }

  SymTree product() {
    SymTree left = factor();
    while (take('*')) left = SymTree{Kind::mul, 0, {}, {std::move(left), factor()}};
    return left;
  }

  SymTree factor() {
    if (take('(')) {
      SymTree inner = sum();
      expect(')');
      return inner;
    }
    const char c = peek();
    // The sign belongs to the number, since the lowest int64 has no positive counterpart.
    const bool negative = c == '-';
    const size_t digits = at_ + (negative ? 1 : 0);
    if (digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9') {
      SymTree number{Kind::number, 0, {}, {}};
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), number.number);
      GM_CHECK(error == std::errc(), "a number too large at {} of '{}'", at_, text_);
      at_ = static_cast<size_t>(end - text_.data());
      return number;
    }
    if (take('-')) return SymTree{Kind::neg, 0, {}, {factor()}};
    size_t end = at_;
    while (end < text_.size() &&
           std::string_view(" +-*(),").find(text_[end]) == std::string_view::npos)
      ++end;
    GM_CHECK(end > at_, "no operand at {} of '{}'", at_, text_);
    const std::string_view name = text_.substr(at_, end - at_);
    at_ = end;
    if (peek() != '(') return SymTree{Kind::symbol, 0, std::string(name), {}};
    for (const auto& [function, kind] : kFunctions) {
      if (function != name) continue;
      expect('(');
      SymTree left = sum();
      expect(',');
      do {  // min and max may have more than two arms
        left = SymTree{kind, 0, {}, {std::move(left), sum()}};
      } while (take(','));
      expect(')');
      return left;
    }
    GM_CHECK(false, "unknown function '{}' in '{}'", name, text_);
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

SymTree parse_sym_tree(std::string_view text) { return Parser(text).whole(); }

}  // namespace gm::cpu
