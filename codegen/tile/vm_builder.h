// Compiles the expressions of one statement into a Program: names to slots, shared nodes to one
// value each, equal operations to one, index arithmetic to linear values wherever the row axis
// enters linearly.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/tile/vm_program.h"

namespace gm::tile_vm {

// The names in scope.
struct Scope {
  std::map<std::string, int, std::less<>> symbols;  // to slots
  std::map<std::string, int, std::less<>> arrays;   // to KernelProgram::arrays
};

class Builder {
 public:
  // `row` is the row axis' slot or -1; `depths` gives the level of each axis of the statement that
  // is not the row; the row's level is `row_level`.
  Builder(const std::vector<ArrayInfo>& arrays, const Scope& scope, Location where, int row,
          std::map<int, int> depths, int row_level);

  int expr(const Expr& e);
  int sym(const SymExpr& e);
  // The value itself, or the vector of a linear value.
  int operand(int value);
  // The flat index of an element.
  int address(int array, const std::vector<int>& indices);
  Shape shape(int value) const { return program_.values[static_cast<size_t>(value)].shape; }
  // Loads that run along consecutive elements: what the choice of a row axis is about.
  int contiguous_loads() const { return contiguous_; }
  const std::optional<Diag>& error() const { return error_; }
  int fail(Code code, std::string message);

  // `results` are the values that are read after the last operation.
  Program finish(const std::vector<int>& results, bool checked);

 private:
  int node(const ExprNode& node);
  int unary(const ExprNode& node, int a);
  int binary(const ExprNode& node, int a, int b);
  int load(const ExprNode& node, std::vector<int> indices);
  int tree(const SymTree& tree);
  int constant(ScalarType type, int64_t bits);
  int symbol(const SymCode& code);
  int compute(VmCode code, ScalarType type, int a, int b = -1, int c = -1);
  int index_op(VmCode code, int a, int b);
  int depth_of(int slot) const;
  int depth_of_value(int value) const;
  int add_value(Shape shape, ScalarType type, int depth);
  int emit(Op op, Shape shape, ScalarType type);

  const std::vector<ArrayInfo>& arrays_;
  const Scope& scope_;
  Location where_;
  int row_;
  std::map<int, int> depths_;
  int row_level_;
  Program program_;
  int contiguous_ = 0;
  std::optional<Diag> error_;
  std::map<const ExprNode*, int> memo_;
  std::vector<Expr> kept_;  // keeps the memo's nodes alive
  std::map<std::array<int64_t, 8>, int> known_;
  std::map<std::pair<int, int64_t>, int> constants_;
};

}  // namespace gm::tile_vm
