// Replaces exp, log1p, sin, cos and rsqrt by trees of single IEEE operations, so that every
// evaluator of a kernel (the interpreter, native code, CUDA) executes the same operations and gives
// the same bits, and none calls a maths library. Accuracy against the exact value: exp 1 ulp (also
// into the subnormals), log1p 2 ulp, rsqrt two roundings, sin and cos for |x| <= 2^20: 2 ulp,
// or 1e-8 absolute near their zeros. Beyond 2^20 the argument reduction of sin and cos loses one
// bit a doubling; the result stays in [-1, 1] but means nothing from about 2^40 on. NaN stays NaN;
// sin and cos of an infinity are NaN; sin(-0) is +0.
#pragma once

#include "ir/tile.h"

namespace gm {

// Shared subtrees stay shared; an expansion refers to its argument several times, always as the
// same node. Idempotent.
Expr expand_math(const Expr& e);
Kernel expand_math(const Kernel& kernel);

}  // namespace gm
