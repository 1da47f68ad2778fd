// Compiles a kernel (its maths already expanded) for the tile interpreter.
#pragma once

#include "codegen/tile/vm_program.h"

namespace gm::tile_vm {

Result<KernelProgram> compile(const Kernel& kernel, bool checked);

}  // namespace gm::tile_vm
