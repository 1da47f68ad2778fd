// What the tile interpreter executes: per statement, a nest of axes around a list of operations in
// SSA order. The innermost axis (the row) is run a chunk of elements at a time. A value is uniform
// (one scalar for the row), linear (an index that grows by a constant step along the row) or a
// vector (one element a row element). Operations are sorted by depth, the innermost level whose
// axis they depend on, and run when that level's axis moves.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "codegen/tile/vm_loops.h"
#include "codegen/tile/vm_sym.h"
#include "ir/tile.h"

namespace gm::tile_vm {

inline constexpr int64_t kChunk = 256;  // elements of a row that are evaluated at once

enum class Shape : uint8_t { uniform, linear, vector };

struct Scalar {
  union {
    int64_t i = 0;
    float f;
    uint32_t u;
  };
  int64_t step = 0;  // linear values: the element at row position p is i + step * p
};

enum class Do : uint8_t {
  scalar,      // r = code(a, b, c), one element
  vector,      // the same on a chunk; mask says which operands are vectors
  linear_add,  // r = a + b, a - b, a * b on uniform and linear values
  linear_sub,
  linear_mul,
  sym,          // r = syms[extra]
  stride,       // r = the stride slot `extra`
  iota,         // r = the elements of the linear value a
  address,      // r = flat index: the sum of terms [extra, extra + count), uniform or linear
  load_scalar,  // r = array[a]
  load_linear,  // r = array[a + step * position]
  gather,       // r = array[a], a vector of indices
};

struct Op {
  Do action{};
  VmCode code{};
  uint8_t mask = 0;
  int depth = 0;
  int r = -1, a = -1, b = -1, c = -1;
  int array = -1;
  int extra = 0, count = 0;
  Loop loop = nullptr;
};

struct AddressTerm {
  int value;
  int stride;  // slot, or -1 for a stride of 1
};

// An element access to be checked: the operation's (or the sink's) indices before they were
// flattened.
struct ElementAccess {
  int array = -1;
  std::vector<int> indices;
};

struct ValueInfo {
  Shape shape{};
  ScalarType type{};
  int depth = 0;
  int reg = -1;  // vectors: number of the chunk-sized register
};

struct Program {
  std::vector<Op> ops;
  std::vector<int> level_begin;  // ops of level d: [level_begin[d], level_begin[d + 1])
  std::vector<ValueInfo> values;
  std::vector<std::pair<int, Scalar>> constants;
  std::vector<SymCode> syms;
  std::vector<AddressTerm> terms;
  std::vector<ElementAccess> accesses;  // of the loads, at Op::extra
  int scalar_base = 0;                  // of its values in the frame's scalars
  int registers = 0;
};

enum class Element : uint8_t { f32, bf16, f16, i32, i8, i64 };

// A parameter or a tile.
struct ArrayInfo {
  std::string name;
  Element element{};
  std::vector<SymCode> shape;
  int stride_base = 0;  // of its strides, and of its extents, in the frame
  bool is_tile = false;
};

struct LoopAxis {
  int slot = 0;
  SymCode extent;
};

struct Instr {
  enum class Kind : uint8_t { elementwise, reduce, loop, branch, let } kind{};
  Program program;
  std::vector<LoopAxis> outer;
  bool has_row = false;
  LoopAxis row;
  // The element written: a flat index, and what it is checked against.
  int array = -1;
  int address = -1;
  ElementAccess access;
  bool defines = false;  // allocates the tile
  int value = -1;        // elementwise: what is stored; let, branch: the value; reduce: a
  int second = -1;       // reduce: b of a dot; loop: hi
  // reduce
  ReduceOp op{};
  ReduceOrder order;
  bool row_is_over =
      false;  // the row is the reduced axis; otherwise `over` is the level around the row
  LoopAxis over;
  // let, loop
  int slot = -1;
  std::vector<Instr> body;
};

struct PartProgram {
  std::vector<LoopAxis> grid;
  std::vector<Instr> body;
};

struct KernelProgram {
  std::string name;
  int dims = 0;
  int slots = 0;  // symbols: dims first
  int strides = 0;
  int scalars = 0;
  int registers = 0;
  int values = 0;  // the most of any program
  int params = 0;
  std::vector<ArrayInfo> arrays;  // params first
  std::vector<Scalar> initial;    // the frame's scalars: constants
  std::vector<PartProgram> parts;
  bool checked = false;
};

}  // namespace gm::tile_vm
