// Scalar expressions: the bodies of ops and of the statements of L2 kernels. An Expr is an
// immutable tree of f32, index (64-bit signed), bits (the 32 bits of an f32) and predicate values.
// There is no rounding mode and no fast math: each node is one IEEE operation (round to nearest
// even), so that every evaluator that follows the tree gives the same bits. exp, log1p, sin, cos,
// rsqrt are expanded into these by codegen/tile before anything is executed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/sym.h"

namespace gm {

enum class ScalarType : uint8_t { f32, index, bits, pred };
std::string_view to_string(ScalarType type);

enum class ExprKind : uint8_t {
  number,  // an f32 constant
  index,   // a SymExpr over dims and axes, as an index value
  load,    // an element of a buffer (parameter) by name; floats widen to f32, i32 and i8 to index
  tile,    // an element of a tile by name
  unary,
  binary,
  fma,     // a * b + c, one rounding (f32)
  select,  // pred ? a : b
  round,   // f32 -> f32: the value after a store to `dtype` and a load back
};

// X(name, argument type, result type); `same` keeps the argument's.
// clang-format off
#define GM_UNARY_OPS(X)     \
  X(neg, f32, f32)          \
  X(abs, f32, f32)          \
  X(sqrt, f32, f32)         \
  X(floor, f32, f32)        \
  X(round_even, f32, f32)   \
  X(exp, f32, f32)          \
  X(log1p, f32, f32)        \
  X(sin, f32, f32)          \
  X(cos, f32, f32)          \
  X(rsqrt, f32, f32)        \
  X(to_bits, f32, bits)     \
  X(from_bits, bits, f32)   \
  X(to_f32, index, f32)     \
  X(f32_to_bits, f32, bits) \
  X(logical_not, pred, pred)
// clang-format on
// to_bits/from_bits reinterpret; f32_to_bits converts an integral f32 in [-2^31, 2^31) to a two's
// complement int32; to_f32 converts an index (rounding to nearest even).

enum class UnaryOp : uint8_t {
#define X(name, from, to) name,
  GM_UNARY_OPS(X)
#undef X
};

// f32: add sub mul div min max · index: add sub mul min max floordiv mod (by a positive divisor) ·
// bits: add sub and or shl shr (logical; by a bits constant 0..31) · comparisons of two f32 or two
// index: lt le eq -> pred · pred: and or. f32 min/max: (b < a ? b : a) and (a < b ? b : a), so a
// NaN in `b` is dropped and one in `a` is kept.
enum class BinaryOp : uint8_t {
  add,
  sub,
  mul,
  div,
  min,
  max,
  floordiv,
  mod,
  bit_and,
  bit_or,
  shl,
  shr,
  lt,
  le,
  eq,
  logical_and,
  logical_or
};
std::string_view to_string(UnaryOp op);
std::string_view to_string(BinaryOp op);
// The result type for operands of these types; nothing if the op does not take them.
std::optional<ScalarType> result_type(UnaryOp op, ScalarType a);
std::optional<ScalarType> result_type(BinaryOp op, ScalarType a, ScalarType b);

class Expr;
struct ExprNode;

class Expr {
 public:
  Expr() = default;   // empty; only to be assigned to
  Expr(float value);  // NOLINT: literals read better
  Expr(double value) : Expr(static_cast<float>(value)) {}
  Expr(int value) = delete;  // say Expr(1.0f), Expr::index(1) or Expr::bits(1)
  static Expr index(SymExpr value);
  static Expr bits(uint32_t value);
  static Expr load(std::string_view buffer, std::vector<Expr> indices, ScalarType type);
  static Expr tile(std::string_view name, std::vector<Expr> indices, ScalarType type);
  static Expr unary(UnaryOp op, Expr a);
  static Expr binary(BinaryOp op, Expr a, Expr b);
  static Expr fma(Expr a, Expr b, Expr c);
  static Expr select(Expr condition, Expr a, Expr b);
  static Expr round(DType dtype, Expr a);  // f32: `a` itself

  explicit operator bool() const { return node_ != nullptr; }
  const ExprNode& operator*() const { return *node_; }
  const ExprNode* operator->() const { return node_.get(); }
  ScalarType type() const;
  // The SymExpr, if the whole expression is affine in dims and axes (kind index, or index
  // arithmetic on such).
  std::optional<SymExpr> as_sym() const;

  // Structural equality.
  bool operator==(const Expr& other) const;

 private:
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  std::shared_ptr<const ExprNode> node_;
};

struct ExprNode {
  ExprKind kind{};
  ScalarType type{};
  float number = 0;   // number
  uint32_t bits = 0;  // number with type bits
  SymExpr sym;        // index
  std::string name;   // load, tile
  UnaryOp unary_op{};
  BinaryOp binary_op{};
  DType dtype{};           // round
  std::vector<Expr> args;  // indices of load and tile; operands of the others
};

// f32 arithmetic; on index values + - * fold into one SymExpr where both sides are affine.
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator-(Expr a);
Expr exp(Expr x);
Expr log1p(Expr x);
Expr sin(Expr x);
Expr cos(Expr x);
Expr sqrt(Expr x);
Expr rsqrt(Expr x);  // 1 / sqrt(x), two roundings
Expr max(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr less(Expr a, Expr b);
Expr less_equal(Expr a, Expr b);
Expr equal(Expr a, Expr b);
Expr logical_and(Expr a, Expr b);
Expr sigmoid(Expr x);              // 1 / (1 + exp(-x))
Expr silu(Expr x);                 // x * sigmoid(x)
Expr softplus(Expr x);             // x <= 20 ? log1p(exp(x)) : x
Expr floordiv(Expr a, int64_t b);  // index
Expr mod(Expr a, int64_t b);       // index

// Rebuilds an expression bottom-up: `change` sees each node after its operands were rebuilt and may
// replace it (returning an empty Expr keeps it). Shared subtrees are visited once and stay shared.
Expr rewrite(const Expr& e, const std::function<Expr(const Expr&)>& change);
// Replaces symbols (axes, dims) in every index leaf.
Expr substitute(const Expr& e, const std::map<std::string, SymExpr, std::less<>>& values);
// Calls `visit` on each distinct node, operands first.
void visit_nodes(const Expr& e, const std::function<void(const Expr&)>& visit);

}  // namespace gm
