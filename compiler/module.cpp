#include "compiler/module.h"

#include <set>

#include "compiler/memory_plan.h"
#include "ir/graph_text.h"
#include "ir/region_text.h"

namespace gm {

std::string_view to_string(Level level) {
  switch (level) {
    case Level::graph:
      return "graph";
    case Level::regions:
      return "regions";
    case Level::kernels:
      return "kernels";
    case Level::program:
      return "program";
  }
  GM_CHECK(false, "level {}", static_cast<int>(level));
}

Level Unit::level() const {
  if (program) return Level::program;
  if (kernels) return Level::kernels;
  return regions ? Level::regions : Level::graph;
}

std::string print_module(const Module& module) {
  std::string text;
  std::set<std::string> printed;  // kernels that several regions share are printed once
  for (const Unit& unit : module.units) {
    switch (unit.level()) {
      case Level::graph:
        text += print_graph(unit.graph);
        break;
      case Level::regions:
        text += print_graph(unit.graph) + print_regions(unit.graph, *unit.regions);
        break;
      case Level::kernels:
        for (const LoweredRegion& lowered : *unit.kernels) {
          if (printed.insert(lowered.kernel.name).second) text += print_kernel(lowered.kernel);
        }
        break;
      case Level::program:
        text += print_program(*unit.program);
        break;
    }
  }
  return text;
}

}  // namespace gm
