// Reductions, in exactly the order that ir/tile.h states. `chain` is vectorised over a result axis
// (each lane is its own chain); `lanes` over the reduced axis (each lane is one partial).
#include "codegen/cpu/emitter.h"

#include <algorithm>
#include <limits>

#include <llvm/IR/Intrinsics.h>

namespace gm::cpu {

llvm::Value* PartEmitter::combine(ReduceOp op, llvm::Value* acc, llvm::Value* a, llvm::Value* b) {
  switch (op) {
    case ReduceOp::sum:
      return b_.CreateFAdd(acc, a);
    case ReduceOp::dot:
      return b_.CreateIntrinsic(llvm::Intrinsic::fma, {acc->getType()}, {a, b, acc});
    case ReduceOp::max:
      return b_.CreateSelect(b_.CreateFCmpOLT(acc, a), a, acc);
    case ReduceOp::argmax:
      break;
  }
  GM_CHECK(false, "argmax is no fold of values");
}

llvm::Value* PartEmitter::merge(ReduceOp op, llvm::Value* left, llvm::Value* right) {
  return op == ReduceOp::max ? combine(op, left, right, nullptr) : b_.CreateFAdd(left, right);
}

llvm::Constant* PartEmitter::start_value(ReduceOp op, llvm::Type* type) {
  return op == ReduceOp::max ? llvm::ConstantFP::getInfinity(type, true)
                             : llvm::ConstantFP::get(type, 0.0);
}

void PartEmitter::reduce(const ReduceStmt& stmt) {
  const bool argmax = stmt.op == ReduceOp::argmax;
  const TileMemory* memory =
      define_tile(stmt.tile, stmt.axes, argmax ? ScalarType::index : ScalarType::f32);
  const std::vector<Expr> indices = axis_indices(stmt.axes);
  const bool chain = stmt.order.kind == ReduceOrder::Kind::chain;
  if (stmt.order.size < 1 ||
      (!chain && !argmax && (stmt.order.size & (stmt.order.size - 1)) != 0) ||
      (!chain && stmt.order.size > 32)) {
    return fail(
        Code::cpu_lowering, "use 1, 2, 4, 8, 16 or 32 lanes, or a positive block",
        fmt::format("tile '{}' reduces in an order of size {}", stmt.tile, stmt.order.size));
  }
  if (chain && !argmax) {
    if (reduce_blocked(stmt, *memory)) return;
    elementwise(stmt.axes, [&] { store_tile(*memory, indices, reduce_chain(stmt)); });
    return;
  }
  for_each(stmt.axes, [&] {
    store_tile(*memory, indices, argmax ? reduce_argmax(stmt) : reduce_lanes(stmt));
  });
}

Value PartEmitter::reduce_chain(const ReduceStmt& stmt) {
  llvm::Type* type = lanes_ ? lanes_of(b_.getFloatTy()) : b_.getFloatTy();
  llvm::Constant* zero = start_value(stmt.op, type);
  llvm::Value* extent = scalar_sym(stmt.over.extent);
  const auto total = loop(
      i64(0), extent, stmt.order.size, {zero},
      [&](llvm::Value* from, const std::vector<llvm::Value*>& outer) -> std::vector<llvm::Value*> {
        llvm::Value* to = min_max(false, b_.CreateAdd(from, i64(stmt.order.size)), extent, false);
        const auto part =
            loop(from, to, 1, {zero},
                 [&](llvm::Value* k,
                     const std::vector<llvm::Value*>& inner) -> std::vector<llvm::Value*> {
                   declare(stmt.over.name, 0, stmt.over.extent - 1, k);
                   Value a = eval(stmt.a);
                   Value b = stmt.op == ReduceOp::dot ? eval(stmt.b) : a;
                   if (lanes_) {
                     a = {widen(a), true};
                     b = {widen(b), true};
                   }
                   llvm::Value* next = combine(stmt.op, inner[0], a.v, b.v);
                   undeclare(stmt.over.name);
                   return {next};
                 });
        return {merge(stmt.op, outer[0], part[0])};
      });
  return {total[0], lanes_.has_value()};
}

Value PartEmitter::reduce_lanes(const ReduceStmt& stmt) {
  const int width = static_cast<int>(stmt.order.size);
  llvm::Type* type = llvm::FixedVectorType::get(b_.getFloatTy(), static_cast<unsigned>(width));
  llvm::Value* extent = scalar_sym(stmt.over.extent);
  llvm::Value* whole = b_.CreateAnd(extent, i64(-width));
  const auto body = [&](llvm::Value* k, bool wide, llvm::Value* acc) {
    declare(stmt.over.name, 0, stmt.over.extent - 1, k);
    if (wide) lanes_ = Lanes{stmt.over.name, k, width};
    Value a = eval(stmt.a);
    Value b = stmt.op == ReduceOp::dot ? eval(stmt.b) : a;
    if (wide) {
      a = {widen(a), true};
      b = {widen(b), true};
    }
    llvm::Value* next = combine(stmt.op, acc, a.v, b.v);
    lanes_.reset();
    undeclare(stmt.over.name);
    return next;
  };
  llvm::Value* partials = start_value(stmt.op, type);
  partials = loop(i64(0), whole, width, {partials},
                  [&](llvm::Value* k, const std::vector<llvm::Value*>& acc) {
                    return std::vector<llvm::Value*>{body(k, true, acc[0])};
                  })[0];
  if (table_.divides(width, stmt.over.extent) != Truth::yes) {
    // What is left over goes on in the lanes from 0.
    partials = loop(whole, extent, 1, {partials},
                    [&](llvm::Value* k, const std::vector<llvm::Value*>& acc) {
                      llvm::Value* lane = b_.CreateSub(k, whole);
                      llvm::Value* old = b_.CreateExtractElement(acc[0], lane);
                      llvm::Value* next = body(k, false, old);
                      return std::vector<llvm::Value*>{b_.CreateInsertElement(acc[0], next, lane)};
                    })[0];
  }
  for (int half = width / 2; half > 0; half /= 2) {
    std::vector<int> low;
    std::vector<int> high;
    for (int i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(i + half);
    }
    partials = merge(stmt.op, b_.CreateShuffleVector(partials, low),
                     b_.CreateShuffleVector(partials, high));
  }
  return {b_.CreateExtractElement(partials, uint64_t{0}), false};
}

// Each lane keeps its first greatest element; the order in which lanes meet cannot matter, since
// ties go to the lowest index.
Value PartEmitter::reduce_argmax(const ReduceStmt& stmt) {
  const int width = 16;
  llvm::Value* extent = scalar_sym(stmt.over.extent);
  llvm::Value* whole = b_.CreateAnd(extent, i64(-width));
  const auto greater = [&](llvm::Value* a,
                           llvm::Value* best) {  // a NaN is greater than all but a NaN
    return b_.CreateAnd(b_.CreateFCmpUGT(a, best), b_.CreateFCmpORD(best, best));
  };
  const auto body = [&](llvm::Value* k, bool wide, const std::vector<llvm::Value*>& best) {
    declare(stmt.over.name, 0, stmt.over.extent - 1, k);
    if (wide) lanes_ = Lanes{stmt.over.name, k, width};
    const Value value = eval(stmt.a);
    llvm::Value* a = wide ? widen(value) : value.v;
    llvm::Value* index = sym(SymExpr::symbol(stmt.over.name), wide).v;
    llvm::Value* better = greater(a, best[0]);
    std::vector<llvm::Value*> next = {b_.CreateSelect(better, a, best[0]),
                                      b_.CreateSelect(better, index, best[1])};
    lanes_.reset();
    undeclare(stmt.over.name);
    return next;
  };
  std::vector<llvm::Constant*> steps;
  for (int lane = 0; lane < width; ++lane) steps.push_back(i64(lane));
  llvm::Type* floats = llvm::FixedVectorType::get(b_.getFloatTy(), width);
  const auto lanes = loop(
      i64(0), whole, width,
      {llvm::ConstantFP::getInfinity(floats, true), llvm::ConstantVector::get(steps)},
      [&](llvm::Value* k, const std::vector<llvm::Value*>& best) { return body(k, true, best); });
  std::vector<llvm::Value*> best = {b_.CreateExtractElement(lanes[0], uint64_t{0}),
                                    b_.CreateExtractElement(lanes[1], uint64_t{0})};
  for (uint64_t lane = 1; lane < static_cast<uint64_t>(width); ++lane) {
    llvm::Value* a = b_.CreateExtractElement(lanes[0], lane);
    llvm::Value* index = b_.CreateExtractElement(lanes[1], lane);
    llvm::Value* both_nan =
        b_.CreateAnd(b_.CreateFCmpUNO(a, a), b_.CreateFCmpUNO(best[0], best[0]));
    llvm::Value* tie = b_.CreateOr(b_.CreateFCmpOEQ(a, best[0]), both_nan);
    llvm::Value* better =
        b_.CreateOr(greater(a, best[0]), b_.CreateAnd(tie, b_.CreateICmpSLT(index, best[1])));
    best = {b_.CreateSelect(better, a, best[0]), b_.CreateSelect(better, index, best[1])};
  }
  // Without a whole strip the lanes hold nothing.
  llvm::Value* none = b_.CreateICmpEQ(whole, i64(0));
  best = {b_.CreateSelect(none, llvm::ConstantFP::getInfinity(b_.getFloatTy(), true), best[0]),
          b_.CreateSelect(none, i64(0), best[1])};
  best = loop(whole, extent, 1, best, [&](llvm::Value* k, const std::vector<llvm::Value*>& old) {
    return body(k, false, old);
  });
  return {best[1], false};
}

// A dot product chain over a panel: `rows` x `columns` 16-lane accumulators stay in registers over
// k, and what does not depend on the row (the weights) is loaded once for all rows.
bool PartEmitter::reduce_blocked(const ReduceStmt& stmt, const TileMemory& tile) {
  if (stmt.op != ReduceOp::dot || stmt.axes.empty()) return false;
  const Axis& n = stmt.axes.back();
  const std::optional<int64_t> width = n.extent.constant();
  if (!width || *width < 16 || *width % 16 != 0) return false;
  const int64_t vectors = *width / 16;
  const std::span<const Axis> axes(stmt.axes);
  const bool has_rows = axes.size() >= 2;
  const auto panels = [&](llvm::Value* m0, int rows) {
    const auto columns = static_cast<int>(
        std::min<int64_t>({vectors, 4, std::max(1, machine_.accumulators / rows)}));
    const int64_t groups = vectors / columns;
    const auto for_groups = [&](llvm::Value* from) {
      loop(i64(0), i64(groups * columns * 16), int64_t{columns} * 16, {},
           [&](llvm::Value* n0, const std::vector<llvm::Value*>&) {
             reduce_panel(stmt, tile, m0, rows, n0, columns, from);
             return std::vector<llvm::Value*>{};
           });
      if (groups * columns < vectors) {
        reduce_panel(stmt, tile, m0, rows, i64(groups * columns * 16),
                     static_cast<int>(vectors - groups * columns), from);
      }
    };
    if (columns == vectors) return for_groups(nullptr);
    // Several groups go through the weights block by block, while a block is in the cache; the
    // sums of blocks wait in the tile.
    for_groups(i64(-1));
    loop(i64(0), scalar_sym(stmt.over.extent), stmt.order.size, {},
         [&](llvm::Value* from, const std::vector<llvm::Value*>&) {
           for_groups(from);
           return std::vector<llvm::Value*>{};
         });
  };
  if (!has_rows) {
    panels(nullptr, 1);
    return true;
  }
  for_each(axes.first(axes.size() - 2), [&] {
    const Axis& m = axes[axes.size() - 2];
    const SymRange range = table_.range(m.extent);
    const int rows = static_cast<int>(std::clamp<int64_t>(range.hi.value_or(4), 1, 4));
    llvm::Value* extent = scalar_sym(m.extent);
    llvm::Value* whole = i64(0);
    if (rows > 1) {
      whole = b_.CreateSub(extent, b_.CreateSRem(extent, i64(rows)));
      loop(i64(0), whole, rows, {}, [&](llvm::Value* m0, const std::vector<llvm::Value*>&) {
        panels(m0, rows);
        return std::vector<llvm::Value*>{};
      });
      if (table_.divides(rows, m.extent) == Truth::yes) return;
    }
    loop(whole, extent, 1, {}, [&](llvm::Value* m0, const std::vector<llvm::Value*>&) {
      panels(m0, 1);
      return std::vector<llvm::Value*>{};
    });
  });
  return true;
}

void PartEmitter::reduce_panel(const ReduceStmt& stmt, const TileMemory& tile, llvm::Value* m0,
                               int rows, llvm::Value* n0, int columns, llvm::Value* from) {
  const Axis& n = stmt.axes.back();
  const Axis* m = m0 == nullptr ? nullptr : &stmt.axes[stmt.axes.size() - 2];
  llvm::Type* type = llvm::FixedVectorType::get(b_.getFloatTy(), 16);
  const std::vector<llvm::Value*> zeros(static_cast<size_t>(rows * columns),
                                        start_value(stmt.op, type));
  // The place of row i and column group j; declared on top of the axes in scope.
  const auto at = [&](int i, int j, const std::function<void()>& body) {
    forget();
    if (m != nullptr) declare(m->name, 0, m->extent - 1, b_.CreateAdd(m0, i64(i)));
    llvm::Value* base = b_.CreateAdd(n0, i64(int64_t{16} * j));
    declare(n.name, 0, n.extent - 1, base);
    lanes_ = Lanes{n.name, base, 16};
    body();
    lanes_.reset();
    undeclare(n.name);
    if (m != nullptr) undeclare(m->name);
    forget();
  };
  const auto operands = [&](const Expr& e) {
    const bool by_row = m != nullptr && depends(e, m->name);
    const bool by_column = depends(e, n.name);
    std::vector<llvm::Value*> values(zeros.size());
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) {
        const size_t source = static_cast<size_t>((by_row ? i : 0) * columns + (by_column ? j : 0));
        llvm::Value*& value = values[static_cast<size_t>(i * columns + j)];
        value = values[source];
        if (value == nullptr) at(i, j, [&] { value = widen(eval(e)); });
      }
    }
    return values;
  };
  llvm::Value* extent = scalar_sym(stmt.over.extent);
  const auto block_chain = [&](llvm::Value* first) {
    llvm::Value* to = min_max(false, b_.CreateAdd(first, i64(stmt.order.size)), extent, false);
    return loop(first, to, 1, zeros, [&](llvm::Value* k, const std::vector<llvm::Value*>& inner) {
      declare(stmt.over.name, 0, stmt.over.extent - 1, k);
      const std::vector<llvm::Value*> b = operands(stmt.b);
      const std::vector<llvm::Value*> a = operands(stmt.a);
      std::vector<llvm::Value*> next;
      for (size_t i = 0; i < inner.size(); ++i)
        next.push_back(combine(stmt.op, inner[i], a[i], b[i]));
      undeclare(stmt.over.name);
      return next;
    });
  };
  const std::vector<Expr> indices = axis_indices(stmt.axes);
  std::vector<llvm::Value*> totals = zeros;
  const bool clear = from != nullptr && llvm::isa<llvm::ConstantInt>(from);
  if (from == nullptr) {
    totals = loop(i64(0), extent, stmt.order.size, zeros,
                  [&](llvm::Value* first, const std::vector<llvm::Value*>& outer) {
                    std::vector<llvm::Value*> part = block_chain(first);
                    for (size_t i = 0; i < part.size(); ++i)
                      part[i] = merge(stmt.op, outer[i], part[i]);
                    return part;
                  });
  } else if (!clear) {
    totals = block_chain(from);
  }
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      at(i, j, [&] {
        llvm::Value* total = totals[static_cast<size_t>(i * columns + j)];
        if (from != nullptr && !clear) {
          const Address where = address(indices, tile_strides(tile), nullptr);
          llvm::Value* old = read(b_.getFloatTy(), tile.base, where, nullptr, tile.scope);
          total = merge(stmt.op, old, total);
        }
        store_tile(tile, indices, {total, true});
      });
    }
  }
  depends_.clear();  // `indices` goes, and its addresses may come back
}

}  // namespace gm::cpu
