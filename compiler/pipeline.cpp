#include "compiler/pipeline.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/mapped_file.h"
#include "ir/graph_verify.h"
#include "ir/nearest.h"

namespace gm {
namespace {

constexpr std::array kPasses = {
    Pass{"eliminate-dead-ops", "drops ops whose results nobody uses", Level::graph, Level::graph,
         &eliminate_dead_ops},
    Pass{"pack-weights", "chooses each weight's layout and stacks the weights of siblings",
         Level::graph, Level::graph, &pack_module_weights},
    Pass{"form-regions", "one region for each op that is not a view", Level::graph, Level::regions,
         &form_module_regions},
    Pass{"fuse", "joins regions by the fusion rules and writes the ledger", Level::regions,
         Level::regions, &fuse_module_regions},
    Pass{"lower-regions", "one tile kernel for each region", Level::regions, Level::kernels,
         &lower_regions},
    Pass{"plan-memory", "slots, arena offsets and the order of nodes", Level::kernels,
         Level::program, &plan_memory},
};

int64_t microseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                               start)
      .count();
}

Error unknown_pass(const std::string& name) {
  std::vector<std::string> known;
  for (const Pass& pass : kPasses) known.emplace_back(pass.name);
  const std::string nearest = nearest_name(name, known);
  return err(Code::pass_unknown, {},
             nearest.empty() ? "see --list-passes"
                             : fmt::format("did you mean '{}'? see --list-passes", nearest),
             "there is no pass '{}'", name);
}

Result<std::vector<const Pass*>> chosen_passes(const PipelineOptions& options) {
  for (const std::string& name : options.skip) {
    if (find_pass(name) == nullptr) return unknown_pass(name);
  }
  for (const std::string& name : {options.stop_after, options.print_after}) {
    if (!name.empty() && name != "changed" && find_pass(name) == nullptr) return unknown_pass(name);
  }
  std::vector<const Pass*> passes;
  if (options.passes.empty()) {
    for (const Pass& pass : kPasses) passes.push_back(&pass);
  }
  for (const std::string& name : options.passes) {
    const Pass* pass = find_pass(name);
    if (pass == nullptr) return unknown_pass(name);
    passes.push_back(pass);
  }
  return passes;
}

}  // namespace

std::span<const Pass> all_passes() { return kPasses; }

const Pass* find_pass(std::string_view name) {
  const auto found = std::ranges::find(kPasses, name, &Pass::name);
  return found == kPasses.end() ? nullptr : &*found;
}

Result<> verify_module(const Module& module) {
  std::set<std::string> verified;
  for (const Unit& unit : module.units) {
    GM_TRY(verify_graph(unit.graph));
    if (unit.regions) GM_TRY(verify_regions(unit.graph, *unit.regions));
    if (!unit.kernels) continue;
    for (const LoweredRegion& lowered : *unit.kernels) {
      if (verified.insert(lowered.kernel.name).second) GM_TRY(verify_kernel(lowered.kernel));
    }
  }
  return {};
}

Result<Module> run_pipeline(Module module, const PipelineOptions& options,
                            std::vector<PassTime>* times) {
  GM_ASSIGN(const std::vector<const Pass*> passes, chosen_passes(options));
  const bool wants_text = !options.dump_dir.empty() || !options.print_after.empty();
  std::string before = options.print_after == "changed" ? print_module(module) : std::string();
  int number = 0;
  for (const Pass* pass : passes) {
    ++number;
    if (options.skip.contains(std::string(pass->name))) {
      if (options.stop_after == pass->name) break;
      continue;
    }
    for (const Unit& unit : module.units) {
      if (unit.level() != pass->from) {
        return err(Code::pass_level, Location::of_path("", unit.name),
                   "put the passes in the order of --list-passes",
                   "pass '{}' takes {}, but the module is at {}", pass->name, to_string(pass->from),
                   to_string(unit.level()));
      }
    }
    const auto start = std::chrono::steady_clock::now();
    auto result = pass->run(module);
    if (!result)
      return Error(std::move(result).error().note(fmt::format("in pass '{}'", pass->name)));
    module = *std::move(result);
    PassTime time{std::string(pass->name), microseconds_since(start), 0};
    if (options.verify) {
      const auto verify_start = std::chrono::steady_clock::now();
      if (auto fault = verify_module(module); !fault) {
        return Error(std::move(fault).error().note(fmt::format("after pass '{}'", pass->name)));
      }
      time.verify_us = microseconds_since(verify_start);
    }
    if (times != nullptr) times->push_back(std::move(time));
    if (wants_text) {
      std::string text = print_module(module);
      if (!options.dump_dir.empty()) {
        GM_TRY(write_file_atomically(
            options.dump_dir / fmt::format("{:02}.{}.gm", number, pass->name), text));
      }
      const bool changed = options.print_after == "changed" && text != before;
      if (options.print && (changed || options.print_after == pass->name)) {
        options.print(fmt::format("// after {}\n{}", pass->name, text));
      }
      before = std::move(text);
    }
    if (options.stop_after == pass->name) break;
  }
  return module;
}

}  // namespace gm
