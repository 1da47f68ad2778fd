// What a pointwise op or a view reads, seen without its operands: the body of an element over
// opaque loads. From it follow the op's index maps, which fusion decides by, and what its body
// costs.
#pragma once

#include "ir/opdef.h"

namespace gm {

// The body of element `indices`; a load of operand i is a load named "i".
Expr probe_element(const Graph& graph, const Op& op, std::span<const Expr> indices);

// The index lists at which that body reads operand `operand`, each once, in the order of the body.
std::vector<std::vector<Expr>> elements_read(const Graph& graph, const Op& op, size_t operand,
                                             std::span<const Expr> indices);

}  // namespace gm
