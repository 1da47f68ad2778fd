// MODEL and the options that say what a plan is compiled for: what `compile` and `check` share.
#pragma once

#include <string>

#include "compiler/compile.h"
#include "tools/common/output.h"
#include "tools/common/program.h"

namespace gm {

struct TargetFlags {
  std::string target = "cpu:v3", dtype = "bf16", fusion = "full";

  void add(CLI::App& command);
  // Fills target, dtype and fusion.
  Result<> apply(CompileOptions& options) const;
};

// A checkpoint folder with its tokenizer, if it has one; or with `splat` a published size, or a
// folder of which only config.json and the tokenizer are read.
Result<ImportedModel> import_model(const std::string& model, bool splat);

}  // namespace gm
