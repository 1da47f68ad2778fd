// Symbolic expressions to text and back.
#include <algorithm>
#include <cctype>

#include "base/sym_node.h"

namespace gm {
namespace {

constexpr int64_t kMaxLiteral = int64_t{1} << 40;
constexpr int kMaxNesting = 64;

std::string_view function_name(AtomKind kind) {
  switch (kind) {
    case AtomKind::ceildiv:
      return "ceildiv";
    case AtomKind::floordiv:
      return "floordiv";
    case AtomKind::mod:
      return "mod";
    case AtomKind::min:
      return "min";
    case AtomKind::max:
      return "max";
    case AtomKind::symbol:
      break;
  }
  return "";
}

std::string atom_text(const Atom& atom) {
  if (atom.kind == AtomKind::symbol) return atom.name;
  std::string text(function_name(atom.kind));
  for (size_t i = 0; i < atom.args.size(); ++i) {
    text += (i == 0 ? "(" : ", ") + atom.args[i].to_string();
  }
  if (atom.divisor != 0) text += fmt::format(", {}", atom.divisor);
  return text + ")";
}

// The order a person would write: what is added before what is taken away, high degrees and large
// factors first.
bool written_before(const Term& a, const Term& b) {
  if ((a.coefficient > 0) != (b.coefficient > 0)) return a.coefficient > 0;
  if (a.monomial.size() != b.monomial.size()) return a.monomial.size() > b.monomial.size();
  if (a.coefficient != b.coefficient) return (a.coefficient > b.coefficient) == (a.coefficient > 0);
  return sym::compare(a.monomial, b.monomial) < 0;
}

class Parser {
 public:
  Parser(std::string_view text, const Location& where) : text_(text), where_(where) {}

  Result<SymExpr> parse() {
    GM_ASSIGN(SymExpr e, sum(0));
    skip_space();
    if (at_ < text_.size()) return fault("expected an operator or the end, found {}", found());
    return e;
  }

 private:
  template <class... A>
  Error fault(fmt::format_string<A...> format, A&&... args) {
    Location where = where_;
    if (where.line > 0 && where.column > 0) where.column += static_cast<int>(at_);
    std::string shown;
    for (const char c : text_.substr(0, 80)) shown += c >= 0x20 && c <= 0x7e ? c : '?';
    if (text_.size() > 80) shown += "...";
    return err(Code::sym_syntax, std::move(where),
               "write integers, symbols, + - * and ceildiv, floordiv, mod, min or max of two, such "
               "as ceildiv(tokens, 4) + 1",
               "{}, at character {} of \"{}\"", fmt::format(format, std::forward<A>(args)...),
               at_ + 1, shown);
  }

  std::string found() const {
    if (at_ >= text_.size()) return "the end";
    const char c = text_[at_];
    return c >= 0x20 && c <= 0x7e ? fmt::format("'{}'", c)
                                  : fmt::format("byte {:#04x}", static_cast<unsigned char>(c));
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<> expect(char c) {
    if (accept(c)) return {};
    return fault("expected '{}', found {}", c, found());
  }

  // Checked after each operation, so that the error points at the place where it became too much.
  Result<SymExpr> checked(SymExpr e) {
    if (e.is_too_large()) return fault("the expression is too large");
    return e;
  }

  Result<SymExpr> sum(int depth) {
    if (depth > kMaxNesting) return fault("nested deeper than {} levels", kMaxNesting);
    GM_ASSIGN(SymExpr total, product(depth));
    for (;;) {
      if (accept('+')) {
        GM_ASSIGN(const SymExpr next, product(depth));
        GM_ASSIGN(total, checked(total + next));
      } else if (accept('-')) {
        GM_ASSIGN(const SymExpr next, product(depth));
        GM_ASSIGN(total, checked(total - next));
      } else {
        return total;
      }
    }
  }

  Result<SymExpr> product(int depth) {
    GM_ASSIGN(SymExpr total, factor(depth));
    while (accept('*')) {
      GM_ASSIGN(const SymExpr next, factor(depth));
      GM_ASSIGN(total, checked(total * next));
    }
    return total;
  }

  Result<SymExpr> factor(int depth) {
    bool negative = false;
    while (accept('-'))
      negative = !negative;  // not by recursion: a text may hold a million of them
    GM_ASSIGN(SymExpr value, primary(depth));
    return negative ? checked(SymExpr(-1) * value) : value;
  }

  Result<SymExpr> primary(int depth) {
    skip_space();
    if (accept('(')) {
      GM_ASSIGN(SymExpr inner, sum(depth + 1));
      GM_TRY(expect(')'));
      return inner;
    }
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (is_digit(c)) return literal();
    if (!is_name_start(c)) return fault("expected a number, a symbol or '(', found {}", found());
    const size_t start = at_;
    while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string_view name = text_.substr(start, at_ - start);
    if (accept('(')) return call(name, start, depth);
    return SymExpr::symbol(name);
  }

  Result<SymExpr> literal() {
    const size_t start = at_;
    int64_t value = 0;
    while (at_ < text_.size() && is_digit(text_[at_])) {
      value = value * 10 + (text_[at_] - '0');
      if (value > kMaxLiteral) {
        at_ = start;
        return fault("the number is larger than {}", kMaxLiteral);
      }
      ++at_;
    }
    return SymExpr(value);
  }

  Result<SymExpr> call(std::string_view name, size_t start, int depth) {
    std::vector<SymExpr> args;
    size_t last_start = at_;
    for (bool more = !accept(')'); more;) {
      skip_space();
      last_start = at_;
      GM_ASSIGN(SymExpr arg, sum(depth + 1));
      args.push_back(std::move(arg));
      more = accept(',');
      if (!more) GM_TRY(expect(')'));
    }
    const auto wrong_count = [&](std::string_view wanted) {
      at_ = start;
      return fault("{} takes {} arguments, found {}", name, wanted, args.size());
    };
    for (const AtomKind kind : {AtomKind::min, AtomKind::max}) {
      if (name != function_name(kind)) continue;
      if (args.size() < 2) return wrong_count("two or more");
      SymExpr result = args[0];
      for (size_t i = 1; i < args.size(); ++i) {
        GM_ASSIGN(result, checked(kind == AtomKind::min ? SymExpr::min(result, args[i])
                                                        : SymExpr::max(result, args[i])));
      }
      return result;
    }
    for (const AtomKind kind : {AtomKind::ceildiv, AtomKind::floordiv, AtomKind::mod}) {
      if (name != function_name(kind)) continue;
      if (args.size() != 2) return wrong_count("two");
      const std::optional<int64_t> divisor = args[1].constant();
      if (!divisor || *divisor <= 0) {
        at_ = last_start;
        return fault("the divisor of {} must be a positive constant", name);
      }
      return checked(sym::apply(Atom{kind, {}, {}, *divisor}, {args[0]}));
    }
    at_ = start;
    return fault("unknown function {}; there are ceildiv, floordiv, mod, min and max", name);
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }

  std::string_view text_;
  const Location& where_;
  size_t at_ = 0;
};

}  // namespace

std::string_view to_string(SymRole role) {
  switch (role) {
    case SymRole::tokens:
      return "tokens";
    case SymRole::seqs:
      return "seqs";
    case SymRole::rows:
      return "rows";
    case SymRole::context:
      return "context";
    case SymRole::pages:
      return "pages";
    case SymRole::slots:
      return "slots";
    case SymRole::constant:
      return "constant";
    case SymRole::loop:
      return "loop";
  }
  return "?";
}

std::string SymExpr::to_string() const {
  if (is_too_large()) return "too_large()";  // no function that parse() knows
  if (node_->terms.empty()) return "0";
  std::vector<Term> order = node_->terms;
  // The constant, if there is one, is first here; it is written last, unless all else is negative
  // ("4 - m").
  const auto first = order.begin() + (order[0].monomial.empty() ? 1 : 0);
  std::sort(first, order.end(), written_before);
  if (first != order.begin() && first != order.end() &&
      (order[0].coefficient < 0 || first->coefficient > 0)) {
    std::rotate(order.begin(), first, order.end());
  }
  std::string text;
  for (const Term& term : order) {
    const bool negative = term.coefficient < 0;
    if (text.empty()) {
      if (negative) text += "-";
    } else {
      text += negative ? " - " : " + ";
    }
    // The magnitude of the least int64 has no int64.
    const uint64_t magnitude = negative ? uint64_t{0} - static_cast<uint64_t>(term.coefficient)
                                        : static_cast<uint64_t>(term.coefficient);
    std::string factors;
    for (const AtomRef& atom : term.monomial) {
      if (!factors.empty()) factors += "*";
      factors += atom_text(*atom);
    }
    if (factors.empty()) {
      text += fmt::format("{}", magnitude);
    } else if (magnitude != 1) {
      text += fmt::format("{}*{}", magnitude, factors);
    } else {
      text += factors;
    }
  }
  return text;
}

Result<SymExpr> SymExpr::parse(std::string_view text, const Location& where) {
  return Parser(text, where).parse();
}

}  // namespace gm
