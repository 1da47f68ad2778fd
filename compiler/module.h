// What the passes work on: the programs of one plan, each at the level it has reached. A pass takes
// a Module and returns another; nothing in a Module is shared or changed in place.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/lowering/region_lowering.h"
#include "compiler/packing.h"
#include "ir/graph.h"
#include "ir/region.h"
#include "plan/plan.h"

namespace gm {

enum class Level : uint8_t { graph, regions, kernels, program };
std::string_view to_string(Level level);

// One step signature on its way down.
struct Unit {
  std::string name;                                   // of the program: "decode"
  Graph graph;                                        // L0, always
  std::optional<Regions> regions;                     // L1
  std::optional<std::vector<LoweredRegion>> kernels;  // L2, in the order of regions
  std::optional<Program> program;                     // slots, arena, nodes

  Level level() const;
};

struct Module {
  std::vector<Unit> units;
  std::optional<Packing> packing;
};

// The module as text, each unit at its level: what --dump-dir writes and `opt` prints.
std::string print_module(const Module& module);

}  // namespace gm
