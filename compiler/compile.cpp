#include "compiler/compile.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "base/mapped_file.h"
#include "base/safetensors.h"
#include "codegen/cpu/cpu_codegen.h"
#include "codegen/tile/expand_math.h"
#include "compiler/report/fusion_report.h"
#include "ir/graph_text.h"
#include "models/qwen35/checkpoint.h"
#include "plan/check.h"

namespace gm {
namespace {

constexpr std::string_view kCompiler = "graphmill " GRAPHMILL_VERSION;
constexpr int64_t kPageTokens = 16;

GraphOptions graph_options(const ImportedModel& model, const CompileOptions& options) {
  return {.activations = options.dtype,
          .max_tokens = options.max_tokens,
          .max_seqs = options.max_seqs,
          .max_context = options.max_context,
          .page_tokens = kPageTokens,
          .valid_ids = model.valid_ids,
          .hidden_outputs = false};
}

Result<> check_limits(const ImportedModel& model, const CompileOptions& options) {
  auto within = [](std::string_view flag, int64_t value, int64_t lo, int64_t hi) -> Result<> {
    if (value >= lo && value <= hi) return {};
    return err(Code::command_line, {}, fmt::format("give {} a value from {} to {}", flag, lo, hi),
               "{} {} is out of range", flag, value);
  };
  GM_TRY(within("--max-context", options.max_context, 1, model.config.max_position));
  GM_TRY(within("--max-seqs", options.max_seqs, 1, 4096));
  GM_TRY(within("--max-tokens", options.max_tokens, options.max_seqs, 65536));
  if (options.dtype != DType::bf16 && options.dtype != DType::f32) {
    return err(Code::command_line, {}, "give --dtype bf16 or f32", "activations cannot be {}",
               to_string(options.dtype));
  }
  return {};
}

// Distinct kernels of all units, by name.
std::map<std::string, const Kernel*> distinct_kernels(const Module& module) {
  std::map<std::string, const Kernel*> kernels;
  for (const Unit& unit : module.units) {
    for (const LoweredRegion& lowered : *unit.kernels)
      kernels.emplace(lowered.kernel.name, &lowered.kernel);
  }
  return kernels;
}

PlanKernel plan_kernel(const Kernel& kernel) {
  PlanKernel result{.name = kernel.name,
                    .symbol = "",
                    .dims = {},
                    .params = {},
                    .part_items = {},
                    .scratch_bytes = 0,
                    .text_member = fmt::format("kernels/{}.gm", kernel.name)};
  for (const SymInfo& info : kernel.symbols.symbols()) result.dims.push_back(info.name);
  for (const Param& param : kernel.params) result.params.push_back(param.name);
  for (const Part& part : kernel.parts) result.part_items.push_back(work_items(part));
  return result;
}

Result<> add_kernels(Plan& plan, const Module& module, const CompileOptions& options,
                     int64_t& native_us) {
  std::vector<Kernel> kernels;
  for (const auto& [name, kernel] : distinct_kernels(module)) {
    plan.kernels.push_back(plan_kernel(*kernel));
    plan.texts[plan.kernels.back().text_member] = print_kernel(*kernel);
    kernels.push_back(expand_math(*kernel));
  }
  if (!options.native) {
    plan.stage = "kernels";
    return {};
  }
  const auto start = std::chrono::steady_clock::now();
  GM_ASSIGN(const CpuTarget target, parse_cpu_target(options.target));
  auto progress = [&](int done, int total) {
    if (options.progress) options.progress("native code", done, total);
  };
  GM_ASSIGN(NativeObject object, compile_kernels(kernels, target, progress));
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    plan.kernels[i].symbol = object.kernels[i].symbol;
    plan.kernels[i].scratch_bytes = object.kernels[i].scratch_bytes;
  }
  plan.stage = "native";
  plan.llvm_version = object.llvm_version;
  plan.target_features = target.features;
  plan.shared_object = std::move(object.shared_object);
  native_us = std::chrono::duration_cast<std::chrono::microseconds>(
                  std::chrono::steady_clock::now() - start)
                  .count();
  return {};
}

std::vector<StateBuffer> state_buffers(const Module& module) {
  std::map<std::string, StateBuffer> states;
  for (const Unit& unit : module.units) {
    for (const Value& value : unit.graph.values()) {
      if (value.kind == ValueKind::state)
        states.try_emplace(value.name, StateBuffer{value.name, value.type.dtype, value.type.shape});
    }
  }
  std::vector<StateBuffer> sorted;
  for (auto& [name, state] : states) sorted.push_back(std::move(state));
  return sorted;
}

ModelFacts model_facts(const ImportedModel& model) {
  const Qwen35Config& c = model.config;
  ModelFacts facts{.architecture = c.architecture,
                   .vocab = c.vocab,
                   .hidden = c.hidden,
                   .layers = c.layers(),
                   .max_position = c.max_position,
                   .stop_ids = model.stop_ids,
                   .layer_types = {}};
  for (LayerKind kind : c.layer_kinds)
    facts.layer_types.emplace_back(kind == LayerKind::full_attention ? "full_attention"
                                                                     : "linear_attention");
  if (facts.stop_ids.empty() && c.eos_id) facts.stop_ids.push_back(*c.eos_id);
  return facts;
}

}  // namespace

Result<ImportedModel> import_checkpoint(const std::filesystem::path& folder) {
  ImportedModel model;
  GM_ASSIGN(model.config, read_config(folder));
  GM_ASSIGN(const SafeTensors tensors, SafeTensors::open_folder(folder));
  GM_ASSIGN(model.dtypes, match_checkpoint(model.config, tensors));
  return model;
}

Result<ImportedModel> import_published(std::string_view size) {
  ImportedModel model;
  auto config = published_config(size);
  if (!config) {
    std::string known;
    for (std::string_view name : published_sizes())
      known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
    return err(Code::command_line, {}, fmt::format("choose one of: {}", known),
               "'{}' is no published size", size);
  }
  model.config = *std::move(config);
  model.dtypes = published_dtypes(model.config);
  return model;
}

Result<Module> build_module(const ImportedModel& model, const CompileOptions& options) {
  GM_TRY(check_limits(model, options));
  GraphOptions graphs = graph_options(model, options);
  Module module;
  for (StepClass step : {StepClass::decode, StepClass::mixed}) {
    graphs.hidden_outputs = options.check_outputs;
    GM_ASSIGN(Graph graph, build_model(model.config, model.dtypes, step, graphs));
    module.units.push_back({std::string(to_string(step)), std::move(graph), {}, {}, {}});
  }
  if (!options.check_outputs) return module;
  for (int64_t layer = 0; layer < model.config.layers(); ++layer) {
    for (StepClass step : {StepClass::decode, StepClass::mixed}) {
      GM_ASSIGN(Graph graph, build_layer(model.config, model.dtypes, layer, step, graphs));
      module.units.push_back(
          {fmt::format("layer.{}.{}", layer, to_string(step)), std::move(graph), {}, {}, {}});
    }
  }
  return module;
}

Result<Plan> make_plan(const ImportedModel& model, const Module& module,
                       const CompileOptions& options, int64_t* native_us) {
  Plan plan;
  plan.compiler = kCompiler;
  plan.target = options.target;
  plan.dtype = to_string(options.dtype);
  plan.numerics = "match-storage";
  plan.fusion = options.fusion ? "full" : "off";
  plan.model = model_facts(model);
  plan.limits = {.max_context = options.max_context,
                 .max_seqs = options.max_seqs,
                 .max_tokens = options.max_tokens,
                 .page_tokens = kPageTokens};
  for (const Unit& unit : module.units) {
    plan.programs.push_back(*unit.program);
    plan.texts[unit.program->graph] = print_graph(unit.graph);
  }
  plan.weights = module.packing->buffers;
  plan.states = state_buffers(module);
  plan.tokenizer = model.tokenizer;
  plan.report = fusion_report(module);
  int64_t ignored = 0;
  GM_TRY(add_kernels(plan, module, options, native_us != nullptr ? *native_us : ignored));
  // The planner's own word is not enough.
  GM_TRY(check_plan(plan, "the new plan"));
  return plan;
}

Result<CompileResult> compile_model(const ImportedModel& model, const CompileOptions& options) {
  CompileResult result;
  PipelineOptions pipeline = options.pipeline;
  if (!options.fusion) pipeline.skip.insert("fuse");
  GM_ASSIGN(Module module, build_module(model, options));
  GM_ASSIGN(result.module, run_pipeline(std::move(module), pipeline, &result.times));
  const bool complete =
      result.module.packing &&
      std::ranges::all_of(result.module.units, [](const Unit& u) { return u.program.has_value(); });
  if (!complete) return result;
  GM_ASSIGN(result.plan, make_plan(model, result.module, options, &result.native_us));
  return result;
}

}  // namespace gm
