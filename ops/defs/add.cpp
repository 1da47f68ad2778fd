#include "ops/support.h"

namespace gm {

OpDef make_add() {
  return binary_op("add", "y = a + b, elementwise with broadcasting.",
                   [](Expr a, Expr b) { return std::move(a) + std::move(b); });
}

}  // namespace gm
