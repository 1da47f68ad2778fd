// The state of one run of a kernel program, and the execution of a level of operations on it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codegen/tile/vm_program.h"

namespace gm::tile_vm {

struct ArrayData {
  char* data = nullptr;
  int64_t size = 0;  // elements
};

class Frame {
 public:
  Frame(const KernelProgram& kernel, std::span<const int64_t> dims, std::span<void* const> buffers);

  void run_part(const PartProgram& part, int64_t begin, int64_t end);

 private:
  // vm_run.cpp
  void block(const std::vector<Instr>& instrs);
  void elementwise(const Instr& instr);
  void reduce(const Instr& instr);
  void reduce_across_rows(const Instr& instr);
  void reduce_along_row(const Instr& instr);
  void loop(const Instr& instr);
  template <class Leaf>
  void nest(const Instr& instr, size_t level, const Leaf& leaf);
  void combine_lanes(ReduceOp op, int64_t lanes, float* partials, int64_t stride, int64_t n) const;

  // vm_ops.cpp
  void allocate(int array);
  void set_shape(int array);
  void run_level(const Program& program, int level, int64_t start, int64_t n);
  void load_linear(const Program& program, const Op& op, Scalar* scalars, int64_t start, int64_t n);
  void gather(const Program& program, const Op& op, int64_t n);
  void load_one(const Op& op, int64_t index, void* result, int64_t position) const;
  void address(const Program& program, const Op& op, Scalar* scalars) const;
  // Writes n elements of the row from `start` on; `source` holds them, float or int64_t by the
  // array's element.
  void store(const Instr& instr, int64_t start, int64_t n, const void* source);
  // A value as n elements: its own run, or a uniform value repeated in `scratch`.
  const void* elements(const Program& program, int value, int64_t n, void* scratch) const;
  const Scalar& scalar(const Program& program, int value) const {
    return scalars_[static_cast<size_t>(program.scalar_base + value)];
  }
  void* reg(const Program& program, int value) {
    return registers_.get() +
           static_cast<int64_t>(program.values[static_cast<size_t>(value)].reg) * kChunk * 8;
  }

  // vm_check.cpp: the checked mode.
  int64_t index_at(const Program& program, int value, int64_t position, int64_t lane) const;
  void mark_load(const Program& program, const Op& op, int64_t start, int64_t n);
  void check_store(const Instr& instr, int64_t start, int64_t n) const;
  // Fails if a load that is out of bounds is needed for one of the values.
  void check_needed(const Program& program, std::span<const int> results, int64_t n);

  const KernelProgram& kernel_;
  std::vector<int64_t> slots_, strides_, extents_;
  std::vector<Scalar> scalars_;
  std::vector<ArrayData> arrays_;
  std::vector<std::vector<int64_t>> tiles_;  // storage by array; int64_t for its alignment
  std::unique_ptr<char[]> register_storage_;
  struct NoDelete {
    void operator()(char*) const {}
  };
  std::unique_ptr<char, NoDelete> registers_;  // aligned, in register_storage_
  std::vector<const void*> run_;               // by value: a vector's elements
  std::vector<float> work_;                    // accumulators of reductions
  std::vector<uint8_t> out_of_bounds_, needed_;
};

}  // namespace gm::tile_vm
