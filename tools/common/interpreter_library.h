// The kernels of a plan, executed from their text: slower than native code, but needing none, and
// the same bits.
#pragma once

#include <memory>
#include <string>

#include "plan/plan.h"
#include "runtime/kernel_library.h"

namespace gm {

// Each text is parsed and verified when its kernel is first asked for. `file` is for messages.
std::shared_ptr<KernelLibrary> interpreter_library(std::shared_ptr<const Plan> plan,
                                                   std::string file);

}  // namespace gm
