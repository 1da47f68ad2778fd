#include "compiler/fusion/rules.h"
#include "compiler/passes/passes.h"

namespace gm {

Result<Module> form_module_regions(const Module& module) {
  Module result = module;
  for (Unit& unit : result.units) unit.regions = form_regions(unit.graph);
  return result;
}

Result<Module> fuse_module_regions(const Module& module) {
  Module result = module;
  for (Unit& unit : result.units) unit.regions = fuse(unit.graph);
  return result;
}

}  // namespace gm
