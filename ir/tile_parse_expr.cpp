#include <charconv>
#include <cmath>
#include <limits>

#include "ir/tile_parse.h"

namespace gm {
namespace {

constexpr int kMaxDepth = 256;

std::optional<UnaryOp> find_unary(std::string_view name) {
#define X(op, from, to) \
  if (name == #op) return UnaryOp::op;
  GM_UNARY_OPS(X)
#undef X
  return {};
}

std::optional<BinaryOp> find_binary(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(BinaryOp::logical_or); ++i) {
    const auto op = static_cast<BinaryOp>(i);
    if (to_string(op) == name) return op;
  }
  return {};
}

// Counts a level of nesting for as long as it lives.
struct Level {
  int& depth;
  ~Level() { --depth; }
};

}  // namespace

const ScopeName* ExprParser::find(std::string_view name) const {
  for (size_t i = scope_.size(); i-- > 0;) {
    if (scope_[i].name == name) return &scope_[i];
  }
  return nullptr;
}

Result<> ExprParser::enter() {
  if (depth_ >= kMaxDepth)
    return err(Code::ir_limit, tokens_.location(), "split the expression over tiles",
               "an expression is nested more than {} deep", kMaxDepth);
  ++depth_;
  return {};
}

Result<Expr> ExprParser::parse_value(ScalarType type) {
  const Location where = tokens_.location();
  GM_ASSIGN(Expr operand, value());
  if (operand.type() != type) {
    const bool number = type == ScalarType::index && operand->kind == ExprKind::number;
    return err(Code::ir_type, where,
               number ? "write index(...) around it"
                      : fmt::format("write a value of type {}", to_string(type)),
               "the value is of type {}, but {} is needed here", to_string(operand.type()),
               to_string(type));
  }
  return operand;
}

Result<Expr> ExprParser::parse_index() {
  GM_ASSIGN(Expr operand, sum());
  return operand;
}

Result<SymExpr> ExprParser::parse_sym() {
  const Location where = tokens_.location();
  GM_ASSIGN(Expr operand, sum());
  auto sym = operand.as_sym();
  if (!sym)
    return err(Code::ir_type, where, "bind the loaded value to a symbol with 'let' before",
               "an extent or bound cannot load");
  return *std::move(sym);
}

Result<std::vector<Expr>> ExprParser::parse_indices() {
  std::vector<Expr> indices;
  if (!tokens_.accept("[")) return indices;
  while (!tokens_.peek().is("]")) {
    GM_ASSIGN(Expr index, parse_index());
    indices.push_back(std::move(index));
    if (!tokens_.accept(",")) break;
  }
  GM_TRY(tokens_.expect("]"));
  return indices;
}

Result<Expr> ExprParser::combine(BinaryOp op, Expr a, Expr b, const Location& where) {
  Expr result = Expr::binary(op, std::move(a), std::move(b));
  if (const auto sym = result.as_sym(); sym && sym->is_too_large())
    return err(Code::ir_limit, where, "use smaller numbers or fewer terms",
               "an index has numbers or terms beyond the limits of index arithmetic");
  return result;
}

Result<int64_t> ExprParser::divisor() {
  const Location where = tokens_.location();
  GM_ASSIGN(const int64_t value, tokens_.expect_integer("a positive constant"));
  if (value < 1)
    return err(Code::ir_limit, where, "write a positive constant", "a divisor of {}", value);
  return value;
}

Result<Expr> ExprParser::sum() {
  GM_ASSIGN(Expr result, product());
  for (;;) {
    const Location where = tokens_.location();
    const BinaryOp op = tokens_.peek().is("+") ? BinaryOp::add : BinaryOp::sub;
    if (!tokens_.accept("+") && !tokens_.accept("-")) return result;
    GM_ASSIGN(Expr right, product());
    GM_ASSIGN(result, combine(op, std::move(result), std::move(right), where));
  }
}

Result<Expr> ExprParser::product() {
  GM_ASSIGN(Expr result, factor());
  for (;;) {
    const Location where = tokens_.location();
    if (!tokens_.accept("*")) return result;
    GM_ASSIGN(Expr right, factor());
    GM_ASSIGN(result, combine(BinaryOp::mul, std::move(result), std::move(right), where));
  }
}

Result<Expr> ExprParser::factor() {
  GM_TRY(enter());
  const Level level{depth_};
  const Token& token = tokens_.peek();
  const Location where = tokens_.location();
  if (token.kind == TokenKind::integer) {
    return Expr::index(tokens_.next().integer);
  }
  if (token.kind == TokenKind::value_name) return reference();
  if (token.kind == TokenKind::identifier) {
    if (tokens_.peek(1).is("(")) return infix_call();
    return Expr::index(SymExpr::symbol(tokens_.next().text));
  }
  if (tokens_.accept("-")) {
    GM_ASSIGN(Expr negated, factor());
    return combine(BinaryOp::sub, Expr::index(0), std::move(negated), where);
  }
  if (tokens_.accept("(")) {
    GM_ASSIGN(Expr inner, sum());
    GM_TRY(tokens_.expect(")"));
    return inner;
  }
  return tokens_.unexpected("an index (a number, a symbol, a load or a function)");
}

Result<Expr> ExprParser::infix_call() {
  const Location where = tokens_.location();
  const std::string_view name = tokens_.peek().text;
  const bool divides = name == "floordiv" || name == "mod" || name == "ceildiv";
  if (!divides && name != "min" && name != "max") {
    GM_ASSIGN(Expr result, call());
    if (result.type() != ScalarType::index)
      return err(Code::ir_type, where, "use an index here", "{} yields {}, but an index is needed",
                 name, to_string(result.type()));
    return result;
  }
  tokens_.next();
  GM_TRY(tokens_.expect("("));
  GM_ASSIGN(Expr a, sum());
  if (!divides) {
    if (!tokens_.peek().is(",")) return tokens_.unexpected("','");
    while (tokens_.accept(",")) {
      GM_ASSIGN(Expr b, sum());
      GM_ASSIGN(a, combine(name == "min" ? BinaryOp::min : BinaryOp::max, std::move(a),
                           std::move(b), where));
    }
    GM_TRY(tokens_.expect(")"));
    return a;
  }
  GM_TRY(tokens_.expect(","));
  GM_ASSIGN(const int64_t by, divisor());
  GM_TRY(tokens_.expect(")"));
  if (name == "ceildiv") {
    const auto sym = a.as_sym();
    if (!sym)
      return err(Code::ir_type, where, "write floordiv(x + (divisor - 1), divisor)",
                 "ceildiv takes no loaded value");
    a = Expr::index(SymExpr::ceildiv(*sym, by));
    return a;
  }
  a = name == "mod" ? mod(std::move(a), by) : floordiv(std::move(a), by);
  return a;
}

Result<Expr> ExprParser::reference() {
  GM_TRY(enter());
  const Level level{depth_};
  const Location where = tokens_.location();
  GM_ASSIGN(const std::string name, tokens_.expect_value_name("a name"));
  const ScopeName* found = find(name);
  if (!found)
    return err(Code::ir_name, where, "declare it with 'param', or define it before with 'tile'",
               "%{} is neither a parameter nor a tile in scope", name);
  const bool is_tile = found->is_tile;
  const ScalarType type = found->type;
  GM_ASSIGN(std::vector<Expr> indices, parse_indices());
  return is_tile ? Expr::tile(name, std::move(indices), type)
                 : Expr::load(name, std::move(indices), type);
}

Result<Expr> ExprParser::number() {
  const bool negate = tokens_.accept("-");
  const Token token = tokens_.next();
  float value = 0;
  if (token.text == "nan") {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (std::isinf(token.real)) {
    value = static_cast<float>(token.real);
  } else {
    // Straight to f32: through a double would round twice.
    const char* last = token.text.data() + token.text.size();
    const auto [end, error] = std::from_chars(token.text.data(), last, value);
    if (error != std::errc() || end != last)
      return err(Code::ir_limit, tokens_.location_of(token), "write a number that an f32 can hold",
                 "the number {} is not an f32", token.text);
  }
  return Expr(negate ? -value : value);
}

Result<Expr> ExprParser::value() {
  GM_TRY(enter());
  const Level level{depth_};
  const Token& token = tokens_.peek();
  const TokenKind ahead = tokens_.peek(1).kind;
  if (token.kind == TokenKind::integer || token.kind == TokenKind::real) return number();
  if (token.is("-") && (ahead == TokenKind::integer || ahead == TokenKind::real)) return number();
  if (token.kind == TokenKind::value_name) return reference();
  if (token.kind == TokenKind::identifier) return call();
  return tokens_.unexpected("a value (a number, a load, a tile or a function)");
}

Result<std::vector<Expr>> ExprParser::operands(size_t count) {
  std::vector<Expr> result;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) GM_TRY(tokens_.expect(","));
    GM_ASSIGN(Expr operand, value());
    result.push_back(std::move(operand));
  }
  GM_TRY(tokens_.expect(")"));
  return result;
}

Result<Expr> ExprParser::call() {
  const Location where = tokens_.location();
  const std::string name(tokens_.next().text);
  const auto wrong = [&](std::string_view takes) {
    return err(Code::ir_type, where, fmt::format("give it {}", takes),
               "{} does not take operands of these types", name);
  };
  const auto unary = find_unary(name);
  const auto binary = find_binary(name);
  const bool rounds = name.starts_with("round_") && !unary;
  if (!unary && !binary && !rounds && name != "index" && name != "bits" && name != "fma" &&
      name != "select")
    return err(Code::ir_name, where, "see the list of functions in docs/ir.md",
               "there is no function '{}'", name);
  GM_TRY(tokens_.expect("("));
  if (name == "index") {
    GM_ASSIGN(Expr result, sum());
    GM_TRY(tokens_.expect(")"));
    return result;
  }
  if (name == "bits") {
    const Location at = tokens_.location();
    GM_ASSIGN(const int64_t value, tokens_.expect_integer("a 32-bit number"));
    if (value < 0 || value > std::numeric_limits<uint32_t>::max())
      return err(Code::ir_limit, at, "write a number from 0 to 0xffffffff", "bits({})", value);
    GM_TRY(tokens_.expect(")"));
    return Expr::bits(static_cast<uint32_t>(value));
  }
  if (unary) {
    GM_ASSIGN(auto args, operands(1));
    if (!result_type(*unary, args[0].type())) return wrong("what its table entry says");
    return Expr::unary(*unary, std::move(args[0]));
  }
  if (binary) {
    GM_ASSIGN(auto args, operands(2));
    const Expr& b = args[1];
    if (!result_type(*binary, args[0].type(), b.type()))
      return wrong("two operands of one type that it takes");
    if (*binary == BinaryOp::floordiv || *binary == BinaryOp::mod) {
      const auto by = b.as_sym();
      if (!by || by->constant().value_or(0) <= 0) return wrong("a positive constant as divisor");
    }
    if (*binary == BinaryOp::shl || *binary == BinaryOp::shr) {
      if (b->kind != ExprKind::number || b->bits > 31) return wrong("a shift by bits 0 to 31");
    }
    return combine(*binary, std::move(args[0]), std::move(args[1]), where);
  }
  if (rounds) {
    GM_ASSIGN(auto args, operands(1));
    const auto dtype = parse_dtype(std::string_view(name).substr(6));
    if (!dtype || !is_float(*dtype) || *dtype == DType::f32)
      return err(Code::ir_name, where, "write round_bf16 or round_f16", "there is no function '{}'",
                 name);
    if (args[0].type() != ScalarType::f32) return wrong("an f32");
    return Expr::round(*dtype, std::move(args[0]));
  }
  GM_ASSIGN(auto args, operands(3));
  if (name == "fma") {
    for (const Expr& arg : args) {
      if (arg.type() != ScalarType::f32) return wrong("three f32");
    }
    return Expr::fma(std::move(args[0]), std::move(args[1]), std::move(args[2]));
  }
  if (args[0].type() != ScalarType::pred || args[1].type() != args[2].type())
    return wrong("a pred and two values of one type");
  return Expr::select(std::move(args[0]), std::move(args[1]), std::move(args[2]));
}

}  // namespace gm
