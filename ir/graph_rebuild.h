// Changing a graph: nothing is changed in place, so a pass builds a new one from the old.
#pragma once

#include <functional>
#include <optional>

#include "ir/graph.h"

namespace gm {

// The graph with each op as `edit` returns it (kind, attributes and where may differ; operands are
// the old graph's), or without it where `edit` returns nothing. Result types are inferred again;
// names stay. Step inputs and states stay even if nothing reads them, since they are the step's
// signature; weights that no op reads are left out. Errors: what the graph's add_op says.
Result<Graph> rebuild(const Graph& old, const std::function<std::optional<Op>(const Op&)>& edit);

}  // namespace gm
