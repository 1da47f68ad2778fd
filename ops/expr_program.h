// An expression of an op's body, flattened for evaluation at many points: nodes in dependence
// order, and index polynomials as dot products where they are linear in the axes. Part of the
// reference.
#pragma once

#include <unordered_map>

#include "ir/opdef.h"

namespace gm {

// Reads become loads named by the operand's number, which ExprProgram resolves.
class RefContext : public ReadContext {
 public:
  RefContext(const OpInstance& op, std::span<const TensorType> results)
      : op_(&op), results_(results) {}
  const OpInstance& op() const override { return *op_; }
  const TensorType& result(size_t i) const override { return results_[i]; }
  Expr read(size_t operand, std::vector<Expr> indices) override {
    const bool floats = is_float(op_->input(operand).dtype);
    return Expr::load(fmt::format("{}", operand), std::move(indices),
                      floats ? ScalarType::f32 : ScalarType::index);
  }

 private:
  const OpInstance* op_;
  std::span<const TensorType> results_;
};

template <class T>
class ExprProgram {
 public:
  // Axes are the symbols of the expression, in the order of their values in run(). Tiles without
  // axes are named by the position of their value in `tiles`.
  ExprProgram(const Expr& e, std::span<const std::string> axes,
              std::span<const RefTensor<T>* const> inputs);

  void run(std::span<const int64_t> axes, std::span<const T> tiles = {});
  T number() const { return numbers_.back(); }
  int64_t integer() const { return integers_.back(); }
  // Of a program whose last node is a load: the offset that it read.
  int64_t offset() const { return nodes_.back().offset; }
  // The first index that left its tensor, in any run; empty if none did. Such a load reads as 0.
  const std::string& fault() const { return fault_; }

 private:
  struct Node {
    Expr expr;
    std::vector<size_t> args;
    size_t which = 0;      // operand of a load, number of a tile
    int64_t constant = 0;  // index: constant + coefficients . axes, unless `general`
    std::vector<std::pair<size_t, int64_t>> coefficients;
    bool general = false;
    int64_t offset = 0;
  };

  size_t add(const Expr& e);
  void add_index(Node& node, SymExpr sym);
  void load(Node& node, size_t at);
  void unary(const Node& node, size_t at);
  void binary(const Node& node, size_t at);

  std::vector<std::string> axes_;
  std::vector<const RefTensor<T>*> inputs_;
  std::vector<Node> nodes_;
  std::unordered_map<const ExprNode*, size_t> known_;  // looked up only
  std::vector<T> numbers_;
  std::vector<int64_t> integers_;  // index and pred values
  std::map<std::string, int64_t, std::less<>> bindings_;
  std::string fault_;
};

extern template class ExprProgram<float>;
extern template class ExprProgram<double>;

}  // namespace gm
