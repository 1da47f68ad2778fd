// One kernel as an object file in memory: LLVM module, optimisation, machine code.
#pragma once

#include <memory>

#include <llvm/ADT/SmallVector.h>
#include <llvm/Target/TargetMachine.h>

#include "codegen/cpu/cpu_codegen.h"

namespace gm::cpu {

struct KernelObject {
  llvm::SmallVector<char, 0> bytes;
  int64_t scratch_bytes = 0;
};

Result<CpuTarget> host_target();
// A target machine belongs to one thread.
Result<std::unique_ptr<llvm::TargetMachine>> create_target_machine(const CpuTarget& target);
Result<KernelObject> compile_kernel(const Kernel& kernel, const std::string& symbol,
                                    llvm::TargetMachine& machine);

}  // namespace gm::cpu
