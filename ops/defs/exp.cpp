#include "ops/support.h"

namespace gm {

OpDef make_exp() { return unary_op("exp", "y = e^x (IEEE f32, then one rounding).", exp); }

}  // namespace gm
