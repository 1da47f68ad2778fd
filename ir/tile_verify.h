// Parts of the verifier of kernels: what the walk over the statements hands to the checks of
// writes. Inside ir/ only.
#pragma once

#include <string>
#include <vector>

#include "ir/tile.h"
#include "ir/tile_proof.h"

namespace gm {

// A name bound around a store. A loop runs over lo .. hi-1; grid and tile axes over 0 .. extent-1;
// a `let` is `lo`.
struct AxisUse {
  enum class Kind : uint8_t { grid, tile, loop, let } kind{};
  std::string name;
  SymExpr extent;
  Expr lo, hi;        // loop; let: the value in lo
  SymExpr low, high;  // let: the range
};

struct StoreUse {
  const StoreStmt* store = nullptr;
  size_t part = 0;
  std::vector<AxisUse> axes;     // outermost first
  std::vector<Expr> conditions;  // of the ifs around it
  Location where;
};

struct LoadUse {
  Expr load;
  size_t part = 0;
  std::vector<std::string> grid_axes;
  Location where;
};

// Symbols and parameters.
Result<> verify_declarations(const Kernel& kernel);
// Each element of a written activation or step output exactly once.
Result<> verify_written_once(const Kernel& kernel, const Param& param,
                             const std::vector<StoreUse>& stores);
// Each element of a state at most once, and nobody reads what another work item writes.
Result<> verify_scatter(const Kernel& kernel, const Param& param,
                        const std::vector<StoreUse>& stores);
Result<> verify_no_race(const Param& param, const std::vector<StoreUse>& stores,
                        const std::vector<LoadUse>& loads);
// Whether `indices` name a different element for every value of the axes (lets are no axes).
// `repeats` gets an axis over which an element may come again.
bool names_each_once(const Proof& proof, std::vector<SymExpr> indices, std::vector<AxisUse> axes,
                     std::string& repeats);

// The axes and lets of a store as symbols of a proof of its own; a loop gets its bounds where they
// are polynomials.
void declare_axes(Proof& proof, const std::vector<AxisUse>& axes);
// `%start[s]` and `%start[s + 1]` of a monotone contract, in this order: the axis runs over one
// sequence's tokens.
struct SequenceLoop {
  const Param* starts;
  std::string sequence;  // the axis s
};
std::optional<SequenceLoop> as_sequence_loop(const Kernel& kernel, const AxisUse& axis,
                                             const std::vector<AxisUse>& all);
// An axis that occurs in floordiv(axis, P) or mod(axis, P) becomes two axes; `whole` if P divides
// its extent.
void split_axes(const Proof& proof, std::vector<SymExpr>& indices, std::vector<AxisUse>& axes,
                bool& whole);

}  // namespace gm
