#include "ops/support.h"

namespace gm {

OpDef make_sigmoid() { return unary_op("sigmoid", "y = 1 / (1 + e^-x).", sigmoid); }

}  // namespace gm
