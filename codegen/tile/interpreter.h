// Executes tile kernels on raw buffers: the meaning of L2 in code, against which native and GPU
// code are tested, and itself fast enough to run whole small models. A kernel is compiled once into
// operations on rows of elements. Results are the bits that ir/tile.h and ir/expr.h define; they
// depend neither on the CPU nor on how a launch is cut up.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/diag.h"
#include "ir/tile.h"

namespace gm {

namespace tile_vm {
struct KernelProgram;
}

// yes: each index of each access is checked against its own extent (GM_CHECK), where no: a load out
// of the buffer yields 0 and a store out of the buffer is a GM_CHECK. Loads in the untaken arm of a
// select may be out of bounds.
enum class Checked : bool { no, yes };

class TileInterpreter {
 public:
  // Expands exp, log1p, sin, cos and rsqrt itself. Errors: names or types that verify_kernel would
  // not let pass.
  static Result<TileInterpreter> create(const Kernel& kernel, Checked checked = Checked::no);

  // `dims` in the order of kernel.symbols, `buffers` in the order of kernel.params.
  int64_t work_items(std::span<const int64_t> dims) const;
  // Runs the items [begin, end): those of all parts in order, the last grid axis fastest. May be
  // called from several threads at once for disjoint items.
  void run(std::span<const int64_t> dims, std::span<void* const> buffers, int64_t begin,
           int64_t end) const;

 private:
  explicit TileInterpreter(std::shared_ptr<const tile_vm::KernelProgram> program)
      : program_(std::move(program)) {}
  std::shared_ptr<const tile_vm::KernelProgram> program_;
};

}  // namespace gm
