#include <algorithm>

#include "codegen/tile/vm_frame.h"

namespace gm::tile_vm {

int64_t Frame::index_at(const Program& program, int value, int64_t position, int64_t lane) const {
  if (program.values[static_cast<size_t>(value)].shape == Shape::vector)
    return static_cast<const int64_t*>(run_[static_cast<size_t>(value)])[lane];
  const Scalar& s = scalar(program, value);
  return s.i + s.step * position;
}

void Frame::mark_load(const Program& program, const Op& op, int64_t start, int64_t n) {
  const ElementAccess& access = program.accesses[static_cast<size_t>(op.extra)];
  const auto base =
      static_cast<size_t>(kernel_.arrays[static_cast<size_t>(access.array)].stride_base);
  uint8_t* marks = out_of_bounds_.data() + static_cast<int64_t>(op.r) * kChunk;
  const int64_t lanes = op.action == Do::load_scalar ? 1 : n;
  for (int64_t i = 0; i < lanes; ++i) {
    marks[i] = 0;
    for (size_t d = 0; d < access.indices.size(); ++d) {
      const int64_t index = index_at(program, access.indices[d], start + i, i);
      if (index < 0 || index >= extents_[base + d]) marks[i] = 1;
    }
  }
}

void Frame::check_store(const Instr& instr, int64_t start, int64_t n) const {
  const ArrayInfo& info = kernel_.arrays[static_cast<size_t>(instr.array)];
  for (int64_t i = 0; i < n; ++i) {
    for (size_t d = 0; d < instr.access.indices.size(); ++d) {
      const int64_t index = index_at(instr.program, instr.access.indices[d], start + i, i);
      const int64_t extent = extents_[static_cast<size_t>(info.stride_base) + d];
      GM_CHECK(index >= 0 && index < extent,
               "kernel {} writes %{} at index {} of dimension {}, which has {}", kernel_.name,
               info.name, index, d, extent);
    }
  }
}

void Frame::check_needed(const Program& program, std::span<const int> results, int64_t n) {
  const auto row_of = [&](std::vector<uint8_t>& marks, int value) {
    return marks.data() + static_cast<int64_t>(value) * kChunk;
  };
  const auto lanes_of = [&](int value) {
    return program.values[static_cast<size_t>(value)].shape == Shape::vector ? n : 1;
  };
  const bool any = std::ranges::any_of(program.ops, [&](const Op& op) {
    if (op.action < Do::load_scalar) return false;
    const uint8_t* marks = row_of(out_of_bounds_, op.r);
    return std::any_of(marks, marks + lanes_of(op.r), [](uint8_t mark) { return mark != 0; });
  });
  if (!any) return;
  std::fill_n(needed_.begin(), program.values.size() * kChunk, uint8_t{0});
  for (const int value : results)
    if (value >= 0) std::fill_n(row_of(needed_, value), lanes_of(value), uint8_t{1});
  for (size_t o = program.ops.size(); o-- > 0;) {
    const Op& op = program.ops[o];
    const bool is_select = (op.action == Do::scalar || op.action == Do::vector) &&
                           (op.code == VmCode::select32 || op.code == VmCode::select64);
    for (int64_t i = 0; i < lanes_of(op.r); ++i) {
      if (row_of(needed_, op.r)[i] == 0) continue;
      const auto need = [&](int value) {
        if (value >= 0) row_of(needed_, value)[lanes_of(value) == 1 ? 0 : i] = 1;
      };
      if (op.action >= Do::load_scalar) {
        GM_CHECK(row_of(out_of_bounds_, op.r)[i] == 0, "kernel {} reads %{} out of bounds",
                 kernel_.name, kernel_.arrays[static_cast<size_t>(op.array)].name);
      }
      need(op.a);
      if (is_select) {
        const bool is_vector = program.values[static_cast<size_t>(op.a)].shape == Shape::vector;
        const uint32_t condition =
            is_vector ? static_cast<const uint32_t*>(run_[static_cast<size_t>(op.a)])[i]
                      : scalar(program, op.a).u;
        need(condition != 0 ? op.b : op.c);
      } else {
        need(op.b);
        need(op.c);
      }
      if (op.action == Do::address)
        for (int t = op.extra; t < op.extra + op.count; ++t)
          need(program.terms[static_cast<size_t>(t)].value);
    }
  }
}

}  // namespace gm::tile_vm
