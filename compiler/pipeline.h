// Runs passes. Whatever every pass needs is done here once: the check of its level, skipping,
// timing, verifying its result, dumping and printing the text after it.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "compiler/passes/passes.h"

namespace gm {

struct PipelineOptions {
  std::vector<std::string> passes;  // empty: the whole list, in its order
  std::set<std::string> skip;
  std::string stop_after;          // the last pass to run; empty: none
  std::string print_after;         // a pass, or "changed": after each pass that changed the text
  std::filesystem::path dump_dir;  // empty: no dumps; else NN.PASS.gm after each pass
  bool verify = true;
  std::function<void(std::string_view)> print;  // gets the texts of print_after
};

struct PassTime {
  std::string pass;
  int64_t run_us = 0, verify_us = 0;
};

// Names that no pass has, or an order in which a pass lacks its input level, are errors (14xx).
Result<Module> run_pipeline(Module module, const PipelineOptions& options,
                            std::vector<PassTime>* times = nullptr);

// What the verifier of each unit's level says.
Result<> verify_module(const Module& module);

}  // namespace gm
