#include "compiler/passes/passes.h"

namespace gm {

Result<Module> pack_module_weights(const Module& module) {
  std::vector<const Graph*> graphs;
  for (const Unit& unit : module.units) graphs.push_back(&unit.graph);
  Module result = module;
  GM_ASSIGN(result.packing, pack_weights(graphs));
  return result;
}

Result<Module> lower_regions(const Module& module) {
  if (!module.packing) {
    return err(Code::pass_level, {}, "put pack-weights before lower-regions",
               "pass 'lower-regions' needs to know where the weights lie");
  }
  Module result = module;
  for (Unit& unit : result.units) {
    std::vector<LoweredRegion> kernels;
    for (const Region& region : unit.regions->regions) {
      kernels.push_back(lower_region(unit.graph, *module.packing, region));
    }
    unit.kernels = std::move(kernels);
  }
  return result;
}

}  // namespace gm
