// From a checkpoint (or a published size with no weights) to a plan.
#pragma once

#include <filesystem>
#include <functional>

#include "compiler/pipeline.h"
#include "models/qwen35/graphs.h"
#include "plan/plan.h"

namespace gm {

// What the compiler needs of a checkpoint but its weights' values.
struct ImportedModel {
  Qwen35Config config;
  WeightDtypes dtypes;
  // From the tokenizer, if there is one: its text, the ids that may be sampled (half-open ranges,
  // flattened) and those that end a text. Without one every id may be sampled.
  std::string tokenizer;
  std::vector<int64_t> valid_ids;
  std::vector<int64_t> stop_ids;
};

// config.json and the tensors' names, shapes and dtypes of a checkpoint folder.
Result<ImportedModel> import_checkpoint(const std::filesystem::path& folder);
// "0.8b", "4b", ...: a published size, with no weights at hand.
Result<ImportedModel> import_published(std::string_view size);

struct CompileOptions {
  std::string target = "cpu";  // cpu[:v3|v4|native]
  DType dtype = DType::bf16;   // of activations: bf16 or f32
  bool fusion = true;
  bool check_outputs = false;  // also a program a layer, and the residual stream after each layer
  bool native = true;          // false: the plan ends at the kernels' text, for the interpreter
  int64_t max_tokens = 512;    // of one mixed step
  int64_t max_seqs = 8;        // of one step
  int64_t max_context = 4096;  // of one sequence
  PipelineOptions pipeline;
  std::function<void(std::string_view stage, int done, int total)> progress;
};

// The graphs of all the plan's programs.
Result<Module> build_module(const ImportedModel& model, const CompileOptions& options);

// The plan of a module whose units have all reached the program level. `native_us` gets the time of
// the native compiler.
Result<Plan> make_plan(const ImportedModel& model, const Module& module,
                       const CompileOptions& options, int64_t* native_us = nullptr);

struct CompileResult {
  Module module;             // at the level it was stopped at
  std::optional<Plan> plan;  // nothing if the pipeline was stopped before the program level
  std::vector<PassTime> times;
  int64_t native_us = 0;
};

Result<CompileResult> compile_model(const ImportedModel& model, const CompileOptions& options);

}  // namespace gm
