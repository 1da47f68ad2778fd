// `bench PLAN`: how long steps and starts take, beside what the machine can do at best
// (docs/bench.md). Both programs have it.
#pragma once

#include "tools/common/program.h"

namespace gm {

void add_bench(ProgramLine& program);

}  // namespace gm
