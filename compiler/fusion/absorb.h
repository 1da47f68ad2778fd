// What the elementwise and the row-reduction rule share: taking a group without an anchor into the
// group that uses it.
#pragma once

#include "compiler/fusion/partition.h"

namespace gm {

// Whether `use` reads its operand element by element or row by row, so that a producer can stand in
// its place.
bool takes_prologue(const Partition& partition, const Partition::Use& use);

// The group's values that others read or that leave the graph.
std::vector<ValueId> values_used_outside(const Partition& partition, int group);

// Tries to compute `group` (no anchor) inside of the group of its users. All users must be there;
// with `multi_output` the others may read a second output instead. Returns whether it merged;
// refusals are written down.
bool absorb_into_users(Partition& partition, int group, const char* rule, bool multi_output);

}  // namespace gm
