// What work items have in common.
#pragma once

#include <cstddef>

#include "ir/tile.h"

namespace gm::cpu {

// How many of the part's first statements are the same for all work items that differ in the last
// grid axis alone: a norm in front of a contraction, say, for all panels of a group. Their tiles
// stay in place from one work item to the next, so they run once.
size_t common_statements(const Part& part);

}  // namespace gm::cpu
