// Static memory: every activation gets bytes of the program's arena for as long as someone reads
// it, with every symbol at its largest. A result takes the place of an operand that dies there when
// its kernel reads each element of the operand only to store that very element.
#pragma once

#include "compiler/module.h"

namespace gm {

Result<Program> plan_program(const Unit& unit);

// Slots with their lifetimes, nodes with what they read and write.
std::string print_program(const Program& program);

// Whether `written` may lie in the memory of `read`: one store writes `written`, all loads of
// `read` are in it, at exactly the stored indices, and both have the same dtype and shape.
bool may_share_memory(const Kernel& kernel, const Param& read, const Param& written);

}  // namespace gm
