// Where each weight lies. Packing is decided once for a whole module, before fusion and alike for
// every program, so that decode and mixed, fused and unfused, read the same bytes: a weight takes
// the layout that its uses want, and weights that are multiplied with the same input are stacked
// into one buffer of panels.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/opdef.h"
#include "plan/plan.h"

namespace gm {

// One weight's place in a buffer.
struct PackedWeight {
  std::string buffer;
  WeightLayout layout{};
  int64_t panel_offset = 0;
};

struct Packing {
  std::vector<WeightBuffer> buffers;                         // sorted by name
  std::map<std::string, PackedWeight, std::less<>> weights;  // by the weight value's name

  const WeightBuffer& buffer(std::string_view name) const;
};

// Indices into the buffer for logical indices into the weight.
std::vector<Expr> packed_indices(const PackedWeight& weight, std::vector<Expr> logical);

// The packing for all graphs of a module. The same weight name must mean the same tensor everywhere
// (GM_CHECK).
Result<Packing> pack_weights(const std::vector<const Graph*>& graphs);

}  // namespace gm
