// What may be computed behind an anchor, where its result is stored.
#pragma once

#include "compiler/fusion/partition.h"

namespace gm {

using Obstacle = std::optional<std::pair<Reason, std::string>>;

// Why the group of the elementwise `op` cannot join the group that computes its operand `edge`;
// nothing if it can. All that comes to depend on an anchor must follow it column by column, not
// only `op` itself; contractions of both groups may meet if what follows them is stored at the same
// elements.
Obstacle epilogue_obstacle(const Partition& p, const Op& op, ValueId edge);

}  // namespace gm
