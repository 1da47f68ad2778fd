#include <algorithm>
#include <cctype>

#include "ir/code_list.h"
#include "ir/nearest.h"
#include "tools/common/output.h"
#include "tools/graphmill/commands.h"

namespace gm {
namespace {

struct ExplainFlags {
  std::string code;
  bool list = false;
};

std::vector<CodeEntry> all_codes() {
  std::vector<CodeEntry> codes = all_errors();
  std::ranges::copy(all_reasons(), std::back_inserter(codes));
  return codes;
}

bool is_reason(const CodeEntry& code) { return code.name.starts_with('F'); }

std::string_view exit_class(Exit exit) {
  switch (exit) {
    case Exit::wrong_machine:
      return "the wrong machine for a sound plan";
    case Exit::internal:
      return "a bug in graphmill";
    default:
      return "something is wrong with what was given";
  }
}

std::string page(const CodeEntry& code) {
  std::string text = fmt::format("{} {}\n", code.name, code.label);
  text += fmt::format("  means:  {}\n", code.summary);
  if (is_reason(code)) {
    text += fmt::format("  class:  a fusion decision: {}\n", code.range->title);
    text += fmt::format("  to change it:  {}\n", code.remedy);
    return text;
  }
  text += fmt::format("  from:  {}\n", code.range->title);
  text += fmt::format("  class:  {}; exit code {}\n", exit_class(code.exit),
                      static_cast<int>(code.exit));
  text += fmt::format("  what to do:  {}\n", code.range->advice);
  return text;
}

std::string list() {
  std::vector<std::vector<std::string>> rows = {{"code", "name", "what it means"}};
  for (const CodeEntry& code : all_codes())
    rows.push_back({code.name, code.label, std::string(code.summary)});
  return table_text(rows);
}

// Any way in which a code is written: GM1001, gm1001, 1001, file-open, file_open. Letters become
// small and underscores hyphens.
std::string canonical(std::string_view text) {
  std::string result;
  for (const char c : text) {
    result += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

Result<Exit> explain(const ExplainFlags& flags) {
  if (flags.list) {
    if (!flags.code.empty()) {
      return err(Code::command_line, {}, "leave out one of them",
                 "--list shows all codes, and CODE is '{}'", flags.code);
    }
    print_text(list());
    return Exit::ok;
  }
  if (flags.code.empty()) {
    return err(Code::command_line, {}, "see `graphmill explain --list`", "CODE is missing");
  }
  const std::string wanted = canonical(flags.code);
  const std::vector<CodeEntry> codes = all_codes();
  std::vector<std::string> known;
  for (const CodeEntry& code : codes) {
    if (wanted == canonical(code.name) || wanted == code.label ||
        wanted == fmt::format("{}", code.number)) {
      print_text(page(code));
      return Exit::ok;
    }
    known.push_back(canonical(code.name));
    known.push_back(code.label);
  }
  // Digits alone are near to a code only behind the letters that it begins with.
  const bool digits = std::ranges::all_of(wanted, [](char c) { return c >= '0' && c <= '9'; });
  const std::string nearest =
      nearest_name(digits ? (wanted.size() > 3 ? "gm" : "f") + wanted : wanted, known);
  for (const CodeEntry& code : codes) {
    if (nearest != canonical(code.name) && nearest != code.label) continue;
    return err(Code::command_line, {},
               fmt::format("did you mean '{}' ({})? see `graphmill explain --list`", code.name,
                           code.label),
               "there is no code '{}'", flags.code);
  }
  GM_CHECK(false, "'{}' is no code", nearest);
}

}  // namespace

void add_explain(ProgramLine& program) {
  const auto flags = std::make_shared<ExplainFlags>();
  CLI::App& command =
      program.command("explain", "say what the code of an error or of a fusion decision means",
                      "explain GM1001", [flags] { return explain(*flags); });
  command.add_option("CODE", flags->code,
                     "GM1001, 1001, file-open, F202, index-maps-differ; in capitals or not");
  command.add_flag("--list", flags->list, "all codes, a line each");
}

}  // namespace gm
