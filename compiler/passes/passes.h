// The passes. Each is one pure function from a Module to a Module in a file of its own; kPasses
// (pipeline.cpp) is the one list of them, in the order they run, and their names are used by the
// command line, reports, dumps and tests alike.
#pragma once

#include <span>
#include <string_view>

#include "compiler/module.h"

namespace gm {

struct Pass {
  std::string_view name;
  std::string_view doc;
  Level from, to;  // the level a unit must be at, and the level it is at afterwards
  Result<Module> (*run)(const Module& module);
};

//   %dead = silu(%x)          (no user, no output)      ->      nothing
Result<Module> eliminate_dead_ops(const Module& module);

//   weights %q, %k, multiplied with the same %h         ->      one buffer of panels, %q from panel
//   0, %k after it
Result<Module> pack_module_weights(const Module& module);

//   %h = rms_norm(%x); %q = linear(%h, %w)              ->      region { %h }  region { %q }
Result<Module> form_module_regions(const Module& module);

//   region { %h }  region { %q }                        ->      region { prologue %h, anchor %q }
Result<Module> fuse_module_regions(const Module& module);

//   region { prologue %h, anchor %q }                   ->      kernel @linear_1f0c... { part q
//   grid (...) { ... } }
Result<Module> lower_regions(const Module& module);

//   kernels and their bindings                          ->      slots with arena offsets, nodes in
//   order
Result<Module> plan_memory(const Module& module);

std::span<const Pass> all_passes();
const Pass* find_pass(std::string_view name);

}  // namespace gm
