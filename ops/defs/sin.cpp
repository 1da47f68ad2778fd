#include "ops/support.h"

namespace gm {

OpDef make_sin() {
  return unary_op("sin", "y = sin(x), x in radians. Rotary angles: theta = position * inv_freq.",
                  sin);
}

}  // namespace gm
