// The native code of a plan. Before the system's loader sees it, the shared object is read here: it
// must run nothing by itself, need no other library and export exactly the functions of the plan's
// kernels; and the CPU must have what the plan was compiled for. Loading is from memory, without a
// file.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/kernel_library.h"

namespace gm {

// `file` is for messages. The plan need not outlive the library.
Result<std::unique_ptr<KernelLibrary>> load_native_library(const Plan& plan,
                                                           const std::string& file);

// Whether this CPU has what a plan of that target needs: `target` is "cpu:v3", "cpu:v4" or
// "cpu:native", `features` LLVM's list "+avx2,-avx512f". The plan's file and the command to compile
// again are in the message.
Result<> check_cpu_features(std::string_view target, std::string_view features,
                            const std::string& file);

// The form of a shared object (see above). `exports`: what it must define, no more and no less.
Result<> check_shared_object(std::span<const std::byte> object, std::vector<std::string> exports,
                             const std::string& file);

}  // namespace gm
