// `run PLAN`: continues prompts with a plan. Both programs have it, since it needs no compiler.
#pragma once

#include "tools/common/program.h"

namespace gm {

void add_run(ProgramLine& program);

}  // namespace gm
