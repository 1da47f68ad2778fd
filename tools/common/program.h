// A program of subcommands. Each command is a function that returns an exit code or a Diag; here it
// gets its help, and mistakes on the command line get an error with the nearest known name. Results
// go to stdout, all else to stderr.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/diag.h"

namespace gm {

class ProgramLine {
 public:
  using Body = std::function<Result<Exit>()>;

  ProgramLine(std::string name, std::string description);

  // `doc` is one line; `example` is shown below the options.
  CLI::App& command(const std::string& name, const std::string& doc, const std::string& example,
                    Body body);

  // Parses, runs the chosen command and prints its error. The value for main() to return.
  int run(int argc, char** argv);

 private:
  Result<Exit> parse_and_run(std::vector<std::string> words);
  Diag explain(const CLI::ParseError& error) const;

  CLI::App app_;
  std::vector<std::pair<CLI::App*, Body>> commands_;
};

// A value of an option that has a closed set of them: an error with the nearest one if it has
// another.
Result<> one_of(std::string_view option, const std::string& value,
                std::span<const std::string> known);

// "1,2,63": decimal integers, each within [lo, hi].
Result<std::vector<int64_t>> integer_list(std::string_view option, std::string_view text,
                                          int64_t lo, int64_t hi);
// "cast,fuse"
std::vector<std::string> name_list(std::string_view text);

}  // namespace gm
