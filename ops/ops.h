// The ops of graphmill: one file of ops/defs/ declares each, and the build collects them into this
// table.
#pragma once

#include "ir/opdef.h"

namespace gm {

const OpTable& builtin_ops();

}  // namespace gm
