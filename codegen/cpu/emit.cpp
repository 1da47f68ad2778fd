// The frame of a part (work items, memory of tiles) and its statements.
#include "codegen/cpu/emitter.h"

#include <algorithm>

#include <llvm/IR/MDBuilder.h>

#include "codegen/cpu/common_work.h"

namespace gm::cpu {
namespace {

constexpr int kWidth = 16;
constexpr int64_t kStackTileBytes = 4096;  // greater tiles live in scratch memory
constexpr int64_t kStackBytes = 16384;
constexpr int64_t kScratchBytes = int64_t{1} << 30;
constexpr int64_t kTileAlign = 64;

int64_t element_bytes(ScalarType type) { return type == ScalarType::index ? 8 : 4; }

}  // namespace

PartEmitter::PartEmitter(const Kernel& kernel, const Part& part, const Machine& machine,
                         llvm::Function* function, llvm::GlobalVariable* zeros)
    : kernel_(kernel),
      part_(part),
      machine_(machine),
      function_(function),
      zeros_(zeros),
      b_(function->getContext()),
      table_(kernel.symbols) {}

void PartEmitter::fail(Code code, std::string fix, std::string message) {
  if (error_) return;
  error_ = Diag{code, std::move(message), kernel_.location, std::move(fix), {}};
  if (error_->location.empty()) error_->location = Location::of_path("", "@" + kernel_.name);
  error_->notes.push_back(
      {fmt::format("in part '{}' of kernel '{}'", part_.name, kernel_.name), {}});
}

void PartEmitter::count_tiles(const Block& statements) {
  llvm::MDBuilder metadata(b_.getContext());
  for (const Stmt& stmt : statements) {
    if (const auto* loop_stmt = std::get_if<ForStmt>(&stmt.node)) {
      count_tiles(loop_stmt->body);
    } else if (const auto* if_stmt = std::get_if<IfStmt>(&stmt.node)) {
      count_tiles(if_stmt->body);
    } else if (std::holds_alternative<TileStmt>(stmt.node) ||
               std::holds_alternative<ReduceStmt>(stmt.node)) {
      if (tile_others_.empty()) tile_others_.push_back(metadata.createAnonymousAliasScopeDomain());
      tile_scopes_.push_back(metadata.createAnonymousAliasScope(tile_others_[0]));
    }
  }
}

Result<int64_t> PartEmitter::emit() {
  entry_ = llvm::BasicBlock::Create(b_.getContext(), "", function_);
  auto* first = llvm::BasicBlock::Create(b_.getContext(), "", function_);
  b_.SetInsertPoint(first);
  count_tiles(part_.body);
  tile_others_.clear();
  for (size_t i = 0; i < tile_scopes_.size(); ++i) {
    std::vector<llvm::Metadata*> others;
    for (size_t j = 0; j < tile_scopes_.size(); ++j) {
      if (j != i) others.push_back(tile_scopes_[j]);
    }
    tile_others_.push_back(llvm::MDNode::get(b_.getContext(), others));
  }

  auto argument = function_->arg_begin();
  llvm::Value* begin = argument++;
  llvm::Value* end = argument++;
  for (const SymInfo& info : kernel_.symbols.symbols()) scalars_[info.name] = argument++;
  for (const Param& param : kernel_.params) {
    BufferMemory buffer{argument++, &param, std::vector<SymExpr>(param.shape.size(), SymExpr(1))};
    for (size_t i = param.shape.size(); i-- > 1;)
      buffer.strides[i - 1] = buffer.strides[i] * param.shape[i];
    buffers_.emplace(param.name, std::move(buffer));
  }
  scratch_ = argument;

  loop(begin, end, 1, {}, [&](llvm::Value* item, const std::vector<llvm::Value*>&) {
    llvm::Value* rest = item;
    std::vector<llvm::Value*> coordinates(part_.grid.size());
    for (size_t i = part_.grid.size(); i-- > 0;) {
      if (i == 0) {
        coordinates[0] = rest;
        break;
      }
      llvm::Value* extent = scalar_sym(part_.grid[i].extent);
      coordinates[i] = b_.CreateURem(rest, extent);
      rest = b_.CreateUDiv(rest, extent);
    }
    for (size_t i = 0; i < part_.grid.size(); ++i)
      declare(part_.grid[i].name, 0, part_.grid[i].extent - 1, coordinates[i]);
    const size_t common = common_statements(part_);
    if (common > 0) {
      llvm::Value* starts =
          b_.CreateOr(b_.CreateICmpEQ(item, begin), b_.CreateICmpEQ(coordinates.back(), i64(0)));
      when(starts, [&] { statements(std::span(part_.body).first(common)); });
    }
    statements(std::span(part_.body).subspan(common));
    for (size_t i = part_.grid.size(); i-- > 0;) undeclare(part_.grid[i].name);
    return std::vector<llvm::Value*>{};
  });
  b_.CreateRetVoid();
  b_.SetInsertPoint(entry_);
  b_.CreateBr(first);
  if (error_) return Error(*std::move(error_));
  return scratch_bytes_;
}

void PartEmitter::declare(const std::string& name, SymExpr lo, std::optional<SymExpr> hi,
                          llvm::Value* value) {
  table_.declare({name, SymRole::loop, std::move(lo), std::move(hi), 1});
  scalars_[name] = value;
}

void PartEmitter::undeclare(const std::string& name) {
  table_.pop();
  scalars_.erase(name);
}

// A loop in rotated form, which the optimiser can hoist out of without proving that it runs at all.
std::vector<llvm::Value*> PartEmitter::loop(llvm::Value* lo, llvm::Value* hi, int64_t step,
                                            const std::vector<llvm::Value*>& carried,
                                            const LoopBody& body) {
  auto* body_block = llvm::BasicBlock::Create(b_.getContext(), "", function_);
  auto* exit_block = llvm::BasicBlock::Create(b_.getContext(), "");
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLT(lo, hi), body_block, exit_block);
  b_.SetInsertPoint(body_block);
  llvm::PHINode* index = b_.CreatePHI(lo->getType(), 2);
  index->addIncoming(lo, before);
  std::vector<llvm::PHINode*> phis;
  std::vector<llvm::Value*> values;
  for (llvm::Value* start : carried) {
    phis.push_back(b_.CreatePHI(start->getType(), 2));
    phis.back()->addIncoming(start, before);
    values.push_back(phis.back());
  }
  forget();
  const std::vector<llvm::Value*> next_values = body(index, values);
  forget();
  llvm::BasicBlock* latch = b_.GetInsertBlock();
  llvm::Value* next = b_.CreateNSWAdd(index, i64(step));
  index->addIncoming(next, latch);
  b_.CreateCondBr(b_.CreateICmpSLT(next, hi), body_block, exit_block);
  exit_block->insertInto(function_);
  b_.SetInsertPoint(exit_block);
  std::vector<llvm::Value*> results;
  for (size_t i = 0; i < carried.size(); ++i) {
    phis[i]->addIncoming(next_values[i], latch);
    llvm::PHINode* result = b_.CreatePHI(carried[i]->getType(), 2);
    result->addIncoming(carried[i], before);
    result->addIncoming(next_values[i], latch);
    results.push_back(result);
  }
  return results;
}

void PartEmitter::with_axis(const Axis& axis, const std::function<void()>& body) {
  loop(i64(0), scalar_sym(axis.extent), 1, {},
       [&](llvm::Value* i, const std::vector<llvm::Value*>&) {
         declare(axis.name, 0, axis.extent - 1, i);
         body();
         undeclare(axis.name);
         return std::vector<llvm::Value*>{};
       });
}

void PartEmitter::for_each(std::span<const Axis> axes, const std::function<void()>& body) {
  if (axes.empty()) return body();
  with_axis(axes[0], [&] { for_each(axes.subspan(1), body); });
}

void PartEmitter::elementwise(std::span<const Axis> axes, const std::function<void()>& body) {
  forget();
  if (axes.empty()) return body();
  for_each(axes.first(axes.size() - 1), [&] {
    const Axis& axis = axes.back();
    const std::optional<int64_t> constant = axis.extent.constant();
    const SymRange range = table_.range(axis.extent);
    int width = kWidth;
    if (constant) {
      while (width > *constant && width > 2) width /= 2;
    } else if (range.hi && *range.hi < kWidth) {
      width = 1;
    }
    llvm::Value* extent = scalar_sym(axis.extent);
    llvm::Value* done = i64(0);
    if (width > 2) {
      done = b_.CreateAnd(extent, i64(-width));
      loop(i64(0), done, width, {}, [&](llvm::Value* i, const std::vector<llvm::Value*>&) {
        declare(axis.name, 0, axis.extent - 1, i);
        lanes_ = Lanes{axis.name, i, width};
        body();
        lanes_.reset();
        undeclare(axis.name);
        return std::vector<llvm::Value*>{};
      });
      if (table_.divides(width, axis.extent) == Truth::yes) return;
    }
    loop(done, extent, 1, {}, [&](llvm::Value* i, const std::vector<llvm::Value*>&) {
      declare(axis.name, 0, axis.extent - 1, i);
      body();
      undeclare(axis.name);
      return std::vector<llvm::Value*>{};
    });
  });
}

std::vector<Expr> PartEmitter::axis_indices(std::span<const Axis> axes) {
  std::vector<Expr> result;
  for (const Axis& axis : axes) result.push_back(Expr::index(SymExpr::symbol(axis.name)));
  return result;
}

const TileMemory* PartEmitter::define_tile(const std::string& name, std::span<const Axis> axes,
                                           ScalarType type) {
  TileMemory tile;
  tile.type = type;
  tile.scope = next_tile_++;
  tile.strides.resize(axes.size());
  int64_t bytes = element_bytes(type);
  const size_t scope_depth = axes.size();
  for (const Axis& axis : axes) {
    const SymRange range = table_.range(axis.extent);
    int64_t size = 0;
    if (!range.hi) {
      fail(Code::cpu_unbounded, "give every symbol of the extent an upper bound",
           fmt::format("axis {} < {} of tile '{}' has no upper bound", axis.name,
                       axis.extent.to_string(), name));
    } else {
      size = std::max<int64_t>(*range.hi, 0);
    }
    tile.sizes.push_back(size);
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes) ||
        bytes > kScratchBytes) {
      fail(Code::cpu_unbounded, "tile the kernel smaller",
           fmt::format("tile '{}' needs more than {} bytes", name, kScratchBytes));
      bytes = element_bytes(type);
      tile.sizes.back() = 1;  // the error is told; strides must not overflow on the way
    }
    table_.declare(
        {axis.name, SymRole::loop, 0, axis.extent - 1, 1});  // extents may use outer axes
  }
  for (size_t i = 0; i < scope_depth; ++i) table_.pop();
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    tile.strides[i] = stride;
    stride *= std::max<int64_t>(tile.sizes[i], 1);
  }
  bytes = (bytes + kTileAlign - 1) / kTileAlign * kTileAlign;
  if (bytes <= kStackTileBytes && stack_bytes_ + bytes <= kStackBytes) {
    stack_bytes_ += bytes;
    llvm::Type* element_type = type == ScalarType::index ? b_.getInt64Ty() : b_.getFloatTy();
    const llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(entry_);
    llvm::AllocaInst* memory =
        axes.empty() ? b_.CreateAlloca(element_type)
                     : b_.CreateAlloca(llvm::ArrayType::get(
                           element_type, static_cast<uint64_t>(bytes / element_bytes(type))));
    memory->setAlignment(llvm::Align(axes.empty() ? 8 : kTileAlign));
    tile.base = memory;
  } else if (scratch_bytes_ + bytes > kScratchBytes) {
    fail(Code::cpu_unbounded, "tile the kernel smaller",
         fmt::format("the tiles of part '{}' need more than {} bytes", part_.name, kScratchBytes));
    tile.base = scratch_;
  } else {
    // At the entry, since code that runs for some work items only may be the first to use it.
    const llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(entry_);
    tile.base = b_.CreateInBoundsGEP(b_.getInt8Ty(), scratch_, i64(scratch_bytes_));
    scratch_bytes_ += bytes;
  }
  return &tiles_.insert_or_assign(name, std::move(tile)).first->second;
}

void PartEmitter::statements(std::span<const Stmt> block) {
  std::vector<std::string> lets;
  for (const Stmt& stmt : block) {
    if (error_) break;
    statement(stmt);
    if (const auto* let_stmt = std::get_if<LetStmt>(&stmt.node)) lets.push_back(let_stmt->name);
  }
  while (!lets.empty()) {
    undeclare(lets.back());
    lets.pop_back();
  }
}

void PartEmitter::statement(const Stmt& stmt) {
  // Axis names may come back with other extents in another statement.
  forget();
  needs_mask_.clear();
  depends_.clear();
  struct Visitor {
    PartEmitter& self;
    void operator()(const TileStmt& s) const { self.tile(s); }
    void operator()(const UpdateStmt& s) const { self.update(s); }
    void operator()(const ReduceStmt& s) const { self.reduce(s); }
    void operator()(const StoreStmt& s) const { self.store(s); }
    void operator()(const ForStmt& s) const { self.for_loop(s); }
    void operator()(const IfStmt& s) const { self.if_then(s); }
    void operator()(const LetStmt& s) const { self.let(s); }
  };
  std::visit(Visitor{*this}, stmt.node);
}

void PartEmitter::tile(const TileStmt& stmt) {
  const TileMemory* memory = define_tile(stmt.tile, stmt.axes, stmt.value.type());
  const std::vector<Expr> indices = axis_indices(stmt.axes);
  elementwise(stmt.axes, [&] { store_tile(*memory, indices, eval(stmt.value)); });
}

void PartEmitter::update(const UpdateStmt& stmt) {
  const auto found = tiles_.find(stmt.tile);
  GM_CHECK(found != tiles_.end(), "tile '{}' of kernel '{}'", stmt.tile, kernel_.name);
  elementwise(stmt.axes, [&] { store_tile(found->second, stmt.indices, eval(stmt.value)); });
}

void PartEmitter::store(const StoreStmt& stmt) {
  const auto found = buffers_.find(stmt.buffer);
  GM_CHECK(found != buffers_.end(), "parameter '{}' of kernel '{}'", stmt.buffer, kernel_.name);
  elementwise(stmt.axes, [&] { store_buffer(found->second, stmt.indices, stmt.value); });
}

void PartEmitter::for_loop(const ForStmt& stmt) {
  llvm::Value* lo = scalar(stmt.lo);
  llvm::Value* hi = scalar(stmt.hi);
  const std::optional<SymExpr> lo_sym = stmt.lo.as_sym();
  const std::optional<SymExpr> hi_sym = stmt.hi.as_sym();
  loop(lo, hi, 1, {}, [&](llvm::Value* i, const std::vector<llvm::Value*>&) {
    std::optional<SymExpr> last;
    if (hi_sym) last = *hi_sym - 1;
    declare(stmt.axis, lo_sym.value_or(SymExpr(INT64_MIN / 4)), last, i);
    statements(stmt.body);
    undeclare(stmt.axis);
    return std::vector<llvm::Value*>{};
  });
}

void PartEmitter::if_then(const IfStmt& stmt) {
  when(scalar(stmt.condition), [&] { statements(stmt.body); });
}

void PartEmitter::when(llvm::Value* condition, const std::function<void()>& body) {
  auto* then_block = llvm::BasicBlock::Create(b_.getContext(), "", function_);
  auto* exit_block = llvm::BasicBlock::Create(b_.getContext(), "");
  b_.CreateCondBr(condition, then_block, exit_block);
  b_.SetInsertPoint(then_block);
  forget();
  body();
  forget();
  b_.CreateBr(exit_block);
  exit_block->insertInto(function_);
  b_.SetInsertPoint(exit_block);
}

void PartEmitter::let(const LetStmt& stmt) {
  declare(stmt.name, stmt.lo, stmt.hi, scalar(stmt.value));
}

}  // namespace gm::cpu
