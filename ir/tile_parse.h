// The expressions of kernel texts: values as functions, indices as infix polynomials. Inside ir/
// only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/expr.h"
#include "ir/lexer.h"

namespace gm {

struct ScopeName {
  std::string name;
  bool is_tile = false;  // else a parameter
  ScalarType type{};
};

class ExprParser {
 public:
  // The names in scope, innermost last, belong to the caller and may change between calls.
  ExprParser(TokenStream& tokens, const std::vector<ScopeName>& scope)
      : tokens_(tokens), scope_(scope) {}

  const ScopeName* find(std::string_view name) const;
  Result<Expr> parse_value(ScalarType type);
  Result<Expr> parse_index();
  Result<SymExpr> parse_sym();
  Result<std::vector<Expr>> parse_indices();  // "[a, b]", or nothing

 private:
  Result<Expr> value();
  Result<Expr> call();
  Result<std::vector<Expr>> operands(size_t count);
  Result<Expr> sum();
  Result<Expr> product();
  Result<Expr> factor();
  Result<Expr> infix_call();
  Result<Expr> reference();
  Result<Expr> number();
  Result<Expr> combine(BinaryOp op, Expr a, Expr b, const Location& where);
  Result<int64_t> divisor();
  Result<> enter();

  TokenStream& tokens_;
  const std::vector<ScopeName>& scope_;
  int depth_ = 0;
};

}  // namespace gm
