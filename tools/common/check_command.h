// `check`: compares what a plan computes with what a reference computed, kept as goldens in a
// folder with its checkpoint.
#pragma once

#include "plan/plan.h"
#include "tools/common/open_instance.h"

namespace gm {

// Of a plan at hand, as `check PLAN --goldens FOLDER` does it. Prints its lines to stdout.
Result<Exit> check_with_goldens(std::shared_ptr<const Plan> plan, const std::string& file,
                                const std::string& folder, const ExecutorFlags& flags,
                                Progress& progress);

// The form that needs no compiler.
void add_check_plan(ProgramLine& program);

}  // namespace gm
