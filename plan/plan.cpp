#include "plan/plan.h"

#include <algorithm>
#include <string>

namespace gm {
namespace {

// A plan in memory need not be checked yet, so nothing here relies on the order of its lists.
template <class T>
const T* find_named(const std::vector<T>& list, std::string_view name) {
  const auto at = std::ranges::find(list, name, &T::name);
  return at == list.end() ? nullptr : &*at;
}

}  // namespace

const Program* Plan::find_program(std::string_view name) const {
  return find_named(programs, name);
}
const PlanKernel* Plan::find_kernel(std::string_view name) const {
  return find_named(kernels, name);
}
const WeightBuffer* Plan::find_weight(std::string_view name) const {
  return find_named(weights, name);
}
const StateBuffer* Plan::find_state(std::string_view name) const {
  return find_named(states, name);
}

std::optional<int64_t> largest_bytes(const SymTable& symbols, const Slot& slot) {
  if (slot.dtype == DType::pred) return std::nullopt;
  int64_t bytes = size_bytes(slot.dtype);
  for (const SymExpr& extent : slot.shape) {
    const SymRange range = symbols.range(extent);
    if (!range.lo || !range.hi || *range.lo < 0) return std::nullopt;
    if (__builtin_mul_overflow(bytes, *range.hi, &bytes)) return std::nullopt;
  }
  return bytes;
}

std::vector<int64_t> part_shape(const WeightPart& part) {
  std::vector<int64_t> shape = part.stored_shape;
  if (part.slice_axis >= 0) {
    shape[static_cast<size_t>(part.slice_axis)] = part.slice_end - part.slice_begin;
  }
  if (part.series != 0) shape.insert(shape.begin(), part.series);
  if (part.groups != 0) {
    shape[0] = 0;
    for (const auto& [begin, end] : part.ranges) shape[0] += (end - begin) * part.groups;
  }
  return shape;
}

std::string part_tensor(const WeightPart& part, int64_t index) {
  std::string name = part.tensor;
  if (part.series != 0) name.replace(name.find('*'), 1, std::to_string(index));
  return name;
}

std::string_view to_string(SlotKind kind) {
  switch (kind) {
    case SlotKind::weight:
      return "weight";
    case SlotKind::activation:
      return "activation";
    case SlotKind::state:
      return "state";
    case SlotKind::input:
      return "input";
    case SlotKind::output:
      return "output";
  }
  return "?";
}

std::string_view to_string(SlotAccess access) {
  switch (access) {
    case SlotAccess::read:
      return "read";
    case SlotAccess::write:
      return "write";
    case SlotAccess::read_write:
      return "read_write";
  }
  return "?";
}

}  // namespace gm
