// The pre-tokenizer's regular expression. tokenizer.json is written for Oniguruma; here PCRE2
// matches, so a pattern may use only the constructs that both read alike, and `\s` is spelled out
// as White_Space (PCRE2 counts U+180E as space, Oniguruma does not). Anything else is refused by
// name. Matching has limits, so that no pattern hangs the process.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/diag.h"

namespace gm {

class TokenizerRegex {
 public:
  // `where` is the place of the pattern in the tokenizer's file.
  static Result<TokenizerRegex> compile(std::string_view pattern, const Location& where);
  TokenizerRegex(TokenizerRegex&&) noexcept;
  TokenizerRegex& operator=(TokenizerRegex&&) noexcept;
  ~TokenizerRegex();

  // Cuts `text` (valid UTF-8) into the matches and what lies between them, in order; no piece is
  // empty.
  Result<std::vector<std::string_view>> split(std::string_view text) const;

 private:
  struct Compiled;
  explicit TokenizerRegex(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace gm
