// Diagnostics as values. Whatever a user can cause (a wrong flag, a damaged file, an IR text with a
// mistake) is a Result<T> that carries a Diag: a code of base/codes.def, a message, the place,
// notes, and what to do about it. Our own mistakes are GM_CHECK, which prints what broke and ends
// the process with exit code 70.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace gm {

enum class Code : uint16_t {
#define GM_CODE(number, name, summary) name = number,
#include "base/codes.def"
#undef GM_CODE
};

// "GM1001", the form that is printed and that `graphmill explain` takes.
std::string code_name(Code code);
// The one-line summary of base/codes.def.
std::string_view code_summary(Code code);

// A place in a file (text: line and column from 1; binary: byte offset; JSON and safetensors:
// `path` names the field or tensor). Fields that do not apply stay empty or negative.
struct Location {
  std::string file;
  int line = 0;
  int column = 0;
  int64_t offset = -1;
  std::string path;

  static Location of_file(std::string file) { return {std::move(file), 0, 0, -1, {}}; }
  static Location of_text(std::string file, int line, int column) {
    return {std::move(file), line, column, -1, {}};
  }
  static Location of_offset(std::string file, int64_t offset) {
    return {std::move(file), 0, 0, offset, {}};
  }
  static Location of_path(std::string file, std::string path) {
    return {std::move(file), 0, 0, -1, std::move(path)};
  }

  bool empty() const { return file.empty() && path.empty(); }
  // "f.gm:3:14", "plan.gmp@0x40", "config.json: text_config.hidden_size"
  std::string to_string() const;
  bool operator==(const Location&) const = default;
};

struct Note {
  std::string message;
  Location location;
};

// Process exit codes (docs/architecture.md section 3).
enum class Exit : int {
  ok = 0,
  user_error = 1,
  verify_fault = 2,
  check_difference = 3,
  wrong_machine = 4,
  internal = 70
};

struct Diag {
  Code code;
  std::string message;  // one sentence, no full stop, no code
  Location location;
  std::string fix;  // what to do; empty if there is nothing to say
  std::vector<Note> notes;

  Diag&& note(std::string text, Location where = {}) &&;
  Diag&& at(Location where) &&;
  // Multi-line text: "error: MESSAGE [GM1001]\n  at LOCATION\n  note: ...\n  fix: ...\n".
  std::string to_string() const;
  // 40xx is wrong_machine, 90xx internal, all else user_error.
  Exit exit_code() const;
};

template <class T = void>
using Result = std::expected<T, Diag>;
using Error = std::unexpected<Diag>;

// return err(Code::file_open, Location::of_file(path), "give the folder that holds config.json",
// "cannot open: {}", why);
template <class... A>
[[nodiscard]] Error err(Code code, Location where, std::string fix, fmt::format_string<A...> text,
                        A&&... args) {
  return Error(Diag{
      code, fmt::format(text, std::forward<A>(args)...), std::move(where), std::move(fix), {}});
}

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& what);

}  // namespace gm

// GM_CHECK(i < n, "value {} of {}", i, n): our own invariant; failing it is a bug in graphmill
// (exit code 70).
#define GM_CHECK(condition, ...)                                                      \
  do {                                                                                \
    if (!(condition)) [[unlikely]]                                                    \
      ::gm::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)

// GM_TRY(expr): return the error of a Result<...> expression, go on if there is none.
#define GM_TRY(expr)                                        \
  do {                                                      \
    if (auto gm_result_ = (expr); !gm_result_) [[unlikely]] \
      return ::gm::Error(std::move(gm_result_).error());    \
  } while (false)

// GM_ASSIGN(auto x, expr): x = value of the Result, or return its error.
#define GM_CONCAT_(a, b) a##b
#define GM_CONCAT(a, b) GM_CONCAT_(a, b)
#define GM_ASSIGN_(tmp, target, expr)           \
  auto tmp = (expr);                            \
  if (!tmp) [[unlikely]]                        \
    return ::gm::Error(std::move(tmp).error()); \
  target = *std::move(tmp)
#define GM_ASSIGN(target, expr) GM_ASSIGN_(GM_CONCAT(gm_value_, __LINE__), target, expr)
