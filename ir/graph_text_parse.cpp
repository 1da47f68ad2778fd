#include <tuple>

#include "ir/contract_text.h"
#include "ir/graph_text.h"
#include "ir/nearest.h"
#include "ir/opdef.h"

namespace gm {
namespace {

constexpr int64_t kMaxAxis = 64;
constexpr size_t kMaxValues = size_t{1} << 24;

class Parser {
 public:
  Parser(TokenStream tokens, const OpTable& table)
      : tokens_(std::move(tokens)), table_(table), graph_(table) {}

  Result<Graph> run() {
    GM_TRY(tokens_.expect("graph"));
    GM_ASSIGN(graph_.name, tokens_.expect_at_name("the graph's name, as @main"));
    GM_TRY(tokens_.expect("{"));
    while (!tokens_.accept("}")) GM_TRY(statement());
    if (!tokens_.at_end()) return tokens_.unexpected("the end of the text");
    return std::move(graph_);
  }

 private:
  Result<> statement() {
    if (graph_.values().size() >= kMaxValues)
      return err(Code::ir_limit, tokens_.location(), "split the graph",
                 "a graph has more than {} values", kMaxValues);
    const Token& token = tokens_.peek();
    if (token.kind == TokenKind::value_name) return op();
    if (token.kind != TokenKind::identifier)
      return tokens_.unexpected("a symbol, input, weight, state, op or output");
    if (token.text == "symbol") return parse_symbol(tokens_, graph_.symbols);
    if (token.text == "input") return input();
    if (token.text == "weight") return weight();
    if (token.text == "state") return state();
    if (token.text == "output") return output();
    return op();
  }

  // The name of a value that is defined here.
  Result<std::string> new_name() {
    const Location where = tokens_.location();
    GM_ASSIGN(std::string name, tokens_.expect_value_name("the name of a value, as %x"));
    const auto [found, added] = defined_.try_emplace(name, where);
    if (!added)
      return Error(std::move(err(Code::graph_text_redefined, where, "give it another name",
                                 "value %{} is defined twice", name)
                                 .error())
                       .note("it was defined here first", found->second));
    return name;
  }

  Result<ValueId> operand() {
    const Location where = tokens_.location();
    GM_ASSIGN(const std::string name, tokens_.expect_value_name("the name of a value, as %x"));
    if (const auto value = graph_.find_value(name)) return *value;
    std::vector<std::string> known;
    for (const Value& value : graph_.values()) known.push_back(value.name);
    const std::string nearest = nearest_name(name, known);
    return err(Code::graph_text_undefined, where,
               nearest.empty() ? "define it in a line before this one"
                               : fmt::format("define it in a line before this one; the nearest "
                                             "name is %{}",
                                             nearest),
               "value %{} is not defined before it is used", name);
  }

  Result<TensorType> type_after_colon() {
    GM_TRY(tokens_.expect(":"));
    return parse_tensor_type(tokens_);
  }

  Result<> input() {
    tokens_.next();
    GM_ASSIGN(std::string name, new_name());
    GM_ASSIGN(TensorType type, type_after_colon());
    std::optional<Contract> contract;
    if (tokens_.peek().is("range")) {
      GM_ASSIGN(contract, parse_contract(tokens_));
    }
    graph_.add_input(std::move(name), std::move(type), std::move(contract));
    return {};
  }

  Result<> state() {
    tokens_.next();
    GM_ASSIGN(std::string name, new_name());
    GM_ASSIGN(TensorType type, type_after_colon());
    graph_.add_state(std::move(name), std::move(type));
    return {};
  }

  Result<> weight() {
    tokens_.next();
    GM_ASSIGN(std::string name, new_name());
    GM_ASSIGN(TensorType type, type_after_colon());
    WeightSource source;
    const bool stored = tokens_.accept("from");
    if (stored) {
      GM_ASSIGN(source.tensor, tokens_.expect_string("the name of a tensor"));
      GM_TRY(tokens_.expect("["));
      while (!tokens_.accept("]")) {
        if (!source.stored_shape.empty()) GM_TRY(tokens_.expect(","));
        GM_ASSIGN(const int64_t dim, tokens_.expect_integer("a dim of the stored tensor"));
        source.stored_shape.push_back(dim);
      }
      if (tokens_.accept("rows")) {
        GM_TRY(slice(source));
      } else if (tokens_.accept("series")) {
        GM_ASSIGN(source.series, tokens_.expect_integer("the number of tensors"));
      } else if (tokens_.accept("groups")) {
        GM_TRY(groups(source));
      }
    }
    if (tokens_.accept("values")) {
      GM_ASSIGN(source.values, numbers());
    } else if (!stored) {
      return tokens_.unexpected("'from' or 'values'");
    }
    graph_.add_weight(std::move(name), std::move(type), std::move(source));
    return {};
  }

  Result<> slice(WeightSource& source) {
    GM_TRY(tokens_.expect("axis"));
    const Location where = tokens_.location();
    GM_ASSIGN(const int64_t axis, tokens_.expect_integer("an axis"));
    if (axis < 0 || axis > kMaxAxis)
      return err(Code::ir_limit, where, "write an axis of the stored tensor, from 0",
                 "axis {} is not within [0, {}]", axis, kMaxAxis);
    source.slice_axis = static_cast<int>(axis);
    GM_ASSIGN(const auto range, row_range());
    std::tie(source.slice_begin, source.slice_end) = range;
    return {};
  }

  Result<> groups(WeightSource& source) {
    GM_ASSIGN(source.groups, tokens_.expect_integer("the number of groups"));
    GM_TRY(tokens_.expect("["));
    while (!tokens_.accept("]")) {
      if (!source.ranges.empty()) GM_TRY(tokens_.expect(","));
      GM_ASSIGN(const auto range, row_range());
      source.ranges.push_back(range);
    }
    return {};
  }

  Result<std::pair<int64_t, int64_t>> row_range() {
    std::pair<int64_t, int64_t> range;
    GM_TRY(tokens_.expect("["));
    GM_ASSIGN(range.first, tokens_.expect_integer("the first row"));
    GM_TRY(tokens_.expect(","));
    GM_ASSIGN(range.second, tokens_.expect_integer("the row after the last"));
    GM_TRY(tokens_.expect(")"));
    return range;
  }

  Result<std::vector<double>> numbers() {
    std::vector<double> list;
    GM_TRY(tokens_.expect("["));
    while (!tokens_.accept("]")) {
      if (!list.empty()) GM_TRY(tokens_.expect(","));
      const Token& token = tokens_.peek();
      if (token.kind != TokenKind::real && token.kind != TokenKind::integer)
        return tokens_.unexpected("a number");
      list.push_back(tokens_.next().real);
    }
    return list;
  }

  Result<> output() {
    tokens_.next();
    const bool is_state = tokens_.peek().is("state") && !tokens_.peek(1).is("=");
    if (is_state) tokens_.next();
    std::string name;
    if (tokens_.peek().kind == TokenKind::string) {
      name = tokens_.next().value;
    } else {
      GM_ASSIGN(name, tokens_.expect_identifier("the name of an output"));
    }
    GM_TRY(tokens_.expect("="));
    GM_ASSIGN(const ValueId value, operand());
    if (is_state) {
      graph_.add_state_output(std::move(name), value);
    } else {
      graph_.add_output(std::move(name), value);
    }
    return {};
  }

  Result<> op() {
    Op op;
    op.location = tokens_.location();
    std::vector<Value> results;
    if (tokens_.peek().kind == TokenKind::value_name) {
      do {
        GM_ASSIGN(std::string name, new_name());
        results.emplace_back().name = std::move(name);
      } while (tokens_.accept(","));
      GM_TRY(tokens_.expect("="));
    }
    const Location kind_at = tokens_.location();
    GM_ASSIGN(op.kind, tokens_.expect_identifier("an op"));
    const OpDef* def = table_.find(op.kind);
    if (def == nullptr) {
      const std::string nearest = nearest_name(op.kind, table_.names());
      return err(Code::graph_op_unknown, kind_at,
                 nearest.empty() ? std::string() : fmt::format("the nearest op is {}", nearest),
                 "there is no op {}", op.kind);
    }
    GM_TRY(tokens_.expect("("));
    while (!tokens_.accept(")")) {
      if (!op.inputs.empty()) GM_TRY(tokens_.expect(","));
      GM_ASSIGN(const ValueId input, operand());
      op.inputs.push_back(input);
    }
    if (tokens_.accept("{")) GM_TRY(attributes(*def, op.attrs));
    GM_TRY(result_types(*def, results));
    if (tokens_.accept("@")) {
      GM_ASSIGN(op.where, tokens_.expect_string("a place in the model"));
    }
    graph_.add_op_unchecked(std::move(op), std::move(results));
    return {};
  }

  Result<> result_types(const OpDef& def, std::vector<Value>& results) {
    const Location where = tokens_.location();
    size_t count = 0;
    if (tokens_.accept(":")) {
      do {
        GM_ASSIGN(TensorType type, parse_tensor_type(tokens_));
        if (count < results.size()) {
          results[count].type = std::move(type);
          results[count].is_state = count < def.results.size() && def.results[count].state;
        }
        ++count;
      } while (tokens_.accept(","));
    }
    if (count != results.size())
      return err(Code::graph_text_results, where, "write one type for each result",
                 "{} has {} results but {} types", def.name, results.size(), count);
    return {};
  }

  Result<> attributes(const OpDef& def, Attrs& attrs) {
    while (!tokens_.accept("}")) {
      if (!attrs.empty()) GM_TRY(tokens_.expect(","));
      const Location where = tokens_.location();
      GM_ASSIGN(std::string name, tokens_.expect_identifier("an attribute"));
      const AttrDef* declared = nullptr;
      std::vector<std::string> known;
      for (const AttrDef& attr : def.attrs) {
        if (attr.name == name) declared = &attr;
        known.push_back(attr.name);
      }
      if (declared == nullptr)
        return err(Code::graph_attribute_unknown, where,
                   known.empty()
                       ? fmt::format("{} has no attributes", def.name)
                       : fmt::format("the nearest attribute is {}", nearest_name(name, known)),
                   "{} has no attribute {}", def.name, name);
      GM_TRY(tokens_.expect("="));
      GM_ASSIGN(Attr value, attribute(declared->default_value));
      if (!attrs.emplace(name, std::move(value)).second)
        return err(Code::graph_text_attribute, where, "keep one of them",
                   "attribute {} is given twice", name);
    }
    return {};
  }

  // The declared type decides where the text alone does not: `1` may be a number, `[]` a list of
  // either kind. All else keeps the type it is written in, for the verifier to compare.
  Result<Attr> attribute(const Attr& like) {
    const Token& token = tokens_.peek();
    if (tokens_.accept("true")) return Attr(true);
    if (tokens_.accept("false")) return Attr(false);
    if (token.kind == TokenKind::string) return Attr(tokens_.next().value);
    if (token.kind == TokenKind::real) return Attr(tokens_.next().real);
    if (token.kind == TokenKind::integer) {
      if (std::holds_alternative<double>(like)) return Attr(tokens_.next().real);
      return Attr(tokens_.next().integer);
    }
    if (!token.is("[")) return tokens_.unexpected("the value of an attribute");

    bool real = std::holds_alternative<std::vector<double>>(like);
    for (size_t ahead = 1; !real; ++ahead) {
      const TokenKind kind = tokens_.peek(ahead).kind;
      if (kind == TokenKind::real) real = true;
      if (kind != TokenKind::integer && !tokens_.peek(ahead).is(",")) break;
    }
    if (real) {
      GM_ASSIGN(std::vector<double> list, numbers());
      return Attr(std::move(list));
    }
    std::vector<int64_t> list;
    tokens_.next();
    while (!tokens_.accept("]")) {
      if (!list.empty()) GM_TRY(tokens_.expect(","));
      GM_ASSIGN(const int64_t value, tokens_.expect_integer("an integer"));
      list.push_back(value);
    }
    return Attr(std::move(list));
  }

  TokenStream tokens_;
  const OpTable& table_;
  Graph graph_;
  std::map<std::string, Location, std::less<>> defined_;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text, const std::string& file, const OpTable& table) {
  GM_ASSIGN(TokenStream tokens, TokenStream::of(text, file));
  return Parser(std::move(tokens), table).run();
}

}  // namespace gm
