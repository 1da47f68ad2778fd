#include "ops/support.h"

namespace gm {

OpDef make_silu() {
  return unary_op("silu", "y = x * sigmoid(x), also called swish (Elfwing et al., 2017).", silu);
}

}  // namespace gm
