#include "tools/common/program.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <new>

#include "ir/nearest.h"

namespace gm {
namespace {

std::string suggestion(std::string_view name, const std::vector<std::string>& known,
                       const std::string& help) {
  const std::string nearest = nearest_name(name, known);
  return nearest.empty() ? fmt::format("see `{} --help`", help)
                         : fmt::format("did you mean '{}'? see `{} --help`", nearest, help);
}

// Memory that the system refuses is the user's machine, whatever asked for it; no other exception
// is expected.
Result<Exit> guarded(const ProgramLine::Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return err(Code::memory_refused, {}, "free memory, or give a smaller model or limits",
               "the system refuses the memory that this needs");
  }
}

// CLI11 ends no message the way a Diag does.
std::string as_message(std::string text) {
  while (!text.empty() && (text.back() == '.' || text.back() == '\n')) text.pop_back();
  return text;
}

}  // namespace

ProgramLine::ProgramLine(std::string name, std::string description)
    : app_(std::move(description), std::move(name)) {
  app_.require_subcommand(1);
  app_.set_help_flag("-h,--help", "print this and exit");
  app_.set_version_flag("--version", app_.get_name() + " " GRAPHMILL_TOOLS_VERSION);
  app_.footer(
      "Each command has its own --help. Exit codes: 0 done, 1 an error in what was given, 3 "
      "`check` found a "
      "difference,\n4 the wrong machine for this plan, 70 an error of ours.");
}

CLI::App& ProgramLine::command(const std::string& name, const std::string& doc,
                               const std::string& example, Body body) {
  CLI::App* command = app_.add_subcommand(name, doc);
  command->set_help_flag("-h,--help", "print this and exit");
  command->footer(fmt::format("Example:\n  {} {}", app_.get_name(), example));
  commands_.emplace_back(command, std::move(body));
  return *command;
}

int ProgramLine::run(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  Result<Exit> result = parse_and_run(std::move(words));
  if (!result) {
    std::fflush(stdout);
    fmt::print(stderr, "{}", result.error().to_string());
    return static_cast<int>(result.error().exit_code());
  }
  // A full disk or a closed pipe shows here at the latest.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "{}",
               Diag{Code::file_write,
                    "the result cannot be written",
                    Location::of_file("stdout"),
                    "see whether the disk is full or the reader has gone",
                    {}}
                   .to_string());
    return static_cast<int>(Exit::user_error);
  }
  return static_cast<int>(*result);
}

Result<Exit> ProgramLine::parse_and_run(std::vector<std::string> words) {
  if (words.empty()) {
    fmt::print(stderr, "{}", app_.help());
    return Exit::user_error;
  }
  if (!words[0].starts_with("-")) {
    std::vector<std::string> known;
    known.reserve(commands_.size());
    for (const auto& [command, body] : commands_) known.push_back(command->get_name());
    if (std::ranges::find(known, words[0]) == known.end()) {
      return err(Code::command_line, {}, suggestion(words[0], known, app_.get_name()),
                 "there is no command '{}'", words[0]);
    }
  }
  try {
    std::ranges::reverse(words);  // CLI11 takes them from the back
    app_.parse(std::move(words));
  } catch (const CLI::Success& success) {
    app_.exit(success);  // prints help or the version to stdout
    return Exit::ok;
  } catch (const CLI::ParseError& error) {
    return Error(explain(error));
  }
  for (const auto& [command, body] : commands_) {
    if (command->parsed()) return guarded(body);
  }
  GM_CHECK(false, "no command was parsed");
}

Diag ProgramLine::explain(const CLI::ParseError& error) const {
  std::string help = app_.get_name();
  const CLI::App* where = &app_;
  for (const auto& [command, body] : commands_) {
    if (!command->parsed()) continue;
    where = command;
    help += " " + command->get_name();
  }
  std::vector<std::string> extras = app_.remaining(true);
  if (const auto* extra = dynamic_cast<const CLI::ExtrasError*>(&error);
      extra != nullptr || !extras.empty()) {
    // An unknown option explains the arguments that are left over or missing because of it, so it
    // is named first.
    const auto option = std::ranges::find_if(
        extras, [](const std::string& e) { return e.size() > 1 && e[0] == '-'; });
    if (option != extras.end()) {
      std::string name = option->substr(0, option->find('='));
      std::vector<std::string> known;
      for (const CLI::Option* o : where->get_options()) {
        for (const std::string& l : o->get_lnames()) known.push_back("--" + l);
        for (const std::string& s : o->get_snames()) known.push_back("-" + s);
      }
      return {Code::command_line,
              fmt::format("there is no option '{}' of `{}`", name, help),
              {},
              suggestion(name, known, help),
              {}};
    }
    if (extra != nullptr && !extras.empty()) {
      return {Code::command_line,
              fmt::format("'{}' is one argument too many for `{}`", extras.front(), help),
              {},
              fmt::format("see `{} --help`", help),
              {}};
    }
  }
  return {
      Code::command_line, as_message(error.what()), {}, fmt::format("see `{} --help`", help), {}};
}

Result<> one_of(std::string_view option, const std::string& value,
                std::span<const std::string> known) {
  if (std::ranges::find(known, value) != known.end()) return {};
  std::string all;
  for (const std::string& k : known) all += (all.empty() ? "" : ", ") + k;
  const std::string nearest = nearest_name(value, known);
  return err(Code::command_line, {},
             nearest.empty() ? fmt::format("choose one of: {}", all)
                             : fmt::format("did you mean '{}'? choose one of: {}", nearest, all),
             "{} cannot be '{}'", option, value);
}

Result<std::vector<int64_t>> integer_list(std::string_view option, std::string_view text,
                                          int64_t lo, int64_t hi) {
  std::vector<int64_t> values;
  if (text.empty()) {
    return err(Code::command_line, {},
               fmt::format("give integers from {} to {}, separated by commas", lo, hi),
               "{} is empty", option);
  }
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    std::string_view word = text.substr(at, end - at);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    int64_t value = 0;
    const auto [stop, fault] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (word.empty() || fault != std::errc() || stop != word.data() + word.size() || value < lo ||
        value > hi) {
      return err(Code::command_line, {},
                 fmt::format("give integers from {} to {}, separated by commas", lo, hi),
                 "'{}' in {} is not such a number", word, option);
    }
    values.push_back(value);
    at = end + 1;
  }
  return values;
}

std::vector<std::string> name_list(std::string_view text) {
  std::vector<std::string> names;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (end > at) names.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

}  // namespace gm
