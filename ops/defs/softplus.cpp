#include "ops/support.h"

namespace gm {

OpDef make_softplus() {
  return unary_op("softplus",
                  "y = log(1 + e^x) for x <= 20, else x: the threshold of PyTorch's softplus.",
                  softplus);
}

}  // namespace gm
