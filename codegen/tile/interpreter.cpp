#include "codegen/tile/interpreter.h"

#include <algorithm>

#include "codegen/tile/expand_math.h"
#include "codegen/tile/vm_compile.h"
#include "codegen/tile/vm_frame.h"

namespace gm {
namespace {

int64_t items_of(const tile_vm::PartProgram& part, std::span<const int64_t> dims) {
  int64_t items = 1;
  for (const tile_vm::LoopAxis& axis : part.grid) {
    const int64_t extent = std::max<int64_t>(axis.extent.evaluate(dims.data()), 0);
    GM_CHECK(!__builtin_mul_overflow(items, extent, &items), "a grid of more than 2^63 work items");
  }
  return items;
}

}  // namespace

Result<TileInterpreter> TileInterpreter::create(const Kernel& kernel, Checked checked) {
  GM_ASSIGN(tile_vm::KernelProgram program,
            tile_vm::compile(expand_math(kernel), checked == Checked::yes));
  return TileInterpreter(std::make_shared<const tile_vm::KernelProgram>(std::move(program)));
}

int64_t TileInterpreter::work_items(std::span<const int64_t> dims) const {
  GM_CHECK(dims.size() == static_cast<size_t>(program_->dims),
           "{} dims for kernel {}, which has {}", dims.size(), program_->name, program_->dims);
  int64_t items = 0;
  for (const tile_vm::PartProgram& part : program_->parts) items += items_of(part, dims);
  return items;
}

void TileInterpreter::run(std::span<const int64_t> dims, std::span<void* const> buffers,
                          int64_t begin, int64_t end) const {
  const int64_t all = work_items(dims);
  GM_CHECK(begin >= 0 && end <= all, "items {} to {} of {} in kernel {}", begin, end, all,
           program_->name);
  if (begin >= end) return;
  tile_vm::Frame frame(*program_, dims, buffers);
  int64_t first = 0;
  for (const tile_vm::PartProgram& part : program_->parts) {
    const int64_t items = items_of(part, dims);
    const int64_t from = std::max(begin - first, int64_t{0}), to = std::min(end - first, items);
    if (from < to) frame.run_part(part, from, to);
    first += items;
  }
}

}  // namespace gm
