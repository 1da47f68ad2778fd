#include "ops/support.h"

namespace gm {

OpDef make_mul() {
  return binary_op("mul", "y = a * b, elementwise with broadcasting.",
                   [](Expr a, Expr b) { return std::move(a) * std::move(b); });
}

}  // namespace gm
