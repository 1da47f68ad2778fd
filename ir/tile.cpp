#include "ir/tile.h"

namespace gm {

const Param* Kernel::find_param(std::string_view param) const {
  for (const Param& candidate : params) {
    if (candidate.name == param) return &candidate;
  }
  return nullptr;
}

SymExpr work_items(const Part& part) {
  SymExpr items = 1;
  for (const Axis& axis : part.grid) items = items * axis.extent;
  return items;
}

}  // namespace gm
