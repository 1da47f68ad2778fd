// Kernels from text: symbols, parameters, parts and statements. Expressions are in
// tile_parse_expr.cpp.
#include "ir/tile_parse.h"

#include "ir/tile_text.h"

namespace gm {
namespace {

constexpr size_t kMaxKernelText = size_t{16} << 20;
constexpr int kMaxBlocks = 64;

class KernelParser {
 public:
  explicit KernelParser(TokenStream& tokens) : tokens_(tokens), exprs_(tokens, scope_) {}

  Result<Kernel> run() {
    kernel_.location = tokens_.location();
    GM_TRY(tokens_.expect("kernel"));
    GM_ASSIGN(kernel_.name, tokens_.expect_at_name("a kernel's name, '@name'"));
    GM_TRY(tokens_.expect("{"));
    while (tokens_.peek().is("symbol")) GM_TRY(parse_symbol());
    while (tokens_.peek().is("param")) GM_TRY(parse_param());
    while (tokens_.peek().is("part")) GM_TRY(parse_part());
    if (!tokens_.accept("}")) return tokens_.unexpected("'symbol', 'param', 'part' or '}'");
    if (!tokens_.at_end()) return tokens_.unexpected("the end of the text");
    return std::move(kernel_);
  }

 private:
  Error taken(const Location& where, std::string_view what, std::string_view name) const {
    return err(Code::ir_name, where, "choose another name", "{} '{}' is defined twice", what, name);
  }

  Result<SymExpr> parse_bound() {
    const Location where = tokens_.location();
    GM_ASSIGN(SymExpr bound, exprs_.parse_sym());
    for (const std::string& name : bound.symbols()) {
      if (!kernel_.symbols.find(name))
        return err(Code::ir_name, where, "declare it before with 'symbol'",
                   "the symbol '{}' is not declared", name);
    }
    return bound;
  }

  // An upper end: an expression or inf.
  Result<std::optional<SymExpr>> parse_upper() {
    if (tokens_.peek().kind == TokenKind::real && tokens_.peek().text == "inf") {
      tokens_.next();
      return std::nullopt;
    }
    GM_ASSIGN(SymExpr bound, parse_bound());
    return bound;
  }

  Result<> parse_symbol() {
    tokens_.next();
    SymInfo info;
    const Location where = tokens_.location();
    GM_ASSIGN(info.name, tokens_.expect_identifier("a symbol's name"));
    if (kernel_.symbols.find(info.name)) return taken(where, "the symbol", info.name);
    GM_TRY(tokens_.expect(":"));
    bool known = false;
    for (const SymRole role : {SymRole::tokens, SymRole::seqs, SymRole::rows, SymRole::context,
                               SymRole::pages, SymRole::slots, SymRole::constant, SymRole::loop}) {
      if (known || !tokens_.accept(to_string(role))) continue;
      info.role = role;
      known = true;
    }
    if (!known) {
      return tokens_.unexpected(
          "a role (tokens, seqs, rows, context, pages, slots, constant or loop)");
    }
    GM_TRY(tokens_.expect("in"));
    GM_TRY(tokens_.expect("["));
    GM_ASSIGN(info.lo, parse_bound());
    GM_TRY(tokens_.expect(","));
    GM_ASSIGN(info.hi, parse_upper());
    GM_TRY(tokens_.expect("]"));
    if (tokens_.accept("multiple")) {
      const Location at = tokens_.location();
      GM_ASSIGN(info.multiple_of, tokens_.expect_integer("a positive integer"));
      if (info.multiple_of < 1)
        return err(Code::ir_limit, at, "write a positive integer", "a multiple of {}",
                   info.multiple_of);
    }
    kernel_.symbols.declare(std::move(info));
    return {};
  }

  template <class Enum>
  Result<Enum> parse_word(std::initializer_list<Enum> values, std::string_view (*name)(Enum),
                          std::string_view what) {
    for (const Enum value : values) {
      if (tokens_.accept(name(value))) return value;
    }
    return tokens_.unexpected(what);
  }

  Result<> parse_param() {
    tokens_.next();
    Param param;
    const Location where = tokens_.location();
    GM_ASSIGN(param.name, tokens_.expect_value_name("a parameter's name, '%name'"));
    if (kernel_.find_param(param.name)) return taken(where, "the parameter", param.name);
    GM_TRY(tokens_.expect(":"));
    const auto dtype = parse_dtype(tokens_.peek().text);
    if (tokens_.peek().kind != TokenKind::identifier || !dtype || *dtype == DType::pred)
      return tokens_.unexpected("a dtype (f32, bf16, f16, i32 or i8)");
    tokens_.next();
    param.dtype = *dtype;
    GM_TRY(tokens_.expect("["));
    while (!tokens_.peek().is("]")) {
      GM_ASSIGN(SymExpr extent, parse_bound());
      param.shape.push_back(std::move(extent));
      if (!tokens_.accept(",")) break;
    }
    GM_TRY(tokens_.expect("]"));
    GM_ASSIGN(param.access, parse_word({Access::read, Access::write, Access::read_write},
                                       access_name, "an access (read, write or read_write)"));
    GM_ASSIGN(
        param.residency,
        parse_word({Residency::activation, Residency::weight, Residency::state, Residency::step},
                   residency_name, "a residency (activation, weight, state or step)"));
    if (tokens_.accept("range")) {
      GM_ASSIGN(param.contract, parse_contract());
    }
    const ScalarType type = is_float(param.dtype) ? ScalarType::f32 : ScalarType::index;
    scope_.push_back({param.name, false, type});
    kernel_.params.push_back(std::move(param));
    return {};
  }

  Result<Contract> parse_contract() {
    Contract contract;
    GM_TRY(tokens_.expect("["));
    GM_ASSIGN(contract.lo, parse_bound());
    GM_TRY(tokens_.expect(","));
    GM_ASSIGN(contract.hi, parse_upper());
    GM_TRY(tokens_.expect(")"));
    contract.monotone = tokens_.accept("monotone");
    if (tokens_.accept("total")) {
      GM_ASSIGN(contract.total, parse_bound());
    }
    contract.distinct = tokens_.accept("distinct");
    contract.consecutive = tokens_.accept("consecutive");
    contract.masked = tokens_.accept("masked");
    return contract;
  }

  Result<> parse_part() {
    tokens_.next();
    Part part;
    GM_ASSIGN(part.name, tokens_.expect_identifier("a part's name"));
    GM_TRY(tokens_.expect("grid"));
    GM_TRY(tokens_.expect("("));
    GM_ASSIGN(part.grid, parse_axes(")"));
    GM_TRY(tokens_.expect(")"));
    GM_ASSIGN(part.body, parse_block(0));
    kernel_.parts.push_back(std::move(part));
    return {};
  }

  Result<Axis> parse_axis() {
    Axis axis;
    GM_ASSIGN(axis.name, tokens_.expect_identifier("an axis"));
    GM_TRY(tokens_.expect("<"));
    GM_ASSIGN(axis.extent, exprs_.parse_sym());
    return axis;
  }

  Result<std::vector<Axis>> parse_axes(std::string_view close) {
    std::vector<Axis> axes;
    while (!tokens_.peek().is(close)) {
      GM_ASSIGN(Axis axis, parse_axis());
      axes.push_back(std::move(axis));
      if (!tokens_.accept(",")) break;
    }
    return axes;
  }

  Result<std::vector<Axis>> parse_optional_axes(std::string_view open, std::string_view close) {
    std::vector<Axis> axes;
    if (!tokens_.accept(open)) return axes;
    GM_ASSIGN(axes, parse_axes(close));
    GM_TRY(tokens_.expect(close));
    return axes;
  }

  Result<std::vector<Axis>> parse_over() {
    std::vector<Axis> axes;
    if (!tokens_.accept("over")) return axes;
    GM_TRY(tokens_.expect("("));
    GM_ASSIGN(axes, parse_axes(")"));
    GM_TRY(tokens_.expect(")"));
    return axes;
  }

  Result<Block> parse_block(int depth) {
    if (depth > kMaxBlocks)
      return err(Code::ir_limit, tokens_.location(), "nest less deeply",
                 "statements are nested more than {} deep", kMaxBlocks);
    GM_TRY(tokens_.expect("{"));
    const size_t outer = scope_.size();
    Block block;
    while (!tokens_.accept("}")) {
      Stmt stmt;
      stmt.location = tokens_.location();
      if (tokens_.accept("tile")) {
        GM_ASSIGN(stmt.node, parse_tile());
      } else if (tokens_.accept("update")) {
        GM_ASSIGN(stmt.node, parse_update());
      } else if (tokens_.accept("reduce")) {
        GM_ASSIGN(stmt.node, parse_reduce());
      } else if (tokens_.accept("store")) {
        GM_ASSIGN(stmt.node, parse_store());
      } else if (tokens_.accept("for")) {
        GM_ASSIGN(stmt.node, parse_for(depth));
      } else if (tokens_.accept("if")) {
        GM_ASSIGN(stmt.node, parse_if(depth));
      } else if (tokens_.accept("let")) {
        GM_ASSIGN(stmt.node, parse_let());
      } else {
        return tokens_.unexpected("a statement (tile, update, reduce, store, for, if, let) or '}'");
      }
      block.push_back(std::move(stmt));
    }
    scope_.resize(outer);
    return block;
  }

  Result<ScalarType> parse_tile_type() {
    GM_TRY(tokens_.expect(":"));
    if (tokens_.accept("f32")) return ScalarType::f32;
    if (tokens_.accept("index")) return ScalarType::index;
    return tokens_.unexpected("a tile's type (f32 or index)");
  }

  Result<TileStmt> parse_tile() {
    TileStmt s;
    GM_ASSIGN(s.tile, tokens_.expect_value_name("a tile's name, '%name'"));
    GM_ASSIGN(s.axes, parse_optional_axes("[", "]"));
    GM_ASSIGN(const ScalarType type, parse_tile_type());
    GM_TRY(tokens_.expect("="));
    GM_ASSIGN(s.value, exprs_.parse_value(type));
    scope_.push_back({s.tile, true, type});
    return s;
  }

  Result<UpdateStmt> parse_update() {
    UpdateStmt s;
    const Location where = tokens_.location();
    GM_ASSIGN(s.tile, tokens_.expect_value_name("a tile's name, '%name'"));
    const ScopeName* name = exprs_.find(s.tile);
    if (!name || !name->is_tile)
      return err(Code::ir_name, where, "define it before with 'tile'",
                 "the tile %{} is not defined", s.tile);
    const ScalarType type = name->type;
    GM_ASSIGN(s.indices, exprs_.parse_indices());
    GM_ASSIGN(s.axes, parse_over());
    GM_TRY(tokens_.expect("="));
    GM_ASSIGN(s.value, exprs_.parse_value(type));
    return s;
  }

  Result<ReduceStmt> parse_reduce() {
    ReduceStmt s;
    GM_ASSIGN(s.tile, tokens_.expect_value_name("a tile's name, '%name'"));
    GM_ASSIGN(s.axes, parse_optional_axes("[", "]"));
    const Location where = tokens_.location();
    GM_ASSIGN(const ScalarType type, parse_tile_type());
    GM_TRY(tokens_.expect("="));
    if (tokens_.accept("sum")) {
      s.op = ReduceOp::sum;
    } else if (tokens_.accept("dot")) {
      s.op = ReduceOp::dot;
    } else if (tokens_.accept("max")) {
      s.op = ReduceOp::max;
    } else if (tokens_.accept("argmax")) {
      s.op = ReduceOp::argmax;
    } else {
      return tokens_.unexpected("a reduction (sum, dot, max or argmax)");
    }
    const ScalarType natural = s.op == ReduceOp::argmax ? ScalarType::index : ScalarType::f32;
    if (type != natural)
      return err(Code::ir_type, where, fmt::format("write ': {}'", to_string(natural)),
                 "the reduction yields {}, not {}", to_string(natural), to_string(type));
    if (tokens_.accept("chain")) {
      s.order.kind = ReduceOrder::Kind::chain;
    } else if (tokens_.accept("lanes")) {
      s.order.kind = ReduceOrder::Kind::lanes;
    } else {
      return tokens_.unexpected("an order (chain or lanes)");
    }
    GM_ASSIGN(s.order.size, tokens_.expect_integer("the order's size"));
    GM_TRY(tokens_.expect("over"));
    GM_ASSIGN(s.over, parse_axis());
    GM_TRY(tokens_.expect("of"));
    GM_ASSIGN(s.a, exprs_.parse_value(ScalarType::f32));
    if (s.op == ReduceOp::dot) {
      GM_TRY(tokens_.expect(","));
      GM_ASSIGN(s.b, exprs_.parse_value(ScalarType::f32));
    }
    scope_.push_back({s.tile, true, type});
    return s;
  }

  Result<StoreStmt> parse_store() {
    StoreStmt s;
    const Location where = tokens_.location();
    GM_ASSIGN(s.buffer, tokens_.expect_value_name("a parameter's name, '%name'"));
    const Param* param = kernel_.find_param(s.buffer);
    if (!param)
      return err(Code::ir_name, where, "declare it with 'param'",
                 "the parameter %{} is not declared", s.buffer);
    const ScalarType type = is_float(param->dtype) ? ScalarType::f32 : ScalarType::index;
    GM_ASSIGN(s.indices, exprs_.parse_indices());
    GM_ASSIGN(s.axes, parse_over());
    GM_TRY(tokens_.expect("="));
    GM_ASSIGN(s.value, exprs_.parse_value(type));
    return s;
  }

  Result<ForStmt> parse_for(int depth) {
    ForStmt s;
    GM_ASSIGN(s.axis, tokens_.expect_identifier("an axis"));
    GM_TRY(tokens_.expect("in"));
    GM_TRY(tokens_.expect("["));
    GM_ASSIGN(s.lo, exprs_.parse_index());
    GM_TRY(tokens_.expect(","));
    GM_ASSIGN(s.hi, exprs_.parse_index());
    GM_TRY(tokens_.expect(")"));
    GM_ASSIGN(s.body, parse_block(depth + 1));
    return s;
  }

  Result<IfStmt> parse_if(int depth) {
    IfStmt s;
    GM_ASSIGN(s.condition, exprs_.parse_value(ScalarType::pred));
    GM_ASSIGN(s.body, parse_block(depth + 1));
    return s;
  }

  Result<LetStmt> parse_let() {
    LetStmt s;
    GM_ASSIGN(s.name, tokens_.expect_identifier("a symbol's name"));
    GM_TRY(tokens_.expect("in"));
    GM_TRY(tokens_.expect("["));
    GM_ASSIGN(s.lo, exprs_.parse_sym());
    GM_TRY(tokens_.expect(","));
    GM_ASSIGN(s.hi, exprs_.parse_sym());
    GM_TRY(tokens_.expect("]"));
    GM_TRY(tokens_.expect("="));
    GM_ASSIGN(s.value, exprs_.parse_value(ScalarType::index));
    return s;
  }

  TokenStream& tokens_;
  std::vector<ScopeName> scope_;
  ExprParser exprs_;
  Kernel kernel_;
};

}  // namespace

Result<Kernel> parse_kernel(std::string_view text, const std::string& file) {
  if (text.size() > kMaxKernelText)
    return err(Code::ir_limit, Location::of_file(file), "split the kernel",
               "a kernel's text of {} bytes is over the limit of {}", text.size(), kMaxKernelText);
  GM_ASSIGN(TokenStream tokens, TokenStream::of(text, file));
  return KernelParser(tokens).run();
}

}  // namespace gm
