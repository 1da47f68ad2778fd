// What must always hold of an L0 graph, checked after it is parsed or built and after each pass.
//
//   names       one value each; every operand defined before its op, and so no circle
//   types       those that inference gives again; symbols declared; attributes known and of their
//   type states      each version read by any number of ops and then consumed by one at most; each
//   state
//               leaves the graph once, in its last version; no state where a plain value belongs
//   edges       outputs named once; weights with a source of their shape; contracts on i32 inputs
//   provenance  every op says where it comes from
//
// An op whose results nobody uses is no error: a pass removes it.
#pragma once

#include "ir/graph.h"

namespace gm {

// The first fault, with a 20xx code, at the place of the op (or the name of the value).
Result<> verify_graph(const Graph& graph);

}  // namespace gm
