#include "ops/cost.h"

#include "ops/expr_program.h"

namespace gm {
namespace {

int64_t count_flops(const Expr& e) {
  int64_t count = 0;
  visit_nodes(e, [&](const Expr& node) {
    switch (node->kind) {
      case ExprKind::unary:
      case ExprKind::binary:
        count += node->args[0].type() == ScalarType::f32 ? 1 : 0;
        break;
      case ExprKind::fma:
        count += 2;
        break;
      default:
        break;
    }
  });
  return count;
}

std::vector<Expr> some_indices(size_t rank) {
  std::vector<Expr> indices;
  for (size_t d = 0; d < rank; ++d) {
    indices.push_back(Expr::index(SymExpr::symbol(fmt::format("i{}", d))));
  }
  return indices;
}

}  // namespace

SymExpr element_count(const TensorType& type) {
  SymExpr count = 1;
  for (const SymExpr& dim : type.shape) count = count * dim;
  return count;
}

SymExpr op_flops(const OpInstance& op, std::span<const TensorType> results) {
  const OpDef& def = op.def();
  RefContext context(op, results);
  const auto indices = some_indices(results[0].shape.size());
  switch (def.op_class) {
    case OpClass::view:
      return 0;
    case OpClass::kernel_like:
      return def.flops(op);
    case OpClass::pointwise:
      return element_count(results[0]) * count_flops(def.element(context, indices));
    case OpClass::contraction:
      return element_count(results[0]) * def.extent_k(op) * 2;
    case OpClass::row_reduction: {
      const std::span row(indices.data(), indices.size() - 1);
      std::vector<Expr> reduced;
      int64_t count = 0;
      for (const OpDef::RowReduce& reduction : def.reductions) {
        count += 1 + count_flops(reduction.value(context, row, indices.back(), reduced));
        reduced.push_back(Expr::tile(fmt::format("{}", reduced.size()), {}, ScalarType::f32));
      }
      count += count_flops(def.row_element(context, indices, reduced));
      return element_count(results[0]) * count;
    }
  }
  GM_CHECK(false, "an op of no class");
}

}  // namespace gm
