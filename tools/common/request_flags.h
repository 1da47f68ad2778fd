// The options of `run` that say how requests are continued: how many tokens, how they are chosen,
// where a text ends, and how a prompt is framed. They hold for each line of a file of requests that
// does not say otherwise.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "runtime/generator.h"

namespace gm {

struct RequestDefaults {
  Request request = {};            // without ids
  bool temperature_given = false;  // else a filter, such as top-k, would have no effect
  bool chat = false;               // prompts are framed as the user's turn
  bool think = true;               // of what is framed
  std::optional<std::string> system = {};
};

class RequestFlags {
 public:
  void add(CLI::App& command);
  // Checked. `file`: the lines of a file may still give what the options do not.
  Result<RequestDefaults> defaults(bool file) const;

 private:
  bool given(const CLI::Option* option) const { return option->count() > 0; }

  Request request_;
  int64_t logprobs_ = 0;
  bool chat_ = false;
  std::string think_ = "on", system_;
  CLI::Option* temperature_ = nullptr;
  CLI::Option* has_logprobs_ = nullptr;
  CLI::Option* has_think_ = nullptr;
  CLI::Option* has_system_ = nullptr;
  std::vector<CLI::Option*> filters_;  // without effect at temperature 0
};

}  // namespace gm
