#include "ops/support.h"

namespace gm {

OpDef make_sub() {
  return binary_op("sub", "y = a - b, elementwise with broadcasting.",
                   [](Expr a, Expr b) { return std::move(a) - std::move(b); });
}

}  // namespace gm
