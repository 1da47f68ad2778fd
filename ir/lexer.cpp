#include "ir/lexer.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace gm {
namespace {

constexpr size_t kMaxSource = size_t{256} << 20;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_letter(c) || is_digit(c) || c == '.'; }
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Scanner {
 public:
  Scanner(std::string_view source, const std::string& file) : source_(source), file_(file) {}

  Result<std::vector<Token>> run() {
    if (source_.size() > kMaxSource)
      return err(Code::ir_limit, Location::of_file(file_), "split the file",
                 "an IR text of {} bytes is over the limit of {}", source_.size(), kMaxSource);
    for (;;) {
      skip_space();
      Token token;
      token.line = line_;
      token.column = static_cast<int>(at_ - line_start_) + 1;
      token.begin = at_;
      if (at_ < source_.size()) GM_TRY(scan(token));
      token.end = at_;
      token.text = source_.substr(token.begin, token.end - token.begin);
      const bool last = token.kind == TokenKind::end;
      if (token.kind == TokenKind::identifier && (token.text == "inf" || token.text == "nan")) {
        token.kind = TokenKind::real;
        token.real = token.text == "inf" ? std::numeric_limits<double>::infinity()
                                         : std::numeric_limits<double>::quiet_NaN();
      }
      tokens_.push_back(std::move(token));
      if (last) return std::move(tokens_);
    }
  }

 private:
  char look(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  void skip_space() {
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == '\n') {
        ++at_;
        ++line_;
        line_start_ = at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '/' && look(1) == '/') {
        while (at_ < source_.size() && source_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }

  Error fail(const Token& token, std::string fix, std::string text) const {
    return err(Code::ir_token, Location::of_text(file_, token.line, token.column), std::move(fix),
               "{}", text);
  }

  // Whether the token before ends a value, so that a sign here is an operator.
  bool after_value() const {
    if (tokens_.empty()) return false;
    const Token& last = tokens_.back();
    return last.kind != TokenKind::punctuation || last.text == ")" || last.text == "]" ||
           last.text == "}";
  }

  Result<> scan(Token& token) {
    const char c = look();
    if (is_letter(c)) {
      token.kind = TokenKind::identifier;
      while (is_name_char(look())) ++at_;
      return {};
    }
    if (c == '%' || c == '@') {
      ++at_;
      while (is_name_char(look())) ++at_;
      if (c == '@' && at_ - token.begin == 1 &&
          (look() == '"' || (look() == ' ' && look(1) == '"'))) {
        token.kind = TokenKind::punctuation;  // before a place: @ "layers.0"
        return {};
      }
      if (at_ - token.begin == 1)
        return fail(token, "write a name of letters, digits, '_' and '.' after it",
                    fmt::format("'{}' without a name", c));
      token.kind = c == '%' ? TokenKind::value_name : TokenKind::at_name;
      token.value = source_.substr(token.begin + 1, at_ - token.begin - 1);
      return {};
    }
    if (c == '"') return scan_string(token);
    if (is_digit(c)) return scan_number(token);
    if (c == '-' && !after_value()) {
      if (is_digit(look(1))) return scan_number(token);
      if (source_.substr(at_, 4) == "-inf" && !is_name_char(look(4))) {
        at_ += 4;
        token.kind = TokenKind::real;
        token.real = -std::numeric_limits<double>::infinity();
        return {};
      }
    }
    token.kind = TokenKind::punctuation;
    const std::string_view two = source_.substr(at_, 2);
    if (two == "->" || two == "<=" || two == ">=" || two == "==") {
      at_ += 2;
      return {};
    }
    if (std::string_view("()[]{},:;=+-*/<>!?|&^#").find(c) != std::string_view::npos) {
      ++at_;
      return {};
    }
    const bool printable = c >= 0x20 && c < 0x7f;
    return fail(token, "remove it, or put it into a string",
                printable ? fmt::format("the character '{}' has no meaning here", c)
                          : fmt::format("the byte 0x{:02x} has no meaning here",
                                        static_cast<unsigned char>(c)));
  }

  Result<> scan_number(Token& token) {
    const size_t begin = at_;
    if (look() == '-') ++at_;
    const bool negative = at_ != begin;
    if (look() == '0' && (look(1) == 'x' || look(1) == 'X')) {
      at_ += 2;
      const size_t digits = at_;
      while (hex_digit(look()) >= 0) ++at_;
      return finish_integer(token, source_.substr(digits, at_ - digits), 16, negative);
    }
    const size_t digits = at_;
    while (is_digit(look())) ++at_;
    bool real = false;
    if (look() == '.' && is_digit(look(1))) {
      real = true;
      ++at_;
      while (is_digit(look())) ++at_;
    }
    if (look() == 'e' || look() == 'E') {
      const size_t sign = look(1) == '-' || look(1) == '+' ? 1 : 0;
      if (is_digit(look(1 + sign))) {
        real = true;
        at_ += 1 + sign;
        while (is_digit(look())) ++at_;
      }
    }
    if (!real) return finish_integer(token, source_.substr(digits, at_ - digits), 10, negative);
    if (is_name_char(look())) return glued(token);
    token.kind = TokenKind::real;
    const char* first = source_.data() + begin;
    const char* last = source_.data() + at_;
    const auto [end, error] = std::from_chars(first, last, token.real);
    if (error != std::errc() || end != last)
      return fail(token, "write a number that a 64-bit float can hold",
                  fmt::format("the number {} is out of range", std::string_view(first, last)));
    return {};
  }

  Result<> finish_integer(Token& token, std::string_view digits, int base, bool negative) {
    if (digits.empty() || is_name_char(look())) return glued(token);
    token.kind = TokenKind::integer;
    uint64_t magnitude = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, base);
    const uint64_t limit = uint64_t{1} << 63;
    if (error != std::errc() || magnitude > limit || (magnitude == limit && !negative))
      return fail(token, "write a number that a 64-bit integer can hold",
                  "the integer is out of range");
    token.integer = static_cast<int64_t>(negative ? ~magnitude + 1 : magnitude);
    token.real = static_cast<double>(token.integer);
    return {};
  }

  Result<> glued(const Token& token) {
    return fail(token, "put a space after the number, or begin the name with a letter",
                "a number runs into a name");
  }

  Result<> scan_string(Token& token) {
    token.kind = TokenKind::string;
    ++at_;
    for (;;) {
      const char c = look();
      if (at_ >= source_.size() || c == '\n')
        return fail(token, "close the string with '\"' on its line, and write a line break as \\n",
                    "a string does not end");
      ++at_;
      if (c == '"') return {};
      if (c != '\\') {
        token.value += c;
        continue;
      }
      const char e = look();
      ++at_;
      if (e == '"' || e == '\\') {
        token.value += e;
      } else if (e == 'n') {
        token.value += '\n';
      } else if (e == 't') {
        token.value += '\t';
      } else if (e == 'r') {
        token.value += '\r';
      } else if (e == 'x' && hex_digit(look()) >= 0 && hex_digit(look(1)) >= 0) {
        token.value += static_cast<char>(hex_digit(look()) * 16 + hex_digit(look(1)));
        at_ += 2;
      } else {
        return fail(token, "use \\\" \\\\ \\n \\t \\r or \\xNN", "a string has an unknown escape");
      }
    }
  }

  std::string_view source_;
  const std::string& file_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

template <class Float>
std::string shortest(Float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

Result<TokenStream> TokenStream::of(std::string_view source, std::string file) {
  TokenStream stream;
  stream.source_ = source;
  stream.file_ = std::move(file);
  GM_ASSIGN(stream.tokens_, Scanner(source, stream.file_).run());
  return stream;
}

const Token& TokenStream::peek(size_t ahead) const {
  const size_t last = tokens_.size() - 1;
  return tokens_[ahead > last - position_ ? last : position_ + ahead];
}

Token TokenStream::next() {
  Token token = peek();
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

Location TokenStream::location_of(const Token& token) const {
  return Location::of_text(file_, token.line, token.column);
}

bool TokenStream::accept(std::string_view text) {
  if (!peek().is(text)) return false;
  if (position_ + 1 < tokens_.size()) ++position_;
  return true;
}

Error TokenStream::unexpected(std::string_view what) const {
  const Token& token = peek();
  constexpr size_t kShown = 40;
  std::string found = "the end of the text";
  if (token.kind != TokenKind::end) {
    found = fmt::format("'{}{}'", token.text.substr(0, kShown),
                        token.text.size() > kShown ? "..." : "");
  }
  return err(Code::ir_syntax, location(), fmt::format("write {} here", what),
             "expected {} but found {}", what, found);
}

Result<> TokenStream::expect(std::string_view text) {
  if (!accept(text)) return unexpected(fmt::format("'{}'", text));
  return {};
}

Result<std::string> TokenStream::expect_identifier(std::string_view what) {
  if (peek().kind != TokenKind::identifier) return unexpected(what);
  return std::string(next().text);
}

Result<std::string> TokenStream::expect_value_name(std::string_view what) {
  if (peek().kind != TokenKind::value_name) return unexpected(what);
  return next().value;
}

Result<std::string> TokenStream::expect_at_name(std::string_view what) {
  if (peek().kind != TokenKind::at_name) return unexpected(what);
  return next().value;
}

Result<std::string> TokenStream::expect_string(std::string_view what) {
  if (peek().kind != TokenKind::string) return unexpected(what);
  return next().value;
}

Result<int64_t> TokenStream::expect_integer(std::string_view what) {
  if (peek().kind != TokenKind::integer) return unexpected(what);
  return next().integer;
}

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (c == '\r') {
      result += "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

bool is_name(std::string_view name, bool plain) {
  if (name.empty()) return false;
  for (const char c : name) {
    if (!is_name_char(c)) return false;
  }
  return !plain || (is_letter(name[0]) && name != "inf" && name != "nan");
}

std::string real_text(float value) { return shortest(value); }
std::string real_text(double value) { return shortest(value); }

}  // namespace gm
