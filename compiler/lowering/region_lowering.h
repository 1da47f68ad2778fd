// From a region to its L2 kernel. The anchor's loops become the kernel's; every other member is
// computed in place where its value is loaded (prologue) or right before it is stored (epilogue).
// Each member rounds to the dtype of its own value, and reductions keep the order that belongs to
// their extent, so a fused kernel gives the bits of the unfused ones.
#pragma once

#include "compiler/packing.h"
#include "ir/region.h"
#include "ir/tile.h"

namespace gm {

struct LoweredRegion {
  Kernel kernel;  // named by its text's digest, so that equal kernels of different layers are one
  // What to bind to each parameter, in order: the graph value of an activation, input, output or
  // state, or the name of a weight buffer.
  struct Binding {
    std::optional<ValueId> value;
    std::string weight_buffer;
  };
  std::vector<Binding> bindings;
};

// The values that a region computes and others (or the graph's outputs) need; ascending.
std::vector<ValueId> region_outputs(const Graph& graph, const Region& region);

LoweredRegion lower_region(const Graph& graph, const Packing& packing, const Region& region);

}  // namespace gm
