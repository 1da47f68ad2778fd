// What an op costs, derived from its declaration: structured ops by counting the arithmetic of
// their bodies, kernel-like ones by the formula that they give.
#pragma once

#include "ir/opdef.h"

namespace gm {

// Floating-point operations: one each for + - * / min max, comparisons, exp and the like, two for a
// multiply-add; roundings, selections and index arithmetic are free.
SymExpr op_flops(const OpInstance& op, std::span<const TensorType> results);

// The number of elements of a tensor.
SymExpr element_count(const TensorType& type);

}  // namespace gm
