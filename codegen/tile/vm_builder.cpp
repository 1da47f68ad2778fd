#include "codegen/tile/vm_builder.h"

#include <algorithm>
#include <bit>

namespace gm::tile_vm {
namespace {

// Types by which values are told apart once bits are just bits.
int64_t float_bits(float x) { return static_cast<int64_t>(std::bit_cast<uint32_t>(x)); }

}  // namespace

Builder::Builder(const std::vector<ArrayInfo>& arrays, const Scope& scope, Location where, int row,
                 std::map<int, int> depths, int row_level)
    : arrays_(arrays),
      scope_(scope),
      where_(std::move(where)),
      row_(row),
      depths_(std::move(depths)),
      row_level_(row_level) {}

int Builder::fail(Code code, std::string message) {
  if (!error_)
    error_ = Diag{code, std::move(message), where_, "run the verifier on the kernel", {}};
  return constant(ScalarType::index, 0);
}

int Builder::add_value(Shape shape, ScalarType type, int depth) {
  program_.values.push_back({shape, type, depth, -1});
  return static_cast<int>(program_.values.size()) - 1;
}

int Builder::constant(ScalarType type, int64_t bits) {
  const auto [it, is_new] = constants_.try_emplace({type == ScalarType::index ? 1 : 0, bits}, -1);
  if (is_new) {
    it->second = add_value(Shape::uniform, type, 0);
    Scalar scalar;
    if (type == ScalarType::index) {
      scalar.i = bits;
    } else {
      scalar.u = static_cast<uint32_t>(bits);
    }
    program_.constants.emplace_back(it->second, scalar);
  }
  return it->second;
}

int Builder::depth_of(int slot) const {
  const auto it = depths_.find(slot);
  return it == depths_.end() ? 0 : it->second;
}

int Builder::depth_of_value(int value) const {
  return value < 0 ? 0 : program_.values[static_cast<size_t>(value)].depth;
}

int Builder::emit(Op op, Shape shape, ScalarType type) {
  const std::array<int64_t, 8> key = {
      static_cast<int64_t>(op.action) * 256 + static_cast<int64_t>(op.code),
      op.mask,
      op.a,
      op.b,
      op.c,
      op.array,
      op.action == Do::address ? -1 : op.extra,
      static_cast<int64_t>(type)};
  // Terms of addresses are not in the key; equal addresses come from equal nodes mostly.
  if (op.action != Do::address) {
    if (const auto it = known_.find(key); it != known_.end()) return it->second;
  }
  op.depth = std::max({op.depth, depth_of_value(op.a), depth_of_value(op.b), depth_of_value(op.c)});
  if (shape == Shape::vector) op.depth = row_level_;
  op.r = add_value(shape, type, op.depth);
  program_.ops.push_back(op);
  if (op.action != Do::address) known_.emplace(key, op.r);
  return op.r;
}

int Builder::operand(int value) {
  if (shape(value) != Shape::linear) return value;
  return emit({.action = Do::iota, .a = value}, Shape::vector, ScalarType::index);
}

int Builder::compute(VmCode code, ScalarType type, int a, int b, int c) {
  uint8_t mask = 0;
  const auto take = [&](int value, int bit) {
    if (value < 0) return value;
    const int result = operand(value);
    if (shape(result) == Shape::vector) mask = static_cast<uint8_t>(mask | (1 << bit));
    return result;
  };
  a = take(a, 0);
  b = take(b, 1);
  c = take(c, 2);
  // Operands that the code does not have are set too, so that the run need not ask.
  Op op{.action = mask == 0 ? Do::scalar : Do::vector,
        .code = code,
        .mask = mask,
        .a = a,
        .b = b < 0 ? a : b,
        .c = c < 0 ? a : c};
  op.loop = loops().compute[static_cast<size_t>(code)][mask];
  return emit(op, mask == 0 ? Shape::uniform : Shape::vector, type);
}

int Builder::index_op(VmCode code, int a, int b) {
  const Shape sa = shape(a), sb = shape(b);
  const bool is_linear = sa == Shape::linear || sb == Shape::linear;
  const bool has_vector = sa == Shape::vector || sb == Shape::vector;
  if (is_linear && !has_vector) {
    if (code == VmCode::i_add)
      return emit({.action = Do::linear_add, .a = a, .b = b}, Shape::linear, ScalarType::index);
    if (code == VmCode::i_sub)
      return emit({.action = Do::linear_sub, .a = a, .b = b}, Shape::linear, ScalarType::index);
    if (code == VmCode::i_mul && sa != sb) {
      if (sb == Shape::linear) std::swap(a, b);
      return emit({.action = Do::linear_mul, .a = a, .b = b}, Shape::linear, ScalarType::index);
    }
  }
  return compute(code, ScalarType::index, a, b);
}

int Builder::symbol(const SymCode& code) {
  const auto it = std::ranges::find(program_.syms, code);
  const int number = static_cast<int>(it - program_.syms.begin());
  if (it == program_.syms.end()) program_.syms.push_back(code);
  Op op{.action = Do::sym, .extra = number};
  op.depth = code.depth([&](int slot) { return depth_of(slot); });
  return emit(op, Shape::uniform, ScalarType::index);
}

int Builder::tree(const SymTree& tree) {
  if (row_ < 0 || !tree.uses(row_)) {
    const SymCode code(tree);
    return code.is_constant() ? constant(ScalarType::index, code.evaluate(nullptr)) : symbol(code);
  }
  using Kind = SymTree::Kind;
  if (tree.kind == Kind::slot) {
    const auto [it, is_new] = constants_.try_emplace({2, 0}, -1);
    if (is_new) {
      it->second = add_value(Shape::linear, ScalarType::index, 0);
      Scalar scalar;
      scalar.step = 1;
      program_.constants.emplace_back(it->second, scalar);
    }
    return it->second;
  }
  if (tree.kind == Kind::add || tree.kind == Kind::mul) {
    const VmCode code = tree.kind == Kind::add ? VmCode::i_add : VmCode::i_mul;
    SymTree rest{tree.kind, 0, {}};  // what does not use the row, as one symbolic value
    int result = -1;
    for (const SymTree& arg : tree.args) {
      if (!arg.uses(row_)) {
        rest.args.push_back(arg);
        continue;
      }
      const int value = this->tree(arg);
      result = result < 0 ? value : index_op(code, result, value);
    }
    if (rest.args.empty()) return result;
    return index_op(code, result, this->tree(rest.args.size() == 1 ? rest.args[0] : rest));
  }
  if (tree.kind == Kind::ceildiv) {
    const int zero = constant(ScalarType::index, 0);
    const int negated = index_op(VmCode::i_sub, zero, this->tree(tree.args[0]));
    return index_op(VmCode::i_sub, zero,
                    index_op(VmCode::i_floordiv, negated, this->tree(tree.args[1])));
  }
  const VmCode code = tree.kind == Kind::floordiv ? VmCode::i_floordiv
                      : tree.kind == Kind::mod    ? VmCode::i_mod
                      : tree.kind == Kind::min    ? VmCode::i_min
                                                  : VmCode::i_max;
  int result = this->tree(tree.args[0]);
  for (size_t i = 1; i < tree.args.size(); ++i)
    result = index_op(code, result, this->tree(tree.args[i]));
  return result;
}

int Builder::sym(const SymExpr& e) {
  std::string unknown;
  const std::optional<SymTree> resolved = resolve(
      e,
      [&](std::string_view name) {
        const auto it = scope_.symbols.find(name);
        return it == scope_.symbols.end() ? -1 : it->second;
      },
      unknown);
  if (!resolved)
    return fail(Code::ir_name, fmt::format("unknown symbol {} in {}", unknown, e.to_string()));
  return tree(*resolved);
}

int Builder::address(int array, const std::vector<int>& indices) {
  const ArrayInfo& info = arrays_[static_cast<size_t>(array)];
  if (indices.size() != info.shape.size()) {
    return fail(Code::ir_type, fmt::format("{} indices for {}, which has {}", indices.size(),
                                           info.name, info.shape.size()));
  }
  Op op{.action = Do::address, .extra = static_cast<int>(program_.terms.size())};
  Shape result = Shape::uniform;
  int vectors = -1;
  for (size_t d = 0; d < indices.size(); ++d) {
    const bool last = d + 1 == indices.size();
    const int stride = last ? -1 : info.stride_base + static_cast<int>(d);
    const int value = indices[d];
    if (shape(value) == Shape::vector) {
      int scaled = value;
      if (!last) {
        const int factor =
            emit({.action = Do::stride, .extra = stride}, Shape::uniform, ScalarType::index);
        scaled = compute(VmCode::i_mul, ScalarType::index, value, factor);
      }
      vectors = vectors < 0 ? scaled : compute(VmCode::i_add, ScalarType::index, vectors, scaled);
      continue;
    }
    if (shape(value) == Shape::linear) result = Shape::linear;
    op.depth = std::max(op.depth, depth_of_value(value));
    program_.terms.push_back({value, stride});
    ++op.count;
  }
  if (op.count == 1 && program_.terms.back().stride < 0) {
    const int only = program_.terms.back().value;
    program_.terms.pop_back();
    return vectors < 0 ? only : compute(VmCode::i_add, ScalarType::index, vectors, only);
  }
  if (op.count == 0 && vectors >= 0) return vectors;
  const int base = emit(op, result, ScalarType::index);
  return vectors < 0 ? base : compute(VmCode::i_add, ScalarType::index, vectors, base);
}

int Builder::load(const ExprNode& node, std::vector<int> indices) {
  const auto it = scope_.arrays.find(node.name);
  if (it == scope_.arrays.end() ||
      arrays_[static_cast<size_t>(it->second)].is_tile != (node.kind == ExprKind::tile))
    return fail(Code::ir_name, fmt::format("unknown name %{}", node.name));
  const int array = it->second;
  const ArrayInfo& info = arrays_[static_cast<size_t>(array)];
  const bool integral =
      info.element == Element::i32 || info.element == Element::i8 || info.element == Element::i64;
  const ScalarType type = integral ? ScalarType::index : ScalarType::f32;
  if (node.type != type)
    return fail(Code::ir_type, fmt::format("%{} is read as {}", node.name, to_string(node.type)));
  const int flat = address(array, indices);
  Op op{.a = flat, .array = array};
  Shape result = Shape::vector;
  switch (shape(flat)) {
    case Shape::uniform:
      op.action = Do::load_scalar;
      result = Shape::uniform;
      break;
    case Shape::linear: {
      op.action = Do::load_linear;
      // Along the last index alone, one element at a time: as far as that shows before the run.
      bool contiguous = true;
      for (size_t d = 0; d + 1 < indices.size(); ++d)
        contiguous &= shape(indices[d]) == Shape::uniform;
      contiguous_ += contiguous ? 1 : -1;
      break;
    }
    case Shape::vector:
      op.action = Do::gather;
      contiguous_ -= 1;
      break;
  }
  const size_t ops = program_.ops.size();
  const int value = emit(op, result, type);
  if (program_.ops.size() > ops) {
    program_.ops.back().extra = static_cast<int>(program_.accesses.size());
    program_.accesses.push_back({array, std::move(indices)});
  }
  return value;
}

int Builder::unary(const ExprNode& node, int a) {
  switch (node.unary_op) {
    case UnaryOp::neg:
      return compute(VmCode::f_neg, node.type, a);
    case UnaryOp::abs:
      return compute(VmCode::f_abs, node.type, a);
    case UnaryOp::sqrt:
      return compute(VmCode::f_sqrt, node.type, a);
    case UnaryOp::floor:
      return compute(VmCode::f_floor, node.type, a);
    case UnaryOp::round_even:
      return compute(VmCode::f_round_even, node.type, a);
    case UnaryOp::to_bits:
    case UnaryOp::from_bits:
      return a;
    case UnaryOp::to_f32:
      return compute(VmCode::i_to_f32, node.type, a);
    case UnaryOp::f32_to_bits:
      return compute(VmCode::f_to_int_bits, node.type, a);
    case UnaryOp::logical_not:
      return compute(VmCode::p_not, node.type, a);
    case UnaryOp::exp:
    case UnaryOp::log1p:
    case UnaryOp::sin:
    case UnaryOp::cos:
    case UnaryOp::rsqrt:
      break;
  }
  GM_CHECK(false, "{} was not expanded", to_string(node.unary_op));
}

int Builder::binary(const ExprNode& node, int a, int b) {
  const ScalarType type = node.args[0].type();
  const auto pick = [&](std::optional<VmCode> f, std::optional<VmCode> i,
                        std::optional<VmCode> bits, std::optional<VmCode> pred) {
    const std::optional<VmCode> code = type == ScalarType::f32     ? f
                                       : type == ScalarType::index ? i
                                       : type == ScalarType::bits  ? bits
                                                                   : pred;
    if (!code || node.args[1].type() != type)
      return fail(Code::ir_type, fmt::format("{} of {} and {}", to_string(node.binary_op),
                                             to_string(type), to_string(node.args[1].type())));
    return node.type == ScalarType::index ? index_op(*code, a, b) : compute(*code, node.type, a, b);
  };
  switch (node.binary_op) {
    case BinaryOp::add:
      return pick(VmCode::f_add, VmCode::i_add, VmCode::b_add, {});
    case BinaryOp::sub:
      return pick(VmCode::f_sub, VmCode::i_sub, VmCode::b_sub, {});
    case BinaryOp::mul:
      return pick(VmCode::f_mul, VmCode::i_mul, {}, {});
    case BinaryOp::div:
      return pick(VmCode::f_div, {}, {}, {});
    case BinaryOp::min:
      return pick(VmCode::f_min, VmCode::i_min, {}, {});
    case BinaryOp::max:
      return pick(VmCode::f_max, VmCode::i_max, {}, {});
    case BinaryOp::floordiv:
      return pick({}, VmCode::i_floordiv, {}, {});
    case BinaryOp::mod:
      return pick({}, VmCode::i_mod, {}, {});
    case BinaryOp::bit_and:
      return pick({}, {}, VmCode::b_and, {});
    case BinaryOp::bit_or:
      return pick({}, {}, VmCode::b_or, {});
    case BinaryOp::shl:
      return pick({}, {}, VmCode::b_shl, {});
    case BinaryOp::shr:
      return pick({}, {}, VmCode::b_shr, {});
    case BinaryOp::lt:
      return pick(VmCode::f_lt, VmCode::i_lt, {}, {});
    case BinaryOp::le:
      return pick(VmCode::f_le, VmCode::i_le, {}, {});
    case BinaryOp::eq:
      return pick(VmCode::f_eq, VmCode::i_eq, {}, {});
    case BinaryOp::logical_and:
      return pick({}, {}, {}, VmCode::b_and);
    case BinaryOp::logical_or:
      return pick({}, {}, {}, VmCode::b_or);
  }
  GM_CHECK(false, "binary operation {}", static_cast<int>(node.binary_op));
}

int Builder::node(const ExprNode& node) {
  std::vector<int> args;
  for (const Expr& arg : node.args) args.push_back(memo_.at(&*arg));
  switch (node.kind) {
    case ExprKind::number:
      return constant(node.type, node.type == ScalarType::bits ? static_cast<int64_t>(node.bits)
                                                               : float_bits(node.number));
    case ExprKind::index:
      return sym(node.sym);
    case ExprKind::load:
    case ExprKind::tile:
      return load(node, std::move(args));
    case ExprKind::unary:
      return unary(node, args[0]);
    case ExprKind::binary:
      return binary(node, args[0], args[1]);
    case ExprKind::fma:
      return compute(VmCode::f_fma, node.type, args[0], args[1], args[2]);
    case ExprKind::select:
      return compute(node.type == ScalarType::index ? VmCode::select64 : VmCode::select32,
                     node.type, args[0], args[1], args[2]);
    case ExprKind::round:
      if (node.dtype == DType::f32) return args[0];
      if (!is_float(node.dtype))
        return fail(Code::ir_type, fmt::format("a rounding to {}", to_string(node.dtype)));
      return compute(node.dtype == DType::bf16 ? VmCode::f_round_bf16 : VmCode::f_round_f16,
                     node.type, args[0]);
  }
  GM_CHECK(false, "expression kind {}", static_cast<int>(node.kind));
}

int Builder::expr(const Expr& e) {
  kept_.push_back(e);
  visit_nodes(e, [&](const Expr& each) {
    if (!memo_.contains(&*each)) memo_.emplace(&*each, node(*each));
  });
  return memo_.at(&*e);
}

Program Builder::finish(const std::vector<int>& results, bool checked) {
  Program& p = program_;
  std::ranges::stable_sort(p.ops, {}, &Op::depth);
  const int levels = row_level_ + 1;
  for (int level = 0; level <= levels; ++level) {
    const auto it = std::ranges::lower_bound(p.ops, level, {}, &Op::depth);
    p.level_begin.push_back(static_cast<int>(it - p.ops.begin()));
  }
  // Registers: a vector's is free again after its last reader. The checked mode looks back, so it
  // keeps all.
  std::vector<size_t> last(p.values.size(), 0);
  for (size_t i = 0; i < p.ops.size(); ++i)
    for (const int value : {p.ops[i].a, p.ops[i].b, p.ops[i].c})
      if (value >= 0) last[static_cast<size_t>(value)] = i;
  for (const int value : results)
    if (value >= 0) last[static_cast<size_t>(value)] = p.ops.size();
  std::vector<int> unused;
  for (size_t i = 0; i < p.ops.size(); ++i) {
    const Op& op = p.ops[i];
    ValueInfo& info = p.values[static_cast<size_t>(op.r)];
    if (info.shape == Shape::vector) {
      if (unused.empty() || checked) {
        info.reg = p.registers++;
      } else {
        info.reg = unused.back();
        unused.pop_back();
      }
    }
    std::array<int, 3> operands = {op.a, op.b, op.c};
    std::ranges::sort(operands);
    const auto end = std::unique(operands.begin(), operands.end());
    for (auto it = operands.begin(); it != end; ++it)
      if (*it >= 0 && last[static_cast<size_t>(*it)] == i &&
          p.values[static_cast<size_t>(*it)].reg >= 0)
        unused.push_back(p.values[static_cast<size_t>(*it)].reg);
  }
  return std::move(program_);
}

}  // namespace gm::tile_vm
