#include "ops/support.h"

namespace gm {

OpDef make_neg() {
  return unary_op("neg", "y = -x.", [](Expr x) { return -std::move(x); });
}

}  // namespace gm
