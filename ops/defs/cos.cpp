#include "ops/support.h"

namespace gm {

OpDef make_cos() {
  return unary_op("cos", "y = cos(x), x in radians. Rotary angles: theta = position * inv_freq.",
                  cos);
}

}  // namespace gm
