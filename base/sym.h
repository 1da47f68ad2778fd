// Symbolic integers: dims of tensors, loop bounds and the affine part of every index. A SymExpr is
// an immutable integer polynomial over named symbols and the opaque functions ceildiv, floordiv,
// mod, min and max, kept in one canonical order, so that two equal polynomials print alike and
// compare equal. Questions are three-valued: `unknown` is an answer, never a guess. There is no
// solver: bounds follow from the symbols' ranges, divisibility from their multiples.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diag.h"

namespace gm {

enum class Truth : uint8_t { no, yes, unknown };

// What a symbol stands for; `loop` symbols are the axes of L2 kernels and may have symbolic bounds.
enum class SymRole : uint8_t { tokens, seqs, rows, context, pages, slots, constant, loop };
std::string_view to_string(SymRole role);

// A closed interval; a missing end is unbounded.
struct SymRange {
  std::optional<int64_t> lo, hi;
  bool operator==(const SymRange&) const = default;
};

class SymExpr {
 public:
  SymExpr() : SymExpr(0) {}
  SymExpr(int64_t value);  // implicit on purpose: `tokens * 4 + 1`
  static SymExpr symbol(std::string_view name);
  // The divisors of ceildiv, floordiv and mod are positive constants.
  static SymExpr ceildiv(const SymExpr& a, int64_t b);
  static SymExpr floordiv(const SymExpr& a, int64_t b);
  static SymExpr mod(const SymExpr& a, int64_t b);
  static SymExpr min(const SymExpr& a, const SymExpr& b);
  static SymExpr max(const SymExpr& a, const SymExpr& b);

  friend SymExpr operator+(const SymExpr& a, const SymExpr& b);
  friend SymExpr operator-(const SymExpr& a, const SymExpr& b);
  friend SymExpr operator*(const SymExpr& a, const SymExpr& b);

  // Arithmetic that leaves int64, or passes a limit on the size (1024 terms, degree 12, 64 arms),
  // gives the one expression "too large", and everything computed from it is that again: it has no
  // value, no range and no symbols, no question about it has an answer but `unknown`, and parse()
  // reports it as an error. So hostile text is never more than an error, and no wrong number comes
  // out.
  bool is_too_large() const;

  std::optional<int64_t> constant() const;       // the value, if it is one
  std::optional<std::string> as_symbol() const;  // the name, if it is exactly one symbol
  // Names of all symbols in it, also inside the opaque functions; sorted, each once.
  std::vector<std::string> symbols() const;
  bool uses(std::string_view name) const;

  // If the expression is c*name + rest with a constant c and `rest` free of `name` (also inside
  // opaque functions): {c, rest}. c is 0 when `name` does not occur. Nothing if it occurs in
  // another way.
  struct Linear;
  std::optional<Linear> linear_in(std::string_view name) const;

  // If the whole expression is one min(...) or max(...): its two arms.
  std::optional<std::pair<SymExpr, SymExpr>> min_arms() const;
  std::optional<std::pair<SymExpr, SymExpr>> max_arms() const;

  SymExpr substitute(const std::map<std::string, SymExpr, std::less<>>& values) const;
  // The value under an assignment of every symbol; nothing if a symbol is missing or the result
  // leaves int64.
  std::optional<int64_t> evaluate(const std::map<std::string, int64_t, std::less<>>& values) const;

  // Canonical text, parsed back by parse(): "tokens", "4*tb + m", "ceildiv(tokens, 4)", "min(4,
  // tokens - 4*tb)". Names are [A-Za-z_][A-Za-z0-9_]*. Refused: integers over 2^40, nesting over
  // 64, divisors that are not positive constants. With a `where` of a text, errors point at the
  // column in it; text starts at where.column.
  std::string to_string() const;
  static Result<SymExpr> parse(std::string_view text, const Location& where = {});

  // Structural: equal canonical forms. The order is total, by structure alone (never by address).
  bool operator==(const SymExpr& other) const;
  std::strong_ordering operator<=>(const SymExpr& other) const;

  struct Node;  // base/sym_node.h

 private:
  explicit SymExpr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
  friend struct SymAccess;
};

struct SymExpr::Linear {
  int64_t coefficient;
  SymExpr rest;
};

// What is known of one symbol. Bounds may be symbolic (over symbols declared before it): hi is
// inclusive.
struct SymInfo {
  std::string name;
  SymRole role = SymRole::constant;
  SymExpr lo = 0;
  std::optional<SymExpr> hi;  // nothing: unbounded
  int64_t multiple_of = 1;
  bool operator==(const SymInfo&) const = default;
};

// The declared symbols, in order, and the questions that can be asked about expressions over them.
class SymTable {
 public:
  // The name must be new: GM_CHECK (parsers ask find() first). Symbols that a bound uses but that
  // are declared later or never count as unbounded.
  void declare(SymInfo info);
  // Takes back the last declaration (scopes of L2 loops).
  void pop();
  const SymInfo* find(std::string_view name) const;
  std::span<const SymInfo> symbols() const { return symbols_; }

  // What holds for all values of the symbols within their declared ranges: `yes` when always true,
  // `no` when never, `unknown` when neither is proven. Symbols that are not declared are unbounded.
  SymRange range(const SymExpr& e) const;
  Truth divides(int64_t k, const SymExpr& e) const;  // k > 0
  Truth provably_equal(const SymExpr& a, const SymExpr& b) const;
  Truth provably_le(const SymExpr& a, const SymExpr& b) const;
  Truth provably_lt(const SymExpr& a, const SymExpr& b) const { return provably_le(a + 1, b); }

  bool operator==(const SymTable&) const = default;

 private:
  std::vector<SymInfo> symbols_;
};

}  // namespace gm
