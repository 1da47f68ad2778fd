// Expressions: each node is one IEEE operation, or integer arithmetic on index and bits values.
#include <llvm/IR/Intrinsics.h>

#include "codegen/cpu/emitter.h"

namespace gm::cpu {

llvm::Type* PartEmitter::lanes_of(llvm::Type* type) {
  return llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes_->width));
}

llvm::Value* PartEmitter::widen(Value value) {
  return value.wide ? value.v : b_.CreateVectorSplat(static_cast<unsigned>(lanes_->width), value.v);
}

bool PartEmitter::unify(std::initializer_list<Value*> values) {
  bool wide = false;
  for (const Value* value : values) wide |= value->wide;
  if (!wide) return false;
  for (Value* value : values) *value = {widen(*value), true};
  return true;
}

llvm::Value* PartEmitter::and_mask(llvm::Value* a, llvm::Value* b) {
  if (a == nullptr) return b;
  Value x{a, a->getType()->isVectorTy()};
  Value y{b, b->getType()->isVectorTy()};
  unify({&x, &y});
  return b_.CreateAnd(x.v, y.v);
}

bool PartEmitter::depends(const Expr& e, const std::string& axis) {
  const auto key = std::make_pair(&*e, axis);
  if (const auto found = depends_.find(key); found != depends_.end()) return found->second;
  bool result = e->kind == ExprKind::index && e->sym.uses(axis);
  for (const Expr& arg : e->args) result = result || depends(arg, axis);
  depends_.emplace(key, result);
  return result;
}

// Whether evaluating e where its value is not wanted could leave a buffer or a tile.
bool PartEmitter::needs_mask(const Expr& e) {
  if (const auto found = needs_mask_.find(&*e); found != needs_mask_.end()) return found->second;
  bool result = false;
  for (const Expr& arg : e->args) result = result || needs_mask(arg);
  if (!result && (e->kind == ExprKind::load || e->kind == ExprKind::tile)) {
    for (size_t i = 0; i < e->args.size() && !result; ++i) {
      const std::optional<SymExpr> index = e->args[i].as_sym();
      SymExpr size;
      if (e->kind == ExprKind::load) {
        size = buffers_.find(e->name)->second.param->shape[i];
      } else {
        size = tiles_.find(e->name)->second.sizes[i];
      }
      result = !index || table_.provably_le(0, *index) != Truth::yes ||
               table_.provably_lt(*index, size) != Truth::yes;
    }
  }
  needs_mask_.emplace(&*e, result);
  return result;
}

Value PartEmitter::eval(const Expr& e, llvm::Value* mask) {
  if (mask != nullptr && !needs_mask(e)) mask = nullptr;
  const auto key = std::make_pair(&*e, mask);
  if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
  const Value value = eval_new(e, mask);
  memo_.emplace(key, value);
  return value;
}

llvm::Value* PartEmitter::scalar(const Expr& e) {
  GM_CHECK(!lanes_, "a scalar inside lanes");
  forget();
  return eval(e).v;
}

Value PartEmitter::eval_new(const Expr& e, llvm::Value* mask) {
  const ExprNode& node = *e;
  switch (node.kind) {
    case ExprKind::number:
      if (node.type == ScalarType::bits) return {b_.getInt32(node.bits), false};
      return {llvm::ConstantFP::get(b_.getContext(), llvm::APFloat(node.number)), false};
    case ExprKind::index:
      return sym(node.sym, lanes_ && node.sym.uses(lanes_->axis));
    case ExprKind::load:
    case ExprKind::tile:
      return load(node, mask);
    case ExprKind::unary:
      return eval_unary(node, mask);
    case ExprKind::binary:
      return eval_binary(node, mask);
    case ExprKind::fma: {
      Value x = eval(node.args[0], mask);
      Value y = eval(node.args[1], mask);
      Value z = eval(node.args[2], mask);
      const bool wide = unify({&x, &y, &z});
      return {b_.CreateIntrinsic(llvm::Intrinsic::fma, {x.v->getType()}, {x.v, y.v, z.v}), wide};
    }
    case ExprKind::select:
      return eval_select(node, mask);
    case ExprKind::round:
      return round_value(node.dtype, eval(node.args[0], mask));
  }
  GM_CHECK(false, "expression kind {}", static_cast<int>(node.kind));
}

Value PartEmitter::eval_unary(const ExprNode& node, llvm::Value* mask) {
  const Value a = eval(node.args[0], mask);
  llvm::Type* type = a.v->getType();
  const auto with_scalar = [&](llvm::Type* t) { return a.wide ? lanes_of(t) : t; };
  const auto intrinsic = [&](llvm::Intrinsic::ID id) {
    return Value{b_.CreateUnaryIntrinsic(id, a.v), a.wide};
  };
  switch (node.unary_op) {
    case UnaryOp::neg:
      return {b_.CreateFNeg(a.v), a.wide};
    case UnaryOp::abs:
      return intrinsic(llvm::Intrinsic::fabs);
    case UnaryOp::sqrt:
      return intrinsic(llvm::Intrinsic::sqrt);
    case UnaryOp::floor:
      return intrinsic(llvm::Intrinsic::floor);
    case UnaryOp::round_even:
      return intrinsic(llvm::Intrinsic::roundeven);
    case UnaryOp::to_bits:
      return {b_.CreateBitCast(a.v, with_scalar(b_.getInt32Ty())), a.wide};
    case UnaryOp::from_bits:
      return {b_.CreateBitCast(a.v, with_scalar(b_.getFloatTy())), a.wide};
    case UnaryOp::to_f32:
      return {b_.CreateSIToFP(a.v, with_scalar(b_.getFloatTy())), a.wide};
    case UnaryOp::f32_to_bits:
      // Out of range the result is unspecified, and must then not poison what is computed beside
      // it.
      return {b_.CreateFreeze(b_.CreateFPToSI(a.v, with_scalar(b_.getInt32Ty()))), a.wide};
    case UnaryOp::logical_not:
      return {b_.CreateNot(a.v), a.wide};
    case UnaryOp::exp:
    case UnaryOp::log1p:
    case UnaryOp::sin:
    case UnaryOp::cos:
    case UnaryOp::rsqrt:
      break;
  }
  fail(Code::cpu_lowering, "expand the transcendental functions first",
       fmt::format("{} has no instruction on a CPU", to_string(node.unary_op)));
  return {llvm::Constant::getNullValue(type), a.wide};
}

llvm::Value* PartEmitter::min_max(bool is_max, llvm::Value* a, llvm::Value* b, bool is_float) {
  llvm::Value* less = nullptr;
  if (is_float) {
    less = is_max ? b_.CreateFCmpOLT(a, b) : b_.CreateFCmpOLT(b, a);
  } else {
    less = is_max ? b_.CreateICmpSLT(a, b) : b_.CreateICmpSLT(b, a);
  }
  return b_.CreateSelect(less, b, a);
}

// Rounds towards minus infinity; b is positive wherever the result is used.
llvm::Value* PartEmitter::floor_divide(llvm::Value* a, llvm::Value* b, bool remainder) {
  llvm::Constant* constant = llvm::dyn_cast<llvm::Constant>(b);
  if (constant != nullptr && constant->getType()->isVectorTy())
    constant = constant->getSplatValue();
  const auto* number = llvm::dyn_cast_or_null<llvm::ConstantInt>(constant);
  if (number != nullptr && number->getValue().isPowerOf2()) {
    llvm::Type* type = b->getType();
    if (remainder) return b_.CreateAnd(a, llvm::ConstantInt::get(type, number->getValue() - 1));
    return b_.CreateAShr(a, llvm::ConstantInt::get(type, number->getValue().logBase2()));
  }
  if (number == nullptr || !number->getValue().isStrictlyPositive())
    b = min_max(true, b, llvm::ConstantInt::get(b->getType(), 1), false);
  llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
  llvm::Value* left = b_.CreateSRem(a, b);
  llvm::Value* below = b_.CreateICmpSLT(left, zero);
  if (remainder) return b_.CreateSelect(below, b_.CreateAdd(left, b), left);
  return b_.CreateAdd(b_.CreateSDiv(a, b), b_.CreateSExt(below, a->getType()));
}

Value PartEmitter::eval_binary(const ExprNode& node, llvm::Value* mask) {
  const ScalarType type = node.args[0].type();
  Value a = eval(node.args[0], mask);
  // The second operand of `and` may rely on the first, that of `or` on its opposite.
  llvm::Value* mask_b = mask;
  if (node.binary_op == BinaryOp::logical_and && needs_mask(node.args[1])) {
    mask_b = and_mask(mask, a.v);
  } else if (node.binary_op == BinaryOp::logical_or && needs_mask(node.args[1])) {
    mask_b = and_mask(mask, b_.CreateNot(a.v));
  }
  Value b = eval(node.args[1], mask_b);
  const bool wide = unify({&a, &b});
  const bool is_float = type == ScalarType::f32;
  const auto result = [&]() -> llvm::Value* {
    switch (node.binary_op) {
      case BinaryOp::add:
        return is_float ? b_.CreateFAdd(a.v, b.v) : b_.CreateAdd(a.v, b.v);
      case BinaryOp::sub:
        return is_float ? b_.CreateFSub(a.v, b.v) : b_.CreateSub(a.v, b.v);
      case BinaryOp::mul:
        return is_float ? b_.CreateFMul(a.v, b.v) : b_.CreateMul(a.v, b.v);
      case BinaryOp::div:
        return b_.CreateFDiv(a.v, b.v);
      case BinaryOp::min:
        return min_max(false, a.v, b.v, is_float);
      case BinaryOp::max:
        return min_max(true, a.v, b.v, is_float);
      case BinaryOp::floordiv:
        return floor_divide(a.v, b.v, false);
      case BinaryOp::mod:
        return floor_divide(a.v, b.v, true);
      case BinaryOp::bit_and:
      case BinaryOp::logical_and:
        return b_.CreateAnd(a.v, b.v);
      case BinaryOp::bit_or:
      case BinaryOp::logical_or:
        return b_.CreateOr(a.v, b.v);
      case BinaryOp::shl:
        return b_.CreateShl(a.v, b.v);
      case BinaryOp::shr:
        return b_.CreateLShr(a.v, b.v);
      case BinaryOp::lt:
        return is_float ? b_.CreateFCmpOLT(a.v, b.v) : b_.CreateICmpSLT(a.v, b.v);
      case BinaryOp::le:
        return is_float ? b_.CreateFCmpOLE(a.v, b.v) : b_.CreateICmpSLE(a.v, b.v);
      case BinaryOp::eq:
        return is_float ? b_.CreateFCmpOEQ(a.v, b.v) : b_.CreateICmpEQ(a.v, b.v);
    }
    GM_CHECK(false, "binary op {}", static_cast<int>(node.binary_op));
  }();
  return {result, wide};
}

// Both arms are computed; an access that only one arm's condition makes safe is masked by it.
Value PartEmitter::eval_select(const ExprNode& node, llvm::Value* mask) {
  Value condition = eval(node.args[0], mask);
  llvm::Value* mask_a = needs_mask(node.args[1]) ? and_mask(mask, condition.v) : nullptr;
  Value a = eval(node.args[1], mask_a);
  llvm::Value* mask_b =
      needs_mask(node.args[2]) ? and_mask(mask, b_.CreateNot(condition.v)) : nullptr;
  Value b = eval(node.args[2], mask_b);
  const bool wide = condition.wide ? unify({&condition, &a, &b}) : unify({&a, &b});
  return {b_.CreateSelect(condition.v, a.v, b.v), wide};
}

llvm::Value* PartEmitter::bf16_bits(llvm::Value* f) {
  llvm::Type* type = f->getType()->isVectorTy() ? lanes_of(b_.getInt32Ty()) : b_.getInt32Ty();
  const auto number = [&](uint32_t value) { return llvm::ConstantInt::get(type, value); };
  llvm::Value* bits = b_.CreateBitCast(f, type);
  llvm::Value* high = b_.CreateLShr(bits, number(16));
  llvm::Value* odd = b_.CreateAnd(high, number(1));
  llvm::Value* up = b_.CreateAdd(b_.CreateAdd(bits, number(0x7fff)), odd);
  return b_.CreateSelect(b_.CreateFCmpUNO(f, f), b_.CreateOr(high, number(0x40)),
                         b_.CreateLShr(up, number(16)));
}

llvm::Value* PartEmitter::from_bf16(llvm::Value* i32) {
  llvm::Type* type = i32->getType()->isVectorTy() ? lanes_of(b_.getFloatTy()) : b_.getFloatTy();
  return b_.CreateBitCast(b_.CreateShl(i32, llvm::ConstantInt::get(i32->getType(), 16)), type);
}

Value PartEmitter::round_value(DType dtype, Value a) {
  switch (dtype) {
    case DType::f32:
      return a;
    case DType::bf16:
      return {from_bf16(bf16_bits(a.v)), a.wide};
    case DType::f16: {
      llvm::Type* half = a.wide ? lanes_of(b_.getHalfTy()) : b_.getHalfTy();
      return {b_.CreateFPExt(b_.CreateFPTrunc(a.v, half), a.v->getType()), a.wide};
    }
    default:
      break;
  }
  fail(Code::cpu_lowering, "round to f32, bf16 or f16",
       fmt::format("a value cannot be rounded to {}", to_string(dtype)));
  return a;
}

Value PartEmitter::sym(const SymExpr& e, bool wide) {
  if (const std::optional<int64_t> constant = e.constant()) return {i64(*constant), false};
  std::string text = e.to_string();
  auto found = trees_.find(text);
  if (found == trees_.end()) found = trees_.emplace(text, parse_sym_tree(text)).first;
  return sym_tree(found->second, wide);
}

Value PartEmitter::sym_tree(const SymTree& tree, bool wide) {
  using Kind = SymTree::Kind;
  if (tree.kind == Kind::number) return {i64(tree.number), false};
  if (tree.kind == Kind::symbol) {
    if (lanes_ && tree.name == lanes_->axis) {
      if (!wide) return {lanes_->base, false};
      std::vector<llvm::Constant*> steps;
      for (int lane = 0; lane < lanes_->width; ++lane) steps.push_back(i64(lane));
      return {b_.CreateAdd(widen({lanes_->base, false}), llvm::ConstantVector::get(steps)), true};
    }
    const auto found = scalars_.find(tree.name);
    GM_CHECK(found != scalars_.end(), "symbol '{}' of kernel '{}'", tree.name, kernel_.name);
    return {found->second, false};
  }
  Value a = sym_tree(tree.args[0], wide);
  if (tree.kind == Kind::neg) return {b_.CreateNeg(a.v), a.wide};
  Value b = sym_tree(tree.args[1], wide);
  const bool is_wide = unify({&a, &b});
  const auto result = [&]() -> llvm::Value* {
    switch (tree.kind) {
      case Kind::add:
        return b_.CreateAdd(a.v, b.v);
      case Kind::sub:
        return b_.CreateSub(a.v, b.v);
      case Kind::mul:
        return b_.CreateMul(a.v, b.v);
      case Kind::ceildiv:
        return b_.CreateNeg(floor_divide(b_.CreateNeg(a.v), b.v, false));
      case Kind::floordiv:
        return floor_divide(a.v, b.v, false);
      case Kind::mod:
        return floor_divide(a.v, b.v, true);
      case Kind::min:
        return min_max(false, a.v, b.v, false);
      case Kind::max:
        return min_max(true, a.v, b.v, false);
      default:
        break;
    }
    GM_CHECK(false, "symbol tree kind {}", static_cast<int>(tree.kind));
  }();
  return {result, is_wide};
}

}  // namespace gm::cpu
