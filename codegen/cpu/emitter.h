// Turns one part of an L2 kernel into the body of an LLVM function. Statements are vectorised along
// one axis (the last axis of an elementwise statement or the reduced axis of `lanes`), with a
// scalar loop for what is left over; since every lane does the same IEEE operations as the scalar
// loop, neither the width nor the split can be seen in a result.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <llvm/IR/IRBuilder.h>

#include "codegen/cpu/sym_text.h"
#include "ir/tile.h"

namespace gm::cpu {

// What the emitted code may use of the machine; results do not depend on it.
struct Machine {
  int accumulators = 4;  // 16-lane accumulators that stay in registers
};

// A scalar, or one value for each lane.
struct Value {
  llvm::Value* v = nullptr;
  bool wide = false;
};

// The axis that is spread over lanes at the moment: lane i stands for base + i.
struct Lanes {
  std::string axis;
  llvm::Value* base;
  int width;
};

struct TileMemory {
  llvm::Value* base;
  ScalarType type;
  std::vector<int64_t> sizes;  // the greatest extents; row-major
  std::vector<int64_t> strides;
  size_t scope;  // of tile_scopes_
};

struct BufferMemory {
  llvm::Value* base;
  const Param* param;
  std::vector<SymExpr> strides;
};

// Where the lanes of an access lie, in elements.
struct Address {
  enum class Kind : uint8_t { uniform, contiguous, strided, scattered } kind = Kind::uniform;
  llvm::Value* offset = nullptr;   // of lane 0
  llvm::Value* stride = nullptr;   // strided
  llvm::Value* offsets = nullptr;  // scattered: one a lane
};

class PartEmitter {
 public:
  // `arguments`: a function's (begin, end, dims..., params..., scratch).
  PartEmitter(const Kernel& kernel, const Part& part, const Machine& machine,
              llvm::Function* function, llvm::GlobalVariable* zeros);

  // Writes the whole function; the scratch bytes of a work item.
  Result<int64_t> emit();

 private:
  using Scalars = std::map<std::string, llvm::Value*, std::less<>>;
  // (induction variable, carried values) -> the carried values of the next round
  using LoopBody =
      std::function<std::vector<llvm::Value*>(llvm::Value*, const std::vector<llvm::Value*>&)>;

  // emit.cpp: the frame, statements
  void statements(std::span<const Stmt> block);
  void statement(const Stmt& stmt);
  void tile(const TileStmt& stmt);
  void update(const UpdateStmt& stmt);
  void store(const StoreStmt& stmt);
  void for_loop(const ForStmt& stmt);
  void if_then(const IfStmt& stmt);
  void when(llvm::Value* condition, const std::function<void()>& body);
  void let(const LetStmt& stmt);
  std::vector<llvm::Value*> loop(llvm::Value* lo, llvm::Value* hi, int64_t step,
                                 const std::vector<llvm::Value*>& carried, const LoopBody& body);
  // Runs `body` for all elements of `axes`, the last one over lanes where it is long enough.
  void elementwise(std::span<const Axis> axes, const std::function<void()>& body);
  // Nested scalar loops.
  void for_each(std::span<const Axis> axes, const std::function<void()>& body);
  void with_axis(const Axis& axis, const std::function<void()>& body);
  const TileMemory* define_tile(const std::string& name, std::span<const Axis> axes,
                                ScalarType type);
  static std::vector<Expr> axis_indices(std::span<const Axis> axes);
  void declare(const std::string& name, SymExpr lo, std::optional<SymExpr> hi, llvm::Value* value);
  void undeclare(const std::string& name);
  void count_tiles(const Block& statements);

  // emit_reduce.cpp
  void reduce(const ReduceStmt& stmt);
  bool reduce_blocked(const ReduceStmt& stmt, const TileMemory& tile);
  // `from`: null for the whole reduction, a constant to clear the tile, else the block to add to
  // it.
  void reduce_panel(const ReduceStmt& stmt, const TileMemory& tile, llvm::Value* m0, int rows,
                    llvm::Value* n0, int columns, llvm::Value* from);
  Value reduce_chain(const ReduceStmt& stmt);
  Value reduce_lanes(const ReduceStmt& stmt);
  Value reduce_argmax(const ReduceStmt& stmt);
  llvm::Value* combine(ReduceOp op, llvm::Value* acc, llvm::Value* a, llvm::Value* b);
  llvm::Value* merge(ReduceOp op, llvm::Value* left, llvm::Value* right);
  llvm::Constant* start_value(ReduceOp op, llvm::Type* type);

  // emit_expr.cpp
  // `mask` (null: all; a scalar or one a lane): where it is false the value is not used and memory
  // is not touched.
  Value eval(const Expr& e, llvm::Value* mask = nullptr);
  Value eval_new(const Expr& e, llvm::Value* mask);
  Value eval_unary(const ExprNode& node, llvm::Value* mask);
  Value eval_binary(const ExprNode& node, llvm::Value* mask);
  Value eval_select(const ExprNode& node, llvm::Value* mask);
  Value round_value(DType dtype, Value a);
  llvm::Value* bf16_bits(llvm::Value* f);    // i32 lanes with the 16 bits
  llvm::Value* from_bf16(llvm::Value* i32);  // i32 lanes -> f32
  llvm::Value* min_max(bool is_max, llvm::Value* a, llvm::Value* b, bool is_float);
  llvm::Value* floor_divide(llvm::Value* a, llvm::Value* b, bool remainder);
  llvm::Value* widen(Value value);
  // Makes two or three operands all scalar or all wide; whether they are wide.
  bool unify(std::initializer_list<Value*> values);
  llvm::Value* and_mask(llvm::Value* a, llvm::Value* b);
  Value sym(const SymExpr& e, bool wide);
  llvm::Value* scalar_sym(const SymExpr& e) { return sym(e, false).v; }
  Value sym_tree(const SymTree& tree, bool wide);
  llvm::Value* scalar(const Expr& e);  // outside lanes
  bool depends(const Expr& e, const std::string& axis);
  bool needs_mask(const Expr& e);
  // Values are kept only within one straight run of code.
  void forget() { memo_.clear(); }

  // emit_access.cpp
  Address address(std::span<const Expr> indices, std::span<const SymExpr> strides,
                  llvm::Value* mask);
  Value load(const ExprNode& node, llvm::Value* mask);
  llvm::Value* read(llvm::Type* type, llvm::Value* base, const Address& where, llvm::Value* mask,
                    std::optional<size_t> scope);
  void write(llvm::Value* value, bool wide, llvm::Value* base, const Address& where,
             std::optional<size_t> scope);
  void store_tile(const TileMemory& tile, std::span<const Expr> indices, Value value);
  void store_buffer(const BufferMemory& buffer, std::span<const Expr> indices, const Expr& value);
  llvm::Value* element(llvm::Type* type, llvm::Value* base, llvm::Value* offset);
  void tag(llvm::Instruction* access, std::optional<size_t> scope);
  llvm::Type* buffer_type(DType dtype);
  std::vector<SymExpr> tile_strides(const TileMemory& tile) const;

  void fail(Code code, std::string fix, std::string message);
  llvm::Type* lanes_of(llvm::Type* type);
  llvm::Constant* i64(int64_t value) {
    return llvm::ConstantInt::getSigned(b_.getInt64Ty(), value);
  }

  const Kernel& kernel_;
  const Part& part_;
  const Machine machine_;
  llvm::Function* function_;
  llvm::GlobalVariable* zeros_;  // what masked-off lanes read
  llvm::IRBuilder<> b_;
  llvm::BasicBlock* entry_ = nullptr;  // allocas
  llvm::Value* scratch_ = nullptr;

  SymTable table_;   // dims and the axes in scope
  Scalars scalars_;  // their values
  std::optional<Lanes> lanes_;
  std::map<std::string, TileMemory, std::less<>> tiles_;
  std::map<std::string, BufferMemory, std::less<>> buffers_;
  std::map<std::string, SymTree, std::less<>> trees_;
  std::map<std::pair<const ExprNode*, llvm::Value*>, Value> memo_;  // looked up, never walked
  std::map<const ExprNode*, bool> needs_mask_;
  std::map<std::pair<const ExprNode*, std::string>, bool> depends_;
  std::vector<llvm::MDNode*> tile_scopes_, tile_others_;  // alias scopes: tiles never overlap
  size_t next_tile_ = 0;
  int64_t scratch_bytes_ = 0;
  int64_t stack_bytes_ = 0;
  std::optional<Diag> error_;
};

}  // namespace gm::cpu
