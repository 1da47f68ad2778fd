#include "ops/support.h"

namespace gm {
namespace {

std::string counted(const std::string& name, const SymExpr& extent, std::string_view what) {
  return fmt::format("operand {} has {} {}", name, extent.to_string(), what);
}

}  // namespace

Shapes& Shapes::rank(size_t operand, size_t rank) {
  const size_t has = op_->input(operand).shape.size();
  if (ok() && has != rank) {
    fail(fmt::format("operand {} has {} dimensions, not {}", name(operand), has, rank));
  }
  return *this;
}

Shapes& Shapes::rank_at_least(size_t operand, size_t rank) {
  const size_t has = op_->input(operand).shape.size();
  if (ok() && has < rank) {
    fail(fmt::format("operand {} has {} dimensions, at least {} are needed", name(operand), has,
                     rank));
  }
  return *this;
}

Shapes& Shapes::same(size_t operand, size_t d, size_t other, size_t e, std::string_view what) {
  if (!ok() || dim(operand, d) == dim(other, e)) return *this;
  fail(fmt::format("{}, {} has {}", counted(name(operand), dim(operand, d), what), name(other),
                   dim(other, e).to_string()));
  return *this;
}

Shapes& Shapes::equals(size_t operand, size_t d, const SymExpr& extent, std::string_view what) {
  if (!ok() || dim(operand, d) == extent) return *this;
  fail(fmt::format("{}, {} are needed", counted(name(operand), dim(operand, d), what),
                   extent.to_string()));
  return *this;
}

Shapes& Shapes::dtype(size_t operand, DType dtype) {
  if (ok() && op_->input(operand).dtype != dtype) {
    fail(fmt::format("operand {} is {}, {} is needed", name(operand),
                     to_string(op_->input(operand).dtype), to_string(dtype)));
  }
  return *this;
}

Shapes& Shapes::same_dtype(size_t operand, size_t other) {
  if (ok() && op_->input(operand).dtype != op_->input(other).dtype) {
    fail(fmt::format("operand {} is {}, {} is {}: they must be equal", name(operand),
                     to_string(op_->input(operand).dtype), name(other),
                     to_string(op_->input(other).dtype)));
  }
  return *this;
}

Shapes& Shapes::constant(size_t operand, size_t d, std::string_view what) {
  if (ok() && dim(operand, d).constant().value_or(0) < 1) {
    fail(fmt::format("{}: it must be a number of at least 1",
                     counted(name(operand), dim(operand, d), what)));
  }
  return *this;
}

AttrDef dtype_attr() {
  return {"dtype", "dtype of the result (f32, bf16 or f16); empty: that of the first operand",
          std::string(), false};
}

std::expected<DType, std::string> dtype_named(const OpInstance& op, std::string_view attr) {
  const auto dtype = parse_dtype(op.text(attr));
  if (!dtype || !is_float(*dtype)) {
    return refuse("attribute {} is \"{}\": f32, bf16 or f16 is needed", attr, op.text(attr));
  }
  return *dtype;
}

std::expected<DType, std::string> result_dtype(const OpInstance& op) {
  if (!op.text("dtype").empty()) return dtype_named(op, "dtype");
  if (!is_float(op.input(0).dtype)) {
    return refuse("attribute dtype is needed, as operand {} is {}", op.def().operands[0].name,
                  to_string(op.input(0).dtype));
  }
  return op.input(0).dtype;
}

std::expected<size_t, std::string> axis_of(const OpInstance& op, size_t above) {
  const int64_t axis = op.integer("axis");
  const size_t rank = op.input(0).shape.size();
  if (axis < 0 || static_cast<uint64_t>(axis) + above >= rank) {
    return refuse("axis {} is outside of the {} dimensions of operand {}",
                  above == 0 ? fmt::format("{}", axis) : fmt::format("{} (with the next)", axis),
                  rank, op.def().operands[0].name);
  }
  return static_cast<size_t>(axis);
}

OperandDef floating(std::string name, std::string doc, WeightLayout layout) {
  OperandDef def;
  def.name = std::move(name);
  def.doc = std::move(doc);
  def.layout = layout;
  return def;
}

OperandDef integers(std::string name, std::string doc) {
  OperandDef def = floating(std::move(name), std::move(doc));
  def.kind = OperandDef::Kind::integer;
  return def;
}

OperandDef state(std::string name, std::string doc) {
  OperandDef def = floating(std::move(name), std::move(doc));
  def.kind = OperandDef::Kind::state;
  return def;
}

OperandDef with_prologue(OperandDef operand) {
  operand.takes_prologue = true;
  return operand;
}

OperandDef optional(OperandDef operand) {
  operand.optional = true;
  return operand;
}

OperandDef seq_start_operand() {
  return optional(integers("seq_start",
                           "i32[seqs+1], the first token of each sequence and at last the number "
                           "of tokens; absent: sequence s is token s alone"));
}

ResultDef result(std::string name, std::string doc) {
  ResultDef def;
  def.name = std::move(name);
  def.doc = std::move(doc);
  return def;
}

ResultDef with_epilogue(ResultDef result) {
  result.takes_epilogue = true;
  return result;
}

std::expected<std::vector<SymExpr>, std::string> broadcast_shape(const OpInstance& op) {
  size_t rank = 0;
  for (size_t i = 0; i < op.input_count(); ++i) rank = std::max(rank, op.input(i).shape.size());
  std::vector<SymExpr> shape(rank, SymExpr(1));
  for (size_t i = 0; i < op.input_count(); ++i) {
    const auto& dims = op.input(i).shape;
    for (size_t d = 0; d < dims.size(); ++d) {
      SymExpr& extent = shape[rank - dims.size() + d];
      if (dims[d] == extent || dims[d] == SymExpr(1)) continue;
      if (extent != SymExpr(1)) {
        return refuse("operand {} has extent {} in dimension {}, which does not broadcast to {}",
                      op.def().operands[i].name, dims[d].to_string(), d, extent.to_string());
      }
      extent = dims[d];
    }
  }
  return shape;
}

Expr read_broadcast(ReadContext& ctx, size_t operand, std::span<const Expr> indices) {
  const auto& dims = ctx.op().input(operand).shape;
  const auto& all = ctx.result().shape;
  std::vector<Expr> own;
  own.reserve(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    const size_t i = indices.size() - dims.size() + d;
    // Where the result has one element too, its own index: what computes there is found by it.
    own.push_back(dims[d] == SymExpr(1) && all[i] != SymExpr(1) ? number(0) : indices[i]);
  }
  return ctx.read(operand, std::move(own));
}

OpDef unary_op(std::string name, std::string doc, Expr (*value)(Expr)) {
  OpDef def;
  def.name = std::move(name);
  def.doc = std::move(doc);
  def.op_class = OpClass::pointwise;
  def.operands = {floating("x", "any shape")};
  def.results = {result("y", "the shape of x")};
  def.attrs = {dtype_attr()};
  def.infer = [](const OpInstance& op) -> Inferred {
    const auto dtype = result_dtype(op);
    if (!dtype) return std::unexpected(dtype.error());
    return std::vector{TensorType{*dtype, op.input(0).shape}};
  };
  def.element = [value](ReadContext& ctx, std::span<const Expr> indices) {
    return value(ctx.read(0, {indices.begin(), indices.end()}));
  };
  def.cases = {{{f32_of({3, 5})}, {}, {}},
               {{bf16_of({2, 7, 3})}, {}, {}},
               {{bf16_of({33})}, {{"dtype", std::string("f32")}}, {}}};
  return def;
}

OpDef binary_op(std::string name, std::string doc, Expr (*value)(Expr, Expr)) {
  OpDef def;
  def.name = std::move(name);
  def.doc = std::move(doc);
  def.op_class = OpClass::pointwise;
  def.operands = {floating("a", "any shape"), floating("b", "a shape that broadcasts with a's")};
  def.results = {result("y",
                        "the shape to which both broadcast: trailing dimensions aligned, a "
                        "dimension that is missing or 1 repeats")};
  def.attrs = {dtype_attr()};
  def.infer = [](const OpInstance& op) -> Inferred {
    const auto dtype = result_dtype(op);
    if (!dtype) return std::unexpected(dtype.error());
    auto shape = broadcast_shape(op);
    if (!shape) return std::unexpected(shape.error());
    return std::vector{TensorType{*dtype, *std::move(shape)}};
  };
  def.element = [value](ReadContext& ctx, std::span<const Expr> indices) {
    return value(read_broadcast(ctx, 0, indices), read_broadcast(ctx, 1, indices));
  };
  def.cases = {{{f32_of({3, 5}), f32_of({3, 5})}, {}, {}},
               {{bf16_of({2, 7, 3}), bf16_of({7, 1})}, {}, {}},
               {{bf16_of({5}), f32_of({4, 5})}, {{"dtype", std::string("f32")}}, {}}};
  return def;
}

TensorType type_of(DType dtype, const std::vector<int64_t>& shape) {
  return {dtype, {shape.begin(), shape.end()}};
}

int64_t extent(const OpInstance& op, size_t operand, size_t d) {
  const auto value = op.input(operand).shape[d].constant();
  GM_CHECK(value, "dimension {} of operand {} is not constant", d, operand);
  return *value;
}

bool is_mixed(const OpInstance& op) { return op.input_count() == op.def().operands.size(); }

void check_sequences(Shapes& shapes, const OpInstance& op, size_t per_seq) {
  if (!shapes.ok()) return;
  if (!is_mixed(op)) {
    shapes.same(0, 0, per_seq, 0, "tokens (without seq_start: one a sequence)");
    return;
  }
  const size_t start = op.input_count() - 1;
  shapes.rank(start, 1).dtype(start, DType::i32);
  if (shapes.ok()) shapes.equals(start, 0, op.input(per_seq).shape[0] + 1, "elements");
}

void for_tokens(LoweringContext& ctx, BlockBuilder& b, const Expr& s,
                const std::function<void(const Expr& t)>& body) {
  if (!is_mixed(ctx.op())) {
    body(s);
    return;
  }
  const size_t start = ctx.op().input_count() - 1;
  b.loop("t", ctx.read(start, {s}), ctx.read(start, {s + number(1)}),
         [&](SymExpr t) { body(Expr::index(std::move(t))); });
}

SymExpr context_extent(const OpInstance& op, size_t pages_operand, int64_t page) {
  const SymExpr& pages = op.input(pages_operand).shape[1];
  const auto names = pages.symbols();
  if (names.size() == 1) {
    const SymExpr context = SymExpr::symbol(names[0]);
    if (SymExpr::ceildiv(context, page) == pages) return context;
  }
  return pages * page;
}

SymExpr block_extent(int64_t whole, int64_t block, const Expr& index) {
  if (whole <= block) return whole;
  if (whole % block == 0) return block;
  return SymExpr::min(block, SymExpr(whole) - *index.as_sym() * block);
}

}  // namespace gm
