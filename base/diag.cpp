#include "base/diag.h"

#include <cstdio>
#include <cstdlib>

namespace gm {
namespace {

constexpr size_t kMostShown = 2000;

// Messages quote what users gave. A line break in it must not look like a line of ours, an escape
// sequence must not reach the terminal, and a file's worth of text must not bury what is said about
// it.
std::string one_line(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (shown.size() > kMostShown && (static_cast<unsigned char>(c) & 0xc0) != 0x80) {
      return shown + " ...";
    }
    if (c == '\n') {
      shown += "\\n";
    } else if (c == '\t') {
      shown += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      shown += c;
    }
  }
  return shown;
}

}  // namespace

std::string code_name(Code code) { return fmt::format("GM{:04}", static_cast<int>(code)); }

std::string_view code_summary(Code code) {
  switch (code) {
#define GM_CODE(number, name, summary) \
  case Code::name:                     \
    return summary;
#include "base/codes.def"
#undef GM_CODE
  }
  return "an unknown code";
}

std::string Location::to_string() const {
  std::string text = file;
  if (line > 0) {
    text += fmt::format(":{}", line);
    if (column > 0) text += fmt::format(":{}", column);
  }
  if (offset >= 0) text += fmt::format("@{:#x}", offset);
  if (!path.empty()) text += text.empty() ? path : ": " + path;
  return text;
}

Diag&& Diag::note(std::string text, Location where) && {
  notes.push_back({std::move(text), std::move(where)});
  return std::move(*this);
}

Diag&& Diag::at(Location where) && {
  location = std::move(where);
  return std::move(*this);
}

std::string Diag::to_string() const {
  std::string text = fmt::format("error: {} [{}]\n", one_line(message), code_name(code));
  // A text without a file name (a string given on the command line) still has a line and a column.
  if (const std::string where = one_line(location.to_string()); !where.empty()) {
    text += fmt::format("  at {}\n", where);
  }
  for (const Note& n : notes) {
    const std::string where = one_line(n.location.to_string());
    text += where.empty() ? fmt::format("  note: {}\n", one_line(n.message))
                          : fmt::format("  note: {}, at {}\n", one_line(n.message), where);
  }
  if (!fix.empty()) text += fmt::format("  fix: {}\n", one_line(fix));
  return text;
}

Exit Diag::exit_code() const {
  switch (static_cast<int>(code) / 100) {
    case 40:
      return Exit::wrong_machine;
    case 90:
      return Exit::internal;
    default:
      return Exit::user_error;
  }
}

void check_failed(const char* file, int line, const char* condition, const std::string& what) {
  std::fflush(stdout);
  fmt::print(stderr, "graphmill: internal error: {}\n  {} does not hold, {}:{}\n", what, condition,
             file, line);
  std::fflush(stderr);
  // No destructors: the state they would walk is the state that has just been found broken.
  std::_Exit(static_cast<int>(Exit::internal));
}

}  // namespace gm
