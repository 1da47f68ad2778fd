#include "runtime/tokenizer_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "runtime/byte_level.h"

namespace gm {
namespace {

constexpr size_t kMaxPatternBytes = 16 << 10;
constexpr uint32_t kMaxHeapKib = 256 << 10;
constexpr uint32_t kMaxDepth = 4 << 20;
// Backtracking steps of one attempt: a fixed part, and some for each byte, since `\s*[\r\n]+`
// honestly takes back a run of spaces as long as the text.
constexpr uint64_t kMatchSteps = 1'000'000;
constexpr uint64_t kMatchStepsPerByte = 16;

bool is_general_category(std::string_view name) {
  static constexpr std::array<std::string_view, 37> kNames = {
      "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
      "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
      "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};
  return std::ranges::find(kNames, name) != kNames.end();
}

// Walks a pattern once, copies it with `\s` spelled out, and stops at the first construct that
// PCRE2 and Oniguruma read differently. Constructs that are plain mistakes are left for PCRE2 to
// report.
class Dialect {
 public:
  Dialect(std::string_view pattern, const Location& where) : pattern_(pattern), where_(where) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) {
      const size_t start = at_;
      const char c = pattern_[at_++];
      if (c == '\\') {
        GM_TRY(escape(start));
        continue;
      }
      out_ += c;
      if (in_class_) {
        if (c == '[') return refuse(start, "a class inside a class");
        if (c == '&' && peek() == '&') return refuse(start, "&& in a class");
        if (c == ']') in_class_ = false;
        continue;
      }
      if (c == '[') {
        in_class_ = true;
        if (peek() == '^') out_ += pattern_[at_++];
        if (peek() == ']') return refuse(at_, "] as the first of a class");
      } else if (c == '(') {
        GM_TRY(group(start));
      } else if (c == '^' || c == '$') {
        return refuse(start, std::string(1, c));
      } else if (c == '{') {
        if (peek() == ',') return refuse(start, "{,");
      } else if (c == '}' && peek() == '+') {
        return refuse(start, "}+");
      }
    }
    return std::move(out_);
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }

  Error refuse(size_t offset, std::string_view what) const {
    return err(Code::tokenizer_regex, where_, "write the pattern without it",
               "the pattern uses {} at byte {}, which is not supported", what, offset);
  }

  Result<> escape(size_t start) {
    const char c = peek();
    if (c == '\0') {  // a backslash at the end, or before NUL
      out_ += '\\';
      return {};
    }
    ++at_;
    if (c == 's' || c == 'S') {
      out_ += c == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
      return {};
    }
    if (c == 'p' || c == 'P') return property(start);
    const bool letter_or_digit = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (letter_or_digit && std::string_view("rntdD").find(c) == std::string_view::npos)
      return refuse(start, pattern_.substr(start, 2));
    out_ += '\\';
    out_ += c;
    return {};
  }

  // Only general categories: a bare script name means the script in one and its extensions in the
  // other.
  Result<> property(size_t start) {
    const size_t close = pattern_.find('}', start);
    if (peek() != '{' || close == std::string_view::npos)
      return refuse(start, fmt::format("\\{} without {{..}}", pattern_[start + 1]));
    std::string_view name = pattern_.substr(start + 3, close - start - 3);
    if (name.starts_with('^')) name.remove_prefix(1);
    if (!is_general_category(name))
      return refuse(start,
                    utf8_lossy(pattern_.substr(start, std::min<size_t>(close + 1 - start, 40))));
    out_ += pattern_.substr(start, close + 1 - start);
    at_ = close + 1;
    return {};
  }

  Result<> group(size_t start) {
    if (peek() == '*') return refuse(start, "(*");
    if (peek() != '?') return {};
    static constexpr std::array<std::string_view, 7> kOpenings = {"?:",  "?i:", "?=", "?!",
                                                                  "?<=", "?<!", "?>"};
    for (const std::string_view opening : kOpenings) {
      if (!pattern_.substr(at_).starts_with(opening)) continue;
      out_ += opening;
      at_ += opening.size();
      return {};
    }
    return refuse(start, utf8_lossy(pattern_.substr(start, 3)));
  }

  std::string_view pattern_;
  const Location& where_;
  std::string out_;
  size_t at_ = 0;
  bool in_class_ = false;
};

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

struct FreeCode {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};
struct FreeContext {
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};

PCRE2_SPTR pcre2_text(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct TokenizerRegex::Compiled {
  std::unique_ptr<pcre2_code, FreeCode> code;
  Location where;
};

TokenizerRegex::TokenizerRegex(std::unique_ptr<Compiled> compiled)
    : compiled_(std::move(compiled)) {}
TokenizerRegex::TokenizerRegex(TokenizerRegex&&) noexcept = default;
TokenizerRegex& TokenizerRegex::operator=(TokenizerRegex&&) noexcept = default;
TokenizerRegex::~TokenizerRegex() = default;

Result<TokenizerRegex> TokenizerRegex::compile(std::string_view pattern, const Location& where) {
  if (pattern.size() > kMaxPatternBytes)
    return err(Code::tokenizer_regex, where, "shorten it",
               "the pattern has {} bytes; the limit is {}", pattern.size(), kMaxPatternBytes);
  GM_ASSIGN(const std::string text, Dialect(pattern, where).run());
  int code = 0;
  PCRE2_SIZE offset = 0;
  std::unique_ptr<pcre2_code, FreeCode> compiled(
      pcre2_compile(pcre2_text(text), text.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                    &code, &offset, nullptr));
  if (!compiled)
    return err(Code::tokenizer_regex, where, "give a valid regular expression",
               "the pattern is not valid: {} (after \"{}\")", pcre2_message(code),
               utf8_lossy(std::string_view(text).substr(0, offset)));
  return TokenizerRegex(std::make_unique<Compiled>(std::move(compiled), where));
}

Result<std::vector<std::string_view>> TokenizerRegex::split(std::string_view text) const {
  std::vector<std::string_view> pieces;
  if (text.empty()) return pieces;
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
  const std::unique_ptr<pcre2_match_context, FreeContext> context(
      pcre2_match_context_create(nullptr));
  if (!match || !context)
    return err(Code::tokenizer_match, compiled_->where, "", "out of memory for matching");
  const uint64_t steps = kMatchSteps + kMatchStepsPerByte * text.size();
  pcre2_set_match_limit(context.get(),
                        static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
  pcre2_set_depth_limit(context.get(), kMaxDepth);
  pcre2_set_heap_limit(context.get(), kMaxHeapKib);

  size_t cut = 0;   // everything before is in `pieces`
  size_t from = 0;  // where the search goes on
  while (from < text.size()) {
    const int found = pcre2_match(compiled_->code.get(), pcre2_text(text), text.size(), from,
                                  PCRE2_NO_UTF_CHECK, match.get(), context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      return err(Code::tokenizer_match, compiled_->where,
                 "shorten the text, or use a pattern that backtracks less",
                 "the pre-tokenizer's pattern gives up at byte {} of a text of {} bytes: {}", from,
                 text.size(), pcre2_message(found));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
    const size_t start = range[0];
    const size_t end = range[1];
    if (end <= start) {  // an empty match cuts, and the search goes on behind the next character
      if (start >= text.size()) break;
      if (start > cut) pieces.push_back(text.substr(cut, start - cut));
      cut = start;
      from = start + utf8_step(text.substr(start)).length;
      continue;
    }
    if (start > cut) pieces.push_back(text.substr(cut, start - cut));
    pieces.push_back(text.substr(start, end - start));
    cut = from = end;
  }
  if (cut < text.size()) pieces.push_back(text.substr(cut));
  return pieces;
}

}  // namespace gm
