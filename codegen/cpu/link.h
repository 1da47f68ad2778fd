// Object files in memory to one shared object, by LLD as a library.
#pragma once

#include <span>

#include "codegen/cpu/module.h"

namespace gm::cpu {

Result<std::vector<std::byte>> link_objects(std::span<const KernelObject> objects);

}  // namespace gm::cpu
