#include "ir/tile.h"

namespace gm {

const Param* Kernel::find_param(std::string_view param) const {
  for (const Param& candidate : params) {
    if (candidate.name == param) return &candidate;
  }
  return nullptr;
}

bool ForStmt::operator==(const ForStmt& other) const {
  return axis == other.axis && lo == other.lo && hi == other.hi && body == other.body;
}

bool IfStmt::operator==(const IfStmt& other) const {
  return condition == other.condition && body == other.body;
}

bool Kernel::operator==(const Kernel& other) const {
  return name == other.name && symbols == other.symbols && params == other.params &&
         parts == other.parts;
}

SymExpr work_items(const Part& part) {
  SymExpr items = 1;
  for (const Axis& axis : part.grid) items = items * axis.extent;
  return items;
}

}  // namespace gm
