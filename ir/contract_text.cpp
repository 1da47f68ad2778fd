#include "ir/contract_text.h"

#include <algorithm>
#include <array>

#include "ir/nearest.h"

namespace gm {
namespace {

constexpr int kMaxDepth = 64;

constexpr std::array kRoles = {SymRole::tokens, SymRole::seqs,  SymRole::rows,     SymRole::context,
                               SymRole::pages,  SymRole::slots, SymRole::constant, SymRole::loop};
constexpr std::array kMemoryTypes = {DType::f32, DType::bf16, DType::f16, DType::i32, DType::i8};
constexpr std::array<std::string_view, 5> kFunctions = {"ceildiv", "floordiv", "mod", "min", "max"};

std::vector<std::string> names_of(const auto& list) {
  std::vector<std::string> names;
  for (const auto& item : list) names.emplace_back(to_string(item));
  return names;
}

// "inf" or an expression.
Result<std::optional<SymExpr>> parse_upper(TokenStream& tokens) {
  const Token& token = tokens.peek();
  if (token.kind == TokenKind::real && token.text == "inf") {
    tokens.next();
    return std::nullopt;
  }
  GM_ASSIGN(SymExpr value, parse_sym(tokens));
  return value;
}

Result<> check_declared(const SymExpr& e, const SymTable& symbols, const Location& where) {
  for (const std::string& name : e.symbols()) {
    if (symbols.find(name) != nullptr) continue;
    return err(Code::graph_text_symbol, where, "declare it in a line before this one",
               "symbol {} is not declared", name);
  }
  return {};
}

}  // namespace

Result<SymExpr> parse_sym(TokenStream& tokens) {
  const Location where = tokens.location();
  const size_t begin = tokens.peek().begin;
  std::string text;
  int depth = 0;
  bool after_word = false;   // of an identifier or number
  bool after_value = false;  // of those or of a closing parenthesis
  for (;;) {
    const Token& token = tokens.peek();
    const bool word = token.kind == TokenKind::identifier || token.kind == TokenKind::integer;
    if (word && after_value && depth == 0) break;
    if (!word) {
      if (token.kind != TokenKind::punctuation) break;
      const bool inner = token.text == "," || token.text == ")";
      if (inner && depth == 0) break;
      if (!inner && token.text != "(" && token.text != "+" && token.text != "-" &&
          token.text != "*")
        break;
      if (token.text == "(") ++depth;
      if (token.text == ")") --depth;
      if (depth > kMaxDepth)
        return err(Code::ir_limit, tokens.location(), "write it with fewer parentheses",
                   "an expression is nested more than {} deep", kMaxDepth);
    }
    // Spaced as written, so that the columns of errors are right; without comments and line ends.
    const size_t offset = token.begin - begin;
    if (token.line == where.line) text.resize(std::max(text.size(), offset), ' ');
    if (word && after_word && text.back() != ' ') text += ' ';
    text += token.text;
    after_word = word;
    after_value = word || token.text == ")";
    tokens.next();
  }
  if (text.empty()) return tokens.unexpected("an expression over symbols");
  if (depth != 0) return tokens.unexpected("')'");
  return SymExpr::parse(text, where);
}

Result<DType> parse_memory_dtype(TokenStream& tokens) {
  const Location where = tokens.location();
  GM_ASSIGN(const std::string name, tokens.expect_identifier("a dtype"));
  const std::optional<DType> dtype = parse_dtype(name);
  if (!dtype || *dtype == DType::pred)
    return err(Code::graph_text_dtype, where,
               fmt::format("the nearest dtype is {}", nearest_name(name, names_of(kMemoryTypes))),
               "{} is no dtype of memory", name);
  return *dtype;
}

Result<TensorType> parse_tensor_type(TokenStream& tokens) {
  TensorType type;
  GM_ASSIGN(type.dtype, parse_memory_dtype(tokens));
  GM_TRY(tokens.expect("["));
  if (tokens.accept("]")) return type;
  do {
    GM_ASSIGN(SymExpr dim, parse_sym(tokens));
    type.shape.push_back(std::move(dim));
  } while (tokens.accept(","));
  GM_TRY(tokens.expect("]"));
  return type;
}

std::string print_symbol(const SymInfo& symbol) {
  std::string text = fmt::format("symbol {} : {} in [{}, {}]", symbol.name, to_string(symbol.role),
                                 symbol.lo.to_string(), symbol.hi ? symbol.hi->to_string() : "inf");
  if (symbol.multiple_of != 1) text += fmt::format(" multiple {}", symbol.multiple_of);
  return text;
}

Result<> parse_symbol(TokenStream& tokens, SymTable& symbols) {
  GM_TRY(tokens.expect("symbol"));
  SymInfo info;
  const Location name_at = tokens.location();
  GM_ASSIGN(info.name, tokens.expect_identifier("the name of a symbol"));
  if (symbols.find(info.name) != nullptr)
    return err(Code::graph_text_redefined, name_at, "give it another name",
               "symbol {} is declared twice", info.name);
  if (std::find(kFunctions.begin(), kFunctions.end(), info.name) != kFunctions.end())
    return err(Code::graph_text_symbol, name_at, "give it another name",
               "{} is a function and cannot be a symbol", info.name);
  GM_TRY(tokens.expect(":"));

  const Location role_at = tokens.location();
  GM_ASSIGN(const std::string role_name, tokens.expect_identifier("the role of a symbol"));
  const auto role = std::find_if(kRoles.begin(), kRoles.end(),
                                 [&](SymRole r) { return to_string(r) == role_name; });
  if (role == kRoles.end())
    return err(Code::graph_text_symbol, role_at,
               fmt::format("the nearest role is {}", nearest_name(role_name, names_of(kRoles))),
               "{} is no role of a symbol", role_name);
  info.role = *role;

  GM_TRY(tokens.expect("in"));
  GM_TRY(tokens.expect("["));
  const Location range_at = tokens.location();
  GM_ASSIGN(info.lo, parse_sym(tokens));
  GM_TRY(tokens.expect(","));
  GM_ASSIGN(info.hi, parse_upper(tokens));
  GM_TRY(tokens.expect("]"));
  GM_TRY(check_declared(info.lo, symbols, range_at));
  if (info.hi) GM_TRY(check_declared(*info.hi, symbols, range_at));
  if (info.hi && symbols.provably_lt(*info.hi, info.lo) == Truth::yes)
    return err(Code::graph_text_symbol, range_at, "write the lower end first",
               "the range of symbol {} is empty: {} is less than {}", info.name,
               info.hi->to_string(), info.lo.to_string());
  if (tokens.accept("multiple")) {
    const Location at = tokens.location();
    GM_ASSIGN(info.multiple_of, tokens.expect_integer("what the symbol is a multiple of"));
    if (info.multiple_of < 1)
      return err(Code::graph_text_symbol, at, "write a positive number",
                 "symbol {} cannot be a multiple of {}", info.name, info.multiple_of);
  }
  symbols.declare(std::move(info));
  return {};
}

Result<Contract> parse_contract(TokenStream& tokens) {
  Contract contract;
  GM_TRY(tokens.expect("range"));
  GM_TRY(tokens.expect("["));
  GM_ASSIGN(contract.lo, parse_sym(tokens));
  GM_TRY(tokens.expect(","));
  GM_ASSIGN(contract.hi, parse_upper(tokens));
  GM_TRY(tokens.expect(")"));
  contract.monotone = tokens.accept("monotone");
  if (tokens.accept("total")) {
    GM_ASSIGN(contract.total, parse_sym(tokens));
  }
  contract.distinct = tokens.accept("distinct");
  contract.consecutive = tokens.accept("consecutive");
  contract.masked = tokens.accept("masked");
  return contract;
}

}  // namespace gm
