#include "ir/expr.h"

#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>

namespace gm {
namespace {

std::shared_ptr<ExprNode> make(ExprKind kind, ScalarType type) {
  auto node = std::make_shared<ExprNode>();
  node->kind = kind;
  node->type = type;
  return node;
}

void check_indices(std::string_view name, const std::vector<Expr>& indices) {
  for (const Expr& index : indices) {
    GM_CHECK(index && index.type() == ScalarType::index, "an index of %{} is not of type index",
             name);
  }
}

// Index arithmetic on polynomials is a polynomial; nothing if it does not fold.
std::optional<SymExpr> fold(BinaryOp op, const Expr& a, const Expr& b) {
  const auto x = a.as_sym();
  const auto y = b.as_sym();
  if (!x || !y) return {};
  switch (op) {
    case BinaryOp::add:
      return *x + *y;
    case BinaryOp::sub:
      return *x - *y;
    case BinaryOp::mul:
      return *x * *y;
    case BinaryOp::min:
      return SymExpr::min(*x, *y);
    case BinaryOp::max:
      return SymExpr::max(*x, *y);
    case BinaryOp::floordiv:
      return SymExpr::floordiv(*x, *y->constant());
    case BinaryOp::mod:
      return SymExpr::mod(*x, *y->constant());
    default:
      return {};
  }
}

using Pairs = std::set<std::pair<const ExprNode*, const ExprNode*>>;

// `equal_pairs` keeps shared subtrees from being compared again and again.
bool equal_nodes(const Expr& a, const Expr& b, Pairs& equal_pairs) {
  if (!a || !b) return !a && !b;
  const ExprNode& x = *a;
  const ExprNode& y = *b;
  if (&x == &y) return true;
  if (x.kind != y.kind || x.type != y.type || x.bits != y.bits || x.name != y.name ||
      x.unary_op != y.unary_op || x.binary_op != y.binary_op || x.dtype != y.dtype ||
      x.args.size() != y.args.size() ||
      std::bit_cast<uint32_t>(x.number) != std::bit_cast<uint32_t>(y.number) || x.sym != y.sym)
    return false;
  if (equal_pairs.contains({&x, &y})) return true;
  for (size_t i = 0; i < x.args.size(); ++i) {
    if (!equal_nodes(x.args[i], y.args[i], equal_pairs)) return false;
  }
  if (!x.args.empty()) equal_pairs.insert({&x, &y});
  return true;
}

Expr rebuild(const Expr& e, std::vector<Expr> args) {
  switch (e->kind) {
    case ExprKind::number:
    case ExprKind::index:
      return e;
    case ExprKind::load:
      return Expr::load(e->name, std::move(args), e->type);
    case ExprKind::tile:
      return Expr::tile(e->name, std::move(args), e->type);
    case ExprKind::unary:
      return Expr::unary(e->unary_op, args[0]);
    case ExprKind::binary:
      return Expr::binary(e->binary_op, args[0], args[1]);
    case ExprKind::fma:
      return Expr::fma(args[0], args[1], args[2]);
    case ExprKind::select:
      return Expr::select(args[0], args[1], args[2]);
    case ExprKind::round:
      return Expr::round(e->dtype, args[0]);
  }
  return e;
}

using Done = std::unordered_map<const ExprNode*, Expr>;  // looked up only, never iterated

Expr rewrite_node(const Expr& e, const std::function<Expr(const Expr&)>& change, Done& done) {
  if (const auto it = done.find(&*e); it != done.end()) return it->second;
  Expr result = e;
  std::vector<Expr> args;
  args.reserve(e->args.size());
  bool changed = false;
  for (const Expr& arg : e->args) {
    args.push_back(rewrite_node(arg, change, done));
    changed |= &*args.back() != &*arg;
  }
  if (changed) result = rebuild(e, std::move(args));
  if (Expr replacement = change(result)) {
    GM_CHECK(replacement.type() == e.type(), "a rewrite changes {} to {}", to_string(e.type()),
             to_string(replacement.type()));
    result = std::move(replacement);
  }
  done.emplace(&*e, result);
  return result;
}

void visit_node(const Expr& e, const std::function<void(const Expr&)>& visit,
                std::set<const ExprNode*>& seen) {
  if (!seen.insert(&*e).second) return;
  for (const Expr& arg : e->args) visit_node(arg, visit, seen);
  visit(e);
}

}  // namespace

std::string_view to_string(ScalarType type) {
  switch (type) {
    case ScalarType::f32:
      return "f32";
    case ScalarType::index:
      return "index";
    case ScalarType::bits:
      return "bits";
    case ScalarType::pred:
      return "pred";
  }
  return "?";
}

std::string_view to_string(UnaryOp op) {
  switch (op) {
#define X(name, from, to) \
  case UnaryOp::name:     \
    return #name;
    GM_UNARY_OPS(X)
#undef X
  }
  return "?";
}

std::string_view to_string(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return "add";
    case BinaryOp::sub:
      return "sub";
    case BinaryOp::mul:
      return "mul";
    case BinaryOp::div:
      return "div";
    case BinaryOp::min:
      return "min";
    case BinaryOp::max:
      return "max";
    case BinaryOp::floordiv:
      return "floordiv";
    case BinaryOp::mod:
      return "mod";
    case BinaryOp::bit_and:
      return "bit_and";
    case BinaryOp::bit_or:
      return "bit_or";
    case BinaryOp::shl:
      return "shl";
    case BinaryOp::shr:
      return "shr";
    case BinaryOp::lt:
      return "lt";
    case BinaryOp::le:
      return "le";
    case BinaryOp::eq:
      return "eq";
    case BinaryOp::logical_and:
      return "logical_and";
    case BinaryOp::logical_or:
      return "logical_or";
  }
  return "?";
}

std::optional<ScalarType> result_type(UnaryOp op, ScalarType a) {
  switch (op) {
#define X(name, from, to) \
  case UnaryOp::name:     \
    return a == ScalarType::from ? std::optional(ScalarType::to) : std::nullopt;
    GM_UNARY_OPS(X)
#undef X
  }
  return {};
}

std::optional<ScalarType> result_type(BinaryOp op, ScalarType a, ScalarType b) {
  if (a != b) return {};
  const bool f32 = a == ScalarType::f32;
  const bool index = a == ScalarType::index;
  const bool bits = a == ScalarType::bits;
  const auto same = [&](bool ok) { return ok ? std::optional(a) : std::nullopt; };
  switch (op) {
    case BinaryOp::add:
    case BinaryOp::sub:
      return same(f32 || index || bits);
    case BinaryOp::mul:
    case BinaryOp::min:
    case BinaryOp::max:
      return same(f32 || index);
    case BinaryOp::div:
      return same(f32);
    case BinaryOp::floordiv:
    case BinaryOp::mod:
      return same(index);
    case BinaryOp::bit_and:
    case BinaryOp::bit_or:
    case BinaryOp::shl:
    case BinaryOp::shr:
      return same(bits);
    case BinaryOp::lt:
    case BinaryOp::le:
    case BinaryOp::eq:
      return f32 || index ? std::optional(ScalarType::pred) : std::nullopt;
    case BinaryOp::logical_and:
    case BinaryOp::logical_or:
      return same(a == ScalarType::pred);
  }
  return {};
}

Expr::Expr(float value) {
  auto node = make(ExprKind::number, ScalarType::f32);
  // One NaN, so that printing and reading back loses nothing.
  node->number = std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value;
  node_ = std::move(node);
}

Expr Expr::index(SymExpr value) {
  auto node = make(ExprKind::index, ScalarType::index);
  node->sym = std::move(value);
  return Expr(std::move(node));
}

Expr Expr::bits(uint32_t value) {
  auto node = make(ExprKind::number, ScalarType::bits);
  node->bits = value;
  return Expr(std::move(node));
}

Expr Expr::load(std::string_view buffer, std::vector<Expr> indices, ScalarType type) {
  check_indices(buffer, indices);
  GM_CHECK(type == ScalarType::f32 || type == ScalarType::index, "%{} cannot be loaded as {}",
           buffer, to_string(type));
  auto node = make(ExprKind::load, type);
  node->name = buffer;
  node->args = std::move(indices);
  return Expr(std::move(node));
}

Expr Expr::tile(std::string_view name, std::vector<Expr> indices, ScalarType type) {
  check_indices(name, indices);
  GM_CHECK(type == ScalarType::f32 || type == ScalarType::index, "the tile %{} cannot be of {}",
           name, to_string(type));
  auto node = make(ExprKind::tile, type);
  node->name = name;
  node->args = std::move(indices);
  return Expr(std::move(node));
}

Expr Expr::unary(UnaryOp op, Expr a) {
  GM_CHECK(a, "{} of nothing", to_string(op));
  const auto type = result_type(op, a.type());
  GM_CHECK(type, "{} does not take {}", to_string(op), to_string(a.type()));
  auto node = make(ExprKind::unary, *type);
  node->unary_op = op;
  node->args = {std::move(a)};
  return Expr(std::move(node));
}

Expr Expr::binary(BinaryOp op, Expr a, Expr b) {
  GM_CHECK(a && b, "{} of nothing", to_string(op));
  const auto type = result_type(op, a.type(), b.type());
  GM_CHECK(type, "{} does not take {} and {}", to_string(op), to_string(a.type()),
           to_string(b.type()));
  if (op == BinaryOp::floordiv || op == BinaryOp::mod) {
    const auto divisor = b.as_sym();
    GM_CHECK(divisor && divisor->constant().value_or(0) > 0,
             "{} by something else than a positive constant", to_string(op));
  }
  if (op == BinaryOp::shl || op == BinaryOp::shr) {
    GM_CHECK(b->kind == ExprKind::number && b->bits < 32, "{} by something else than 0..31",
             to_string(op));
  }
  if (auto sym = fold(op, a, b)) return index(*std::move(sym));
  auto node = make(ExprKind::binary, *type);
  node->binary_op = op;
  node->args = {std::move(a), std::move(b)};
  return Expr(std::move(node));
}

Expr Expr::fma(Expr a, Expr b, Expr c) {
  GM_CHECK(a && b && c && a.type() == ScalarType::f32 && b.type() == ScalarType::f32 &&
               c.type() == ScalarType::f32,
           "fma takes three f32");
  auto node = make(ExprKind::fma, ScalarType::f32);
  node->args = {std::move(a), std::move(b), std::move(c)};
  return Expr(std::move(node));
}

Expr Expr::select(Expr condition, Expr a, Expr b) {
  GM_CHECK(condition && a && b && condition.type() == ScalarType::pred && a.type() == b.type(),
           "select takes a pred and two values of one type");
  auto node = make(ExprKind::select, a.type());
  node->args = {std::move(condition), std::move(a), std::move(b)};
  return Expr(std::move(node));
}

Expr Expr::round(DType dtype, Expr a) {
  GM_CHECK(a && a.type() == ScalarType::f32 && is_float(dtype),
           "round takes an f32 and a float dtype");
  if (dtype == DType::f32) return a;
  auto node = make(ExprKind::round, ScalarType::f32);
  node->dtype = dtype;
  node->args = {std::move(a)};
  return Expr(std::move(node));
}

ScalarType Expr::type() const {
  GM_CHECK(node_, "the type of an empty expression");
  return node_->type;
}

std::optional<SymExpr> Expr::as_sym() const {
  // Index arithmetic folds when it is built, so a polynomial is always one leaf.
  if (node_ && node_->kind == ExprKind::index) return node_->sym;
  return {};
}

bool Expr::operator==(const Expr& other) const {
  Pairs equal_pairs;
  return equal_nodes(*this, other, equal_pairs);
}

Expr operator+(Expr a, Expr b) { return Expr::binary(BinaryOp::add, std::move(a), std::move(b)); }
Expr operator-(Expr a, Expr b) { return Expr::binary(BinaryOp::sub, std::move(a), std::move(b)); }
Expr operator*(Expr a, Expr b) { return Expr::binary(BinaryOp::mul, std::move(a), std::move(b)); }
Expr operator/(Expr a, Expr b) { return Expr::binary(BinaryOp::div, std::move(a), std::move(b)); }
Expr operator-(Expr a) {
  if (a.type() == ScalarType::index) return Expr::index(0) - std::move(a);
  return Expr::unary(UnaryOp::neg, std::move(a));
}
Expr exp(Expr x) { return Expr::unary(UnaryOp::exp, std::move(x)); }
Expr log1p(Expr x) { return Expr::unary(UnaryOp::log1p, std::move(x)); }
Expr sin(Expr x) { return Expr::unary(UnaryOp::sin, std::move(x)); }
Expr cos(Expr x) { return Expr::unary(UnaryOp::cos, std::move(x)); }
Expr sqrt(Expr x) { return Expr::unary(UnaryOp::sqrt, std::move(x)); }
Expr rsqrt(Expr x) { return Expr::unary(UnaryOp::rsqrt, std::move(x)); }
Expr max(Expr a, Expr b) { return Expr::binary(BinaryOp::max, std::move(a), std::move(b)); }
Expr min(Expr a, Expr b) { return Expr::binary(BinaryOp::min, std::move(a), std::move(b)); }
Expr less(Expr a, Expr b) { return Expr::binary(BinaryOp::lt, std::move(a), std::move(b)); }
Expr less_equal(Expr a, Expr b) { return Expr::binary(BinaryOp::le, std::move(a), std::move(b)); }
Expr equal(Expr a, Expr b) { return Expr::binary(BinaryOp::eq, std::move(a), std::move(b)); }
Expr logical_and(Expr a, Expr b) {
  return Expr::binary(BinaryOp::logical_and, std::move(a), std::move(b));
}
Expr sigmoid(Expr x) { return Expr(1.0f) / (Expr(1.0f) + exp(-std::move(x))); }
Expr silu(Expr x) { return x * sigmoid(x); }
Expr softplus(Expr x) { return Expr::select(less_equal(x, Expr(20.0f)), log1p(exp(x)), x); }
Expr floordiv(Expr a, int64_t b) {
  return Expr::binary(BinaryOp::floordiv, std::move(a), Expr::index(b));
}
Expr mod(Expr a, int64_t b) { return Expr::binary(BinaryOp::mod, std::move(a), Expr::index(b)); }

Expr rewrite(const Expr& e, const std::function<Expr(const Expr&)>& change) {
  GM_CHECK(e, "rewriting an empty expression");
  Done done;
  return rewrite_node(e, change, done);
}

Expr substitute(const Expr& e, const std::map<std::string, SymExpr, std::less<>>& values) {
  if (values.empty()) return e;
  return rewrite(e, [&](const Expr& node) -> Expr {
    if (node->kind != ExprKind::index) return {};
    for (const std::string& name : node->sym.symbols()) {
      if (values.contains(name)) return Expr::index(node->sym.substitute(values));
    }
    return {};
  });
}

void visit_nodes(const Expr& e, const std::function<void(const Expr&)>& visit) {
  GM_CHECK(e, "visiting an empty expression");
  std::set<const ExprNode*> seen;
  visit_node(e, visit, seen);
}

}  // namespace gm
