// Loads and stores: how the address depends on the lanes decides between one vector access, one
// scalar, and lane by lane.
#include "codegen/cpu/emitter.h"

namespace gm::cpu {

llvm::Type* PartEmitter::buffer_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return b_.getFloatTy();
    case DType::bf16:
      return b_.getInt16Ty();
    case DType::f16:
      return b_.getHalfTy();
    case DType::i32:
      return b_.getInt32Ty();
    case DType::i8:
      return b_.getInt8Ty();
    case DType::pred:
      break;
  }
  GM_CHECK(false, "a buffer of {}", to_string(dtype));
}

std::vector<SymExpr> PartEmitter::tile_strides(const TileMemory& tile) const {
  return {tile.strides.begin(), tile.strides.end()};
}

Address PartEmitter::address(std::span<const Expr> indices, std::span<const SymExpr> strides,
                             llvm::Value* mask) {
  GM_CHECK(indices.size() == strides.size(), "{} indices for {} dims", indices.size(),
           strides.size());
  Address result;
  result.offset = i64(0);
  SymExpr step = 0;
  Value irregular{nullptr, false};
  for (size_t i = 0; i < indices.size(); ++i) {
    llvm::Value* stride = scalar_sym(strides[i]);
    const bool varies = lanes_ && depends(indices[i], lanes_->axis);
    if (!varies) {
      const Value index = eval(indices[i], mask);
      result.offset = b_.CreateAdd(result.offset, b_.CreateMul(index.v, stride));
      continue;
    }
    if (const std::optional<SymExpr> affine = indices[i].as_sym()) {
      if (const auto linear = affine->linear_in(lanes_->axis)) {
        result.offset = b_.CreateAdd(result.offset, b_.CreateMul(scalar_sym(*affine), stride));
        step = step + strides[i] * linear->coefficient;
        continue;
      }
    }
    Value term{b_.CreateMul(widen(eval(indices[i], mask)), widen({stride, false})), true};
    irregular = irregular.v == nullptr ? term : Value{b_.CreateAdd(irregular.v, term.v), true};
  }
  if (irregular.v != nullptr) {
    result.kind = Address::Kind::scattered;
    std::vector<llvm::Constant*> lane_numbers;
    for (int lane = 0; lane < lanes_->width; ++lane) lane_numbers.push_back(i64(lane));
    llvm::Value* regular =
        b_.CreateMul(widen({scalar_sym(step), false}), llvm::ConstantVector::get(lane_numbers));
    result.offsets =
        b_.CreateAdd(b_.CreateAdd(irregular.v, widen({result.offset, false})), regular);
  } else if (step == SymExpr(1)) {
    result.kind = Address::Kind::contiguous;
  } else if (step != SymExpr(0)) {
    result.kind = Address::Kind::strided;
    result.stride = scalar_sym(step);
  }
  return result;
}

llvm::Value* PartEmitter::element(llvm::Type* type, llvm::Value* base, llvm::Value* offset) {
  return b_.CreateInBoundsGEP(type, base, offset);
}

void PartEmitter::tag(llvm::Instruction* access, std::optional<size_t> scope) {
  if (!scope) return;
  access->setMetadata(llvm::LLVMContext::MD_alias_scope,
                      llvm::MDNode::get(b_.getContext(), {tile_scopes_[*scope]}));
  access->setMetadata(llvm::LLVMContext::MD_noalias, tile_others_[*scope]);
}

llvm::Value* PartEmitter::read(llvm::Type* type, llvm::Value* base, const Address& where,
                               llvm::Value* mask, std::optional<size_t> scope) {
  const llvm::Align align(type->getPrimitiveSizeInBits() / 8);
  const bool wide_mask = mask != nullptr && mask->getType()->isVectorTy();
  const auto read_one = [&](llvm::Value* offset, llvm::Value* wanted) -> llvm::Value* {
    llvm::Value* pointer = element(type, base, offset);
    if (wanted != nullptr) pointer = b_.CreateSelect(wanted, pointer, zeros_);
    llvm::LoadInst* load = b_.CreateAlignedLoad(type, pointer, align);
    if (wanted == nullptr) tag(load, scope);
    return load;
  };
  switch (where.kind) {
    case Address::Kind::uniform:
      // If any lane wants the element, it is there.
      return read_one(where.offset, wide_mask ? b_.CreateOrReduce(mask) : mask);
    case Address::Kind::contiguous: {
      llvm::Type* vector = lanes_of(type);
      llvm::Value* pointer = element(type, base, where.offset);
      if (wide_mask)
        return b_.CreateMaskedLoad(vector, pointer, align, mask,
                                   llvm::Constant::getNullValue(vector));
      if (mask != nullptr) pointer = b_.CreateSelect(mask, pointer, zeros_);
      llvm::LoadInst* load = b_.CreateAlignedLoad(vector, pointer, align);
      if (mask == nullptr) tag(load, scope);
      return load;
    }
    case Address::Kind::strided:
    case Address::Kind::scattered:
      break;
  }
  llvm::Value* result = llvm::PoisonValue::get(lanes_of(type));
  for (int lane = 0; lane < lanes_->width; ++lane) {
    llvm::Value* offset = where.kind == Address::Kind::scattered
                              ? b_.CreateExtractElement(where.offsets, static_cast<uint64_t>(lane))
                              : b_.CreateAdd(where.offset, b_.CreateMul(where.stride, i64(lane)));
    llvm::Value* wanted =
        wide_mask ? b_.CreateExtractElement(mask, static_cast<uint64_t>(lane)) : mask;
    result = b_.CreateInsertElement(result, read_one(offset, wanted), static_cast<uint64_t>(lane));
  }
  return result;
}

void PartEmitter::write(llvm::Value* value, bool wide, llvm::Value* base, const Address& where,
                        std::optional<size_t> scope) {
  llvm::Type* type = value->getType()->getScalarType();
  const llvm::Align align(type->getPrimitiveSizeInBits() / 8);
  if (!lanes_ || where.kind == Address::Kind::uniform) {
    GM_CHECK(!wide, "lanes that all write one element");
    tag(b_.CreateAlignedStore(value, element(type, base, where.offset), align), scope);
    return;
  }
  llvm::Value* vector = widen({value, wide});
  if (where.kind == Address::Kind::contiguous) {
    tag(b_.CreateAlignedStore(vector, element(type, base, where.offset), align), scope);
    return;
  }
  for (int lane = 0; lane < lanes_->width; ++lane) {
    llvm::Value* offset = where.kind == Address::Kind::scattered
                              ? b_.CreateExtractElement(where.offsets, static_cast<uint64_t>(lane))
                              : b_.CreateAdd(where.offset, b_.CreateMul(where.stride, i64(lane)));
    llvm::Value* one = b_.CreateExtractElement(vector, static_cast<uint64_t>(lane));
    tag(b_.CreateAlignedStore(one, element(type, base, offset), align), scope);
  }
}

Value PartEmitter::load(const ExprNode& node, llvm::Value* mask) {
  if (node.kind == ExprKind::tile) {
    const auto found = tiles_.find(node.name);
    GM_CHECK(found != tiles_.end(), "tile '{}' of kernel '{}'", node.name, kernel_.name);
    const TileMemory& tile = found->second;
    const Address where = address(node.args, tile_strides(tile), mask);
    llvm::Type* type = tile.type == ScalarType::index ? b_.getInt64Ty() : b_.getFloatTy();
    return {read(type, tile.base, where, mask, tile.scope), where.kind != Address::Kind::uniform};
  }
  const auto found = buffers_.find(node.name);
  GM_CHECK(found != buffers_.end(), "parameter '{}' of kernel '{}'", node.name, kernel_.name);
  const BufferMemory& buffer = found->second;
  const Address where = address(node.args, buffer.strides, mask);
  const bool wide = where.kind != Address::Kind::uniform;
  llvm::Value* raw = read(buffer_type(buffer.param->dtype), buffer.base, where, mask, std::nullopt);
  const auto as = [&](llvm::Type* type) { return wide ? lanes_of(type) : type; };
  switch (buffer.param->dtype) {
    case DType::f32:
      return {raw, wide};
    case DType::bf16:
      return {from_bf16(b_.CreateZExt(raw, as(b_.getInt32Ty()))), wide};
    case DType::f16:
      return {b_.CreateFPExt(raw, as(b_.getFloatTy())), wide};
    case DType::i32:
    case DType::i8:
    case DType::pred:
      break;
  }
  return {b_.CreateSExt(raw, as(b_.getInt64Ty())), wide};
}

void PartEmitter::store_tile(const TileMemory& tile, std::span<const Expr> indices, Value value) {
  const Address where = address(indices, tile_strides(tile), nullptr);
  write(value.v, value.wide, tile.base, where, tile.scope);
}

void PartEmitter::store_buffer(const BufferMemory& buffer, std::span<const Expr> indices,
                               const Expr& value) {
  const DType dtype = buffer.param->dtype;
  // Rounding twice to one dtype is rounding once.
  const bool rounded = value->kind == ExprKind::round && value->dtype == dtype;
  const Value x = eval(rounded ? value->args[0] : value);
  const auto as = [&](llvm::Type* type) { return x.wide ? lanes_of(type) : type; };
  llvm::Value* raw = x.v;
  switch (dtype) {
    case DType::f32:
      break;
    case DType::bf16:
      raw = b_.CreateTrunc(bf16_bits(x.v), as(b_.getInt16Ty()));
      break;
    case DType::f16:
      raw = b_.CreateFPTrunc(x.v, as(b_.getHalfTy()));
      break;
    case DType::i32:
    case DType::i8:
    case DType::pred:
      raw = b_.CreateTrunc(x.v, as(buffer_type(dtype)));
      break;
  }
  write(raw, x.wide, buffer.base, address(indices, buffer.strides, nullptr), std::nullopt);
}

}  // namespace gm::cpu
