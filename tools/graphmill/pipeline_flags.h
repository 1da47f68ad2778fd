// The options that choose passes and show what they do, shared by `compile` and `opt`.
#pragma once

#include <string>
#include <vector>

#include "compiler/pipeline.h"
#include "tools/common/program.h"

namespace gm {

struct PipelineFlags {
  std::string passes, skip, stop_after, print_after, dump_dir;
  bool list = false, time = false;

  void add(CLI::App& command);
  // Unknown names and passes that lack what they need are errors. Makes the folder of --dump-dir.
  Result<PipelineOptions> options() const;
  // The names of `passes`, in order; empty: all of the list.
  bool chooses_passes() const { return !passes.empty(); }
};

std::string pass_list_text();
std::string pass_times_text(const std::vector<PassTime>& times);

}  // namespace gm
