#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "codegen/tile/vm_frame.h"

namespace gm::tile_vm {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

Loop loop_of(VmCode code, int mask) { return loops().compute[static_cast<size_t>(code)][mask]; }

// Whether `a`, at a later place than `best`, takes over as the greatest.
bool overtakes(float a, float best) { return !std::isnan(best) && (std::isnan(a) || a > best); }

float start_of(ReduceOp op) { return op == ReduceOp::max ? kLowest : 0.0f; }

}  // namespace

void Frame::run_part(const PartProgram& part, int64_t begin, int64_t end) {
  std::vector<int64_t> extents;
  for (const LoopAxis& axis : part.grid) extents.push_back(axis.extent.evaluate(slots_.data()));
  for (int64_t item = begin; item < end; ++item) {
    int64_t rest = item;
    for (size_t d = extents.size(); d-- > 0;) {
      slots_[static_cast<size_t>(part.grid[d].slot)] = rest % extents[d];
      rest /= extents[d];
    }
    block(part.body);
  }
}

void Frame::block(const std::vector<Instr>& instrs) {
  for (const Instr& instr : instrs) {
    switch (instr.kind) {
      case Instr::Kind::elementwise:
        elementwise(instr);
        break;
      case Instr::Kind::reduce:
        reduce(instr);
        break;
      case Instr::Kind::loop:
        loop(instr);
        break;
      case Instr::Kind::branch:
        run_level(instr.program, 0, 0, 1);
        if (kernel_.checked) check_needed(instr.program, std::array{instr.value}, 1);
        if (scalar(instr.program, instr.value).u != 0) block(instr.body);
        break;
      case Instr::Kind::let:
        run_level(instr.program, 0, 0, 1);
        if (kernel_.checked) check_needed(instr.program, std::array{instr.value}, 1);
        slots_[static_cast<size_t>(instr.slot)] = scalar(instr.program, instr.value).i;
        break;
    }
  }
}

void Frame::loop(const Instr& instr) {
  run_level(instr.program, 0, 0, 1);
  if (kernel_.checked) check_needed(instr.program, std::array{instr.value, instr.second}, 1);
  const int64_t hi = scalar(instr.program, instr.second).i;
  for (int64_t i = scalar(instr.program, instr.value).i; i < hi; ++i) {
    slots_[static_cast<size_t>(instr.slot)] = i;
    block(instr.body);
  }
}

template <class Leaf>
void Frame::nest(const Instr& instr, size_t level, const Leaf& leaf) {
  if (level == instr.outer.size()) {
    leaf();
    return;
  }
  const LoopAxis& axis = instr.outer[level];
  const int64_t extent = axis.extent.evaluate(slots_.data());
  for (int64_t i = 0; i < extent; ++i) {
    slots_[static_cast<size_t>(axis.slot)] = i;
    run_level(instr.program, static_cast<int>(level) + 1, 0, 1);
    nest(instr, level + 1, leaf);
  }
}

void Frame::elementwise(const Instr& instr) {
  if (instr.defines) allocate(instr.array);
  const Program& program = instr.program;
  alignas(64) int64_t scratch[kChunk];
  run_level(program, 0, 0, 1);
  const auto finish = [&](int64_t start, int64_t n) {
    if (kernel_.checked) check_needed(program, std::array{instr.value, instr.address}, n);
    store(instr, start, n, elements(program, instr.value, n, scratch));
  };
  nest(instr, 0, [&] {
    if (!instr.has_row) {
      finish(0, 1);
      return;
    }
    const int64_t extent = instr.row.extent.evaluate(slots_.data());
    const int level = static_cast<int>(instr.outer.size()) + 1;
    for (int64_t start = 0; start < extent; start += kChunk) {
      const int64_t n = std::min(kChunk, extent - start);
      run_level(program, level, start, n);
      finish(start, n);
    }
  });
}

void Frame::reduce(const Instr& instr) {
  if (instr.defines) allocate(instr.array);
  run_level(instr.program, 0, 0, 1);
  nest(instr, 0, [&] {
    if (instr.row_is_over) {
      reduce_along_row(instr);
    } else {
      reduce_across_rows(instr);
    }
  });
}

void Frame::combine_lanes(ReduceOp op, int64_t lanes, float* partials, int64_t stride,
                          int64_t n) const {
  const Loop combine = loop_of(op == ReduceOp::max ? VmCode::f_max : VmCode::f_add, 3);
  for (int64_t half = lanes / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i) {
      float* to = partials + i * stride;
      combine(to, to, partials + (i + half) * stride, nullptr, n);
    }
}

// The row is an axis of the result; the reduced axis runs around it, one operation on a row of
// accumulators a step.
void Frame::reduce_across_rows(const Instr& instr) {
  const Program& program = instr.program;
  const int over_level = static_cast<int>(instr.outer.size()) + 1;
  const int64_t extent = instr.row.extent.evaluate(slots_.data());
  const int64_t over = instr.over.extent.evaluate(slots_.data());
  const bool is_chain = instr.order.kind == ReduceOrder::Kind::chain;
  const int64_t size = instr.order.size;
  const int64_t rows = is_chain ? 2 : size;  // chain: the block's chain, then the sum of the blocks
  work_.resize(static_cast<size_t>(std::max<int64_t>(rows, 1) * kChunk));
  float* work = work_.data();
  alignas(64) int64_t places[kChunk];
  const auto is_vector = [&](int value) {
    return value >= 0 && program.values[static_cast<size_t>(value)].shape == Shape::vector;
  };
  const int mask = instr.op == ReduceOp::dot
                       ? (is_vector(instr.value) ? 1 : 0) + (is_vector(instr.second) ? 2 : 0) + 4
                       : (is_vector(instr.value) ? 3 : 1);
  const Loop step = loop_of(instr.op == ReduceOp::dot   ? VmCode::f_fma
                            : instr.op == ReduceOp::max ? VmCode::f_max
                                                        : VmCode::f_add,
                            mask);
  const Loop join = loop_of(instr.op == ReduceOp::max ? VmCode::f_max : VmCode::f_add, 3);
  const auto operand = [&](int value) -> const void* {
    return is_vector(value) ? run_[static_cast<size_t>(value)] : &scalar(program, value).i;
  };
  for (int64_t start = 0; start < extent; start += kChunk) {
    const int64_t n = std::min(kChunk, extent - start);
    // Partial l lies at l * n; the two rows of a chain at 0 and kChunk.
    std::fill_n(work, is_chain ? n : size * n, start_of(instr.op));
    if (is_chain) std::fill_n(work + kChunk, n, start_of(instr.op));
    std::fill_n(places, n, int64_t{0});
    for (int64_t k = 0; k < over; ++k) {
      slots_[static_cast<size_t>(instr.over.slot)] = k;
      run_level(program, over_level, 0, 1);
      run_level(program, over_level + 1, start, n);
      if (kernel_.checked)
        check_needed(program, std::array{instr.value, instr.second, instr.address}, n);
      const void* a = operand(instr.value);
      if (instr.op == ReduceOp::argmax) {
        const auto* values = static_cast<const float*>(a);
        const int64_t stride = is_vector(instr.value) ? 1 : 0;
        for (int64_t i = 0; i < n; ++i) {
          if (k > 0 && !overtakes(values[i * stride], work[i])) continue;
          work[i] = values[i * stride];
          places[i] = k;
        }
        continue;
      }
      float* to = is_chain ? work : work + (k % size) * n;
      if (instr.op == ReduceOp::dot) {
        step(to, a, operand(instr.second), to, n);
      } else {
        step(to, to, a, nullptr, n);
      }
      if (is_chain && ((k + 1) % size == 0 || k + 1 == over)) {
        join(work + kChunk, work + kChunk, work, nullptr, n);
        std::fill_n(work, n, start_of(instr.op));
      }
    }
    if (instr.op == ReduceOp::argmax) {
      store(instr, start, n, places);
    } else {
      if (!is_chain) combine_lanes(instr.op, size, work, n, n);
      store(instr, start, n, is_chain ? work + kChunk : work);
    }
  }
}

// The row is the reduced axis: one element of the result at a time.
void Frame::reduce_along_row(const Instr& instr) {
  const Program& program = instr.program;
  const int level = static_cast<int>(instr.outer.size()) + 1;
  const int64_t extent = instr.row.extent.evaluate(slots_.data());
  const bool is_chain = instr.order.kind == ReduceOrder::Kind::chain;
  const int64_t size = instr.order.size;
  alignas(64) float repeated_a[kChunk];
  alignas(64) float repeated_b[kChunk];
  if (!is_chain) work_.assign(static_cast<size_t>(size), start_of(instr.op));
  float chain = start_of(instr.op), sum = start_of(instr.op);
  float best = 0;
  int64_t place = 0;
  const auto join = [&](float x, float y) {
    return instr.op == ReduceOp::max ? (x < y ? y : x) : x + y;
  };
  for (int64_t start = 0; start < extent; start += kChunk) {
    const int64_t n = std::min(kChunk, extent - start);
    run_level(program, level, start, n);
    if (kernel_.checked)
      check_needed(program, std::array{instr.value, instr.second, instr.address}, n);
    const auto* a = static_cast<const float*>(elements(program, instr.value, n, repeated_a));
    const float* b = instr.op == ReduceOp::dot
                         ? static_cast<const float*>(elements(program, instr.second, n, repeated_b))
                         : nullptr;
    if (instr.op == ReduceOp::argmax) {
      for (int64_t i = 0; i < n; ++i) {
        if (start + i > 0 && !overtakes(a[i], best)) continue;
        best = a[i];
        place = start + i;
      }
    } else if (is_chain) {
      for (int64_t i = 0; i < n;) {
        const int64_t to_end = size - (start + i) % size;
        const int64_t count = std::min(to_end, n - i);
        if (instr.op == ReduceOp::dot) {
          chain = loops().chain_dot(chain, a + i, b + i, count);
        } else {
          for (int64_t k = i; k < i + count; ++k) chain = join(chain, a[k]);
        }
        i += count;
        if (count == to_end || start + i == extent) {
          sum = join(sum, chain);
          chain = start_of(instr.op);
        }
      }
    } else if (size == kReduceLanes) {  // chunks start at lane 0
      if (instr.op == ReduceOp::dot) {
        loops().lanes_dot(work_.data(), a, b, n);
      } else if (instr.op == ReduceOp::sum) {
        loops().lanes_sum(work_.data(), a, n);
      } else {
        loops().lanes_max(work_.data(), a, n);
      }
    } else {
      for (int64_t i = 0; i < n; ++i) {
        float& partial = work_[static_cast<size_t>((start + i) % size)];
        partial = instr.op == ReduceOp::dot ? std::fma(a[i], b[i], partial) : join(partial, a[i]);
      }
    }
  }
  if (instr.op == ReduceOp::argmax) {
    store(instr, 0, 1, &place);
    return;
  }
  if (!is_chain) {
    combine_lanes(instr.op, size, work_.data(), 1, 1);
    sum = work_[0];
  }
  store(instr, 0, 1, &sum);
}

}  // namespace gm::tile_vm
