#include "codegen/tile/kernel_bytes.h"

#include <algorithm>

namespace gm {
namespace {

class ByteCounter {
 public:
  explicit ByteCounter(const SymTable& symbols) : symbols_(symbols) {}

  // Nothing: unbounded.
  std::optional<int64_t> part(const Part& part) {
    total_ = 0;
    for (const Axis& axis : part.grid) declare_axis(axis.name, SymExpr(0), axis.extent - 1);
    block(part.body);
    for (size_t i = 0; i < part.grid.size(); ++i) symbols_.pop();
    return total_;
  }

 private:
  void declare_axis(const std::string& name, SymExpr lo, std::optional<SymExpr> hi) {
    symbols_.declare(SymInfo{name, SymRole::loop, std::move(lo), std::move(hi), 1});
  }

  void tile(const std::vector<Axis>& axes, ScalarType type) {
    int64_t bytes = type == ScalarType::index ? 8 : 4;
    for (const Axis& axis : axes) {
      const std::optional<int64_t> extent = symbols_.range(axis.extent).hi;
      if (!extent || __builtin_mul_overflow(bytes, std::max<int64_t>(*extent, 0), &bytes)) {
        total_.reset();
        return;
      }
    }
    if (total_ && __builtin_add_overflow(*total_, bytes, &*total_)) total_.reset();
  }

  void block(const Block& stmts) {
    size_t declared = 0;
    for (const Stmt& stmt : stmts) {
      if (const auto* s = std::get_if<TileStmt>(&stmt.node)) {
        tile(s->axes, s->value.type());
      } else if (const auto* r = std::get_if<ReduceStmt>(&stmt.node)) {
        tile(r->axes, r->op == ReduceOp::argmax ? ScalarType::index : ScalarType::f32);
      } else if (const auto* f = std::get_if<ForStmt>(&stmt.node)) {
        const std::optional<SymExpr> lo = f->lo.as_sym();
        std::optional<SymExpr> hi = f->hi.as_sym();
        if (hi) hi = *hi - 1;
        declare_axis(f->axis, lo ? *lo : SymExpr(0), std::move(hi));
        block(f->body);
        symbols_.pop();
      } else if (const auto* i = std::get_if<IfStmt>(&stmt.node)) {
        block(i->body);
      } else if (const auto* l = std::get_if<LetStmt>(&stmt.node)) {
        declare_axis(l->name, l->lo, l->hi);
        ++declared;
      }
    }
    for (; declared > 0; --declared) symbols_.pop();
  }

  SymTable symbols_;
  std::optional<int64_t> total_;
};

}  // namespace

int64_t resident_bytes(const Kernel& kernel) {
  int64_t greatest = 0;
  for (const Part& part : kernel.parts) {
    const std::optional<int64_t> bytes = ByteCounter(kernel.symbols).part(part);
    if (!bytes) return -1;
    greatest = std::max(greatest, *bytes);
  }
  return greatest;
}

}  // namespace gm
