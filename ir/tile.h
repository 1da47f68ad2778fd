// L2: a tile kernel, the block-level program that both the GPU and the CPU code come from. A kernel
// is one or more independent parts (sibling contractions become parts of one kernel). A part is a
// grid of work items, each of which runs the same statements on tiles of its own; work items are
// never ordered against each other and share nothing but buffers. There are no thread ids and no
// barriers: how a tile is spread over lanes is the business of a mapping.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/sym.h"
#include "ir/expr.h"
#include "ir/graph.h"

namespace gm {

// One axis of a grid or a tile: name runs over 0 .. extent-1. Names are unique within the enclosing
// part's scope chain.
struct Axis {
  std::string name;
  SymExpr extent;  // over dims and outer axes; may be 0
  bool operator==(const Axis&) const = default;
};

enum class Access : uint8_t { read, write, read_write };
enum class Residency : uint8_t {
  activation,
  weight,
  state,
  step
};  // step: step inputs and outputs

// A kernel parameter: a dense row-major buffer.
struct Param {
  std::string name;
  DType dtype{};
  std::vector<SymExpr> shape;
  Access access = Access::read;
  Residency residency = Residency::activation;
  std::optional<Contract> contract;  // i32 step inputs
  bool operator==(const Param&) const = default;
};

// The order of a reduction, a function of its extent alone.
//   chain B: f32 chains over ascending k in blocks of B, each from 0; the blocks' results are added
//   in ascending order
//            to an accumulator that starts at 0.
//   lanes L: element k goes to partial k mod L in ascending k, each from 0 (max: -inf); then
//   partials are combined as a
//            halving tree: p[i] op p[i + L/2] for i < L/2, and so on.
struct ReduceOrder {
  enum class Kind : uint8_t { chain, lanes } kind = Kind::lanes;
  int64_t size = 16;
  bool operator==(const ReduceOrder&) const = default;
};
inline constexpr int64_t kReduceLanes = 16;
inline constexpr int64_t kChainBlock = 256;

// sum: acc + a · dot: fma(a, b, acc) · max: (acc < a ? a : acc) · argmax: index of the greatest a,
// the lowest index among equals, NaN counts as greatest (the lowest NaN wins); order is then
// irrelevant.
enum class ReduceOp : uint8_t { sum, dot, max, argmax };

struct Stmt;
using Block = std::vector<Stmt>;

// Defines a tile (once per execution of the statement): tile[axes...] = value. f32, or index for
// integer tiles. No axes: a scalar tile.
struct TileStmt {
  std::string tile;
  std::vector<Axis> axes;
  Expr value;
  bool operator==(const TileStmt&) const = default;
};

// Overwrites elements of a tile defined in an enclosing scope: tile[indices...] = value for all
// axes. `value` may read the tile itself only at exactly `indices`. Each element at most once per
// statement.
struct UpdateStmt {
  std::string tile;
  std::vector<Axis> axes;
  std::vector<Expr> indices;
  Expr value;
  bool operator==(const UpdateStmt&) const = default;
};

// Defines a tile as a reduction over one axis. `a` (and `b` for dot) may use `axes` and `over`.
struct ReduceStmt {
  std::string tile;
  std::vector<Axis> axes;
  Axis over;
  ReduceOp op{};
  ReduceOrder order;
  Expr a;
  Expr b;  // dot only
  bool operator==(const ReduceStmt&) const = default;
};

// Writes elements of a buffer: buffer[indices...] = value (f32 rounded to the buffer's dtype, or an
// index as i32).
struct StoreStmt {
  std::string buffer;
  std::vector<Axis> axes;
  std::vector<Expr> indices;
  Expr value;
  bool operator==(const StoreStmt&) const = default;
};

// Sequential: axis runs over lo .. hi-1 (index expressions, which may load: sequence starts). The
// axis is a symbol inside.
struct ForStmt {
  std::string axis;
  Expr lo, hi;
  Block body;
  bool operator==(const ForStmt& other) const;
};

struct IfStmt {
  Expr condition;
  Block body;
  bool operator==(const IfStmt& other) const;
};

// Binds an index value that is known only at run time (a loaded position, a loaded sequence length)
// to a symbol for the rest of the enclosing block, so that extents and indices may use it. lo .. hi
// (inclusive, over dims and outer axes) is what the verifier proves from the contracts of the
// loads.
struct LetStmt {
  std::string name;
  SymExpr lo, hi;
  Expr value;
  bool operator==(const LetStmt&) const = default;
};

struct Stmt {
  std::variant<TileStmt, UpdateStmt, ReduceStmt, StoreStmt, ForStmt, IfStmt, LetStmt> node;
  Location location{};  // of the text it was parsed from
  bool operator==(const Stmt& other) const { return node == other.node; }
};

struct Part {
  std::string name;
  std::vector<Axis> grid;  // extents over dims only; the last axis runs fastest
  Block body;
  bool operator==(const Part&) const = default;
};

struct Kernel {
  std::string name;
  SymTable symbols;  // dims; they arrive as run-time numbers in this order
  std::vector<Param> params;
  std::vector<Part> parts;
  Location location;

  const Param* find_param(std::string_view param) const;
  bool operator==(const Kernel& other) const;  // locations apart
};

// Work items of all parts together: item i of a launch runs part p with p found by counting through
// the parts in order.
SymExpr work_items(const Part& part);

// Text, parsed back exactly (ir/tile_print.cpp, ir/tile_parse.cpp):
//
//   kernel @layers.0.mlp.gate_up {
//     symbol tokens : tokens in [1, 8192]
//     param %x : bf16[tokens, 256] read activation
//     param %w : bf16[16, 256, 32] read weight
//     param %slot : i32[seqs] read step range [-1, slots) distinct masked
//     param %y : bf16[tokens, 512] write activation
//     part gate_up grid (tb < ceildiv(tokens, 4), nb < 16) {
//       tile %a[m < min(4, -4*tb + tokens), k < 256] : f32 = %x[4*tb + m, k]
//       reduce %acc[m < min(4, -4*tb + tokens), n < 32] : f32 = dot chain 256 over k < 256 of %a[m,
//       k], %w[nb, k, n] let p in [0, tokens - 1] = add(%start[s], index(1)) store %y[4*tb + m,
//       32*nb + n] over (m < min(4, -4*tb + tokens), n < 32) = round_bf16(%acc[m, n])
//     }
//   }
//
// Values are written as functions (add, mul, fma, exp, select, lt, ...), indices inside brackets as
// infix polynomials that may load (%pages[s, floordiv(t, 16)]); an index as a value is index(...).
std::string print_kernel(const Kernel& kernel);
Result<Kernel> parse_kernel(std::string_view text, const std::string& file);

// The L2 invariants of docs/architecture.md section 4, each with a 22xx code: names resolve and
// types agree; every index inside its buffer or tile over the whole symbolic range (contracts
// included); each element of an output written exactly once (state and scatters: at most once, by a
// `distinct` contract); no read of a tile before its definition or of a written buffer; `update`
// reads only the element it writes; reductions accumulate in f32; a masked index guards every state
// access. `resident_bytes` bounds a work item's tiles if not zero.
Result<> verify_kernel(const Kernel& kernel, int64_t resident_bytes = 0);

}  // namespace gm
