#include "ops/expr_program.h"

#include <charconv>
#include <cmath>

namespace gm {
namespace {

size_t parse_number(const std::string& name) {
  size_t value = 0;
  const auto end = std::from_chars(name.data(), name.data() + name.size(), value);
  GM_CHECK(end.ec == std::errc(), "a body of an op reads %{}", name);
  return value;
}

int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace

template <class T>
ExprProgram<T>::ExprProgram(const Expr& e, std::span<const std::string> axes,
                            std::span<const RefTensor<T>* const> inputs)
    : axes_(axes.begin(), axes.end()), inputs_(inputs.begin(), inputs.end()) {
  add(e);
  numbers_.resize(nodes_.size());
  integers_.resize(nodes_.size());
}

template <class T>
size_t ExprProgram<T>::add(const Expr& e) {
  if (const auto found = known_.find(&*e); found != known_.end()) return found->second;
  Node node;
  node.expr = e;
  for (const Expr& arg : e->args) node.args.push_back(add(arg));
  if (e->kind == ExprKind::index) add_index(node, e->sym);
  if (e->kind == ExprKind::load || e->kind == ExprKind::tile) node.which = parse_number(e->name);
  nodes_.push_back(std::move(node));
  known_.emplace(&*e, nodes_.size() - 1);
  return nodes_.size() - 1;
}

template <class T>
void ExprProgram<T>::add_index(Node& node, SymExpr sym) {
  for (size_t i = 0; i < axes_.size(); ++i) {
    auto linear = sym.linear_in(axes_[i]);
    if (!linear) {
      node.general = true;
      return;
    }
    if (linear->coefficient != 0) node.coefficients.emplace_back(i, linear->coefficient);
    sym = std::move(linear->rest);
  }
  const auto constant = sym.constant();
  node.general = !constant;
  node.constant = constant.value_or(0);
}

template <class T>
void ExprProgram<T>::load(Node& node, size_t at) {
  const RefTensor<T>& tensor = *inputs_[node.which];
  GM_CHECK(node.args.size() == tensor.shape.size(), "{} indices for {} dimensions",
           node.args.size(), tensor.shape.size());
  int64_t offset = 0;
  for (size_t d = 0; d < node.args.size(); ++d) {
    const int64_t index = integers_[node.args[d]];
    if (index < 0 || index >= tensor.shape[d]) {
      if (fault_.empty()) {
        fault_ = fmt::format("index {} is outside of the {} elements of dimension {} of operand {}",
                             index, tensor.shape[d], d, node.which);
      }
      numbers_[at] = 0;
      integers_[at] = 0;
      node.offset = 0;
      return;
    }
    offset = offset * tensor.shape[d] + index;
  }
  node.offset = offset;
  const auto o = static_cast<size_t>(offset);
  if (node.expr.type() == ScalarType::f32) {
    numbers_[at] = tensor.data[o];
  } else {
    integers_[at] = tensor.ints[o];
  }
}

template <class T>
void ExprProgram<T>::unary(const Node& node, size_t at) {
  const T x = numbers_[node.args[0]];
  T& y = numbers_[at];
  switch (node.expr->unary_op) {
    case UnaryOp::neg:
      y = -x;
      return;
    case UnaryOp::abs:
      y = std::abs(x);
      return;
    case UnaryOp::sqrt:
      y = std::sqrt(x);
      return;
    case UnaryOp::floor:
      y = std::floor(x);
      return;
    case UnaryOp::round_even:
      y = std::nearbyint(x);
      return;
    case UnaryOp::exp:
      y = std::exp(x);
      return;
    case UnaryOp::log1p:
      y = std::log1p(x);
      return;
    case UnaryOp::sin:
      y = std::sin(x);
      return;
    case UnaryOp::cos:
      y = std::cos(x);
      return;
    case UnaryOp::rsqrt:
      y = T(1) / std::sqrt(x);
      return;
    case UnaryOp::to_f32:
      y = static_cast<T>(integers_[node.args[0]]);
      return;
    case UnaryOp::logical_not:
      integers_[at] = integers_[node.args[0]] == 0;
      return;
    default:
      break;
  }
  GM_CHECK(false, "a body of an op has {}", to_string(node.expr->unary_op));
}

template <class T>
void ExprProgram<T>::binary(const Node& node, size_t at) {
  const int64_t i = integers_[node.args[0]];
  const int64_t j = integers_[node.args[1]];
  const T a = numbers_[node.args[0]];
  const T b = numbers_[node.args[1]];
  const bool floats = node.expr->args[0].type() == ScalarType::f32;
  int64_t& n = integers_[at];
  T& x = numbers_[at];
  switch (node.expr->binary_op) {
    case BinaryOp::add:
      floats ? void(x = a + b) : void(n = i + j);
      return;
    case BinaryOp::sub:
      floats ? void(x = a - b) : void(n = i - j);
      return;
    case BinaryOp::mul:
      floats ? void(x = a * b) : void(n = i * j);
      return;
    case BinaryOp::div:
      x = a / b;
      return;
    case BinaryOp::min:
      floats ? void(x = b < a ? b : a) : void(n = std::min(i, j));
      return;
    case BinaryOp::max:
      floats ? void(x = a < b ? b : a) : void(n = std::max(i, j));
      return;
    case BinaryOp::floordiv:
      n = floor_divide(i, j);
      return;
    case BinaryOp::mod:
      n = i - floor_divide(i, j) * j;
      return;
    case BinaryOp::lt:
      n = floats ? a < b : i < j;
      return;
    case BinaryOp::le:
      n = floats ? a <= b : i <= j;
      return;
    case BinaryOp::eq:
      n = floats ? a == b : i == j;
      return;
    case BinaryOp::logical_and:
      n = i != 0 && j != 0;
      return;
    case BinaryOp::logical_or:
      n = i != 0 || j != 0;
      return;
    default:
      break;
  }
  GM_CHECK(false, "a body of an op has {}", to_string(node.expr->binary_op));
}

template <class T>
void ExprProgram<T>::run(std::span<const int64_t> axes, std::span<const T> tiles) {
  for (size_t at = 0; at < nodes_.size(); ++at) {
    Node& node = nodes_[at];
    const auto arg = [&](size_t i) { return node.args[i]; };
    switch (node.expr->kind) {
      case ExprKind::number:
        numbers_[at] = static_cast<T>(node.expr->number);
        break;
      case ExprKind::index: {
        if (node.general) {
          for (size_t i = 0; i < axes_.size(); ++i) bindings_[axes_[i]] = axes[i];
          const auto value = node.expr->sym.evaluate(bindings_);
          GM_CHECK(value, "{} has no value", node.expr->sym.to_string());
          integers_[at] = *value;
          break;
        }
        int64_t value = node.constant;
        for (const auto& [axis, coefficient] : node.coefficients) value += coefficient * axes[axis];
        integers_[at] = value;
        break;
      }
      case ExprKind::load:
        load(node, at);
        break;
      case ExprKind::tile:
        numbers_[at] = tiles[node.which];
        break;
      case ExprKind::unary:
        unary(node, at);
        break;
      case ExprKind::binary:
        binary(node, at);
        break;
      case ExprKind::fma:
        numbers_[at] = std::fma(numbers_[arg(0)], numbers_[arg(1)], numbers_[arg(2)]);
        break;
      case ExprKind::select: {
        const size_t taken = integers_[arg(0)] != 0 ? arg(1) : arg(2);
        numbers_[at] = numbers_[taken];
        integers_[at] = integers_[taken];
        break;
      }
      case ExprKind::round:
        numbers_[at] = numbers_[arg(0)];
        if constexpr (std::is_same_v<T, float>) {
          numbers_[at] = round_to(node.expr->dtype, numbers_[at]);
        }
        break;
    }
  }
}

template class ExprProgram<float>;
template class ExprProgram<double>;

}  // namespace gm
