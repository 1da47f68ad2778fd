// The independent plan checker. It believes nothing of the planner: it derives dependences and
// lifetimes again from what each node reads and writes, and proves what docs/architecture.md
// section 4 lists under *Plan*. Each fault has a 23xx code.
#pragma once

#include "plan/plan.h"

namespace gm {

// Every program of the plan: references resolve; node order and `after` cover all true dependences
// (read after write, write after read, write after write, also through shared memory); every
// activation is written before it is read; no two live activations overlap in the arena with every
// extent at its largest, and so with any smaller one, since places are fixed (two nodes with no
// path between them count as running at the same time); an in-place pair's read slot dies at that
// node; arena_bytes is the true peak, rounded up to kArenaAlignment; state never lies in the arena;
// weights and inputs are never written; outputs are written; kernels' dims are symbols of the
// program and argument counts agree; recipes give their buffers' shapes. Locations are "FILE:
// program.json: programs[0].nodes[3].after" and the like.
Result<> check_plan(const Plan& plan, const std::string& file);

}  // namespace gm
