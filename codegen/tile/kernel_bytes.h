// The memory that one work item of a kernel needs for its tiles: what native code reserves before
// it runs a kernel, and what a schedule checks against a target's limit.
#pragma once

#include "ir/tile.h"

namespace gm {

// The greatest over the parts of the sum of all tiles of a part, each at its largest extents over
// the symbols' ranges (f32 4 bytes, index 8 bytes an element). -1 if an extent has no upper bound
// or the sum leaves int64.
int64_t resident_bytes(const Kernel& kernel);

}  // namespace gm
