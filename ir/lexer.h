// The tokens of IR text, shared by the parsers of graphs and of tile kernels. A file is cut into
// tokens at once, so that a parser works on a checked stream with unlimited look-ahead; every token
// knows its line, column and byte range.
//
// Names may hold dots and, after % or @, start with a digit: `bf16`, `layers.0`, `%layers.0.x`,
// `@main`. A sign belongs to a number unless a value stands before it: `[-1, 2]` is a number, `a
// -1` is a subtraction. `inf`, `nan`, `-inf` are real numbers. `//` starts a comment that ends with
// the line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/diag.h"

namespace gm {

enum class TokenKind : uint8_t {
  end,         // after the last token, any number of times
  identifier,  // tokens, chain, layers.0
  value_name,  // %name
  at_name,     // @name
  string,      // "text", with \" \\ \n \t \r \xNN
  integer,     // 12, -3, 0x1f
  real,        // 1.5, 1e-06, -inf, nan
  punctuation  // one of ( ) [ ] { } , : ; = + - * / < > ! ? | & ^ # -> <= >= ==
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  // as written, with % or @ or quotes; a view into the source
  std::string value;      // names without % or @; strings decoded; else empty
  int64_t integer = 0;
  double real = 0;  // integer tokens have it too
  int line = 1, column = 1;
  size_t begin = 0, end = 0;  // bytes of the source

  bool is(std::string_view punctuation_or_word) const {
    return (kind == TokenKind::punctuation || kind == TokenKind::identifier) &&
           text == punctuation_or_word;
  }
};

// A reader of tokens. The source must outlive it. Copies are cheap enough to backtrack by.
class TokenStream {
 public:
  static Result<TokenStream> of(std::string_view source, std::string file);

  const Token& peek(size_t ahead = 0) const;
  Token next();
  bool at_end() const { return peek().kind == TokenKind::end; }
  Location location() const { return location_of(peek()); }
  Location location_of(const Token& token) const;
  const std::string& file() const { return file_; }
  std::string_view source() const { return source_; }

  // Takes the token if it is this punctuation or this word.
  bool accept(std::string_view punctuation_or_word);
  // Takes it or fails: "expected ')' but found 'x'".
  Result<> expect(std::string_view punctuation_or_word);
  // `what` names it in the error: "a parameter name". The result is Token::value (Token::text of an
  // identifier).
  Result<std::string> expect_identifier(std::string_view what);
  Result<std::string> expect_value_name(std::string_view what);
  Result<std::string> expect_at_name(std::string_view what);
  Result<std::string> expect_string(std::string_view what);
  Result<int64_t> expect_integer(std::string_view what);
  // "expected WHAT but found FOUND" at the current token.
  Error unexpected(std::string_view what) const;

 private:
  std::string_view source_;
  std::string file_;
  std::vector<Token> tokens_;  // ends with one `end`
  size_t position_ = 0;
};

// The text as a string token.
std::string quote(std::string_view text);
// Whether `%name` or `@name` (or, if `plain`, the bare name) reads back as one token.
bool is_name(std::string_view name, bool plain = false);
// The shortest text that reads back as the same number and as a real token: "1.0", "1e-06", "-inf",
// "nan".
std::string real_text(float value);
std::string real_text(double value);

}  // namespace gm
