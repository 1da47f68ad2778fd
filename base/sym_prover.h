// Bounds of symbolic expressions over declared symbols; the working half of SymTable.
//
// The least value of e is sought by making e smaller, point by point, until a constant is left: the
// innermost symbol v of a term C*v is replaced by its lower bound where C >= 0 and by its upper
// bound where C <= 0, and an opaque function by what bounds it. Each step holds at every point of
// the domain, so the answer is always a bound; it need not be the best one. Where there is a choice
// (an arm of a min), each is tried and the best result kept, within a budget.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/sym_node.h"

namespace gm {

class SymProver {
 public:
  explicit SymProver(std::span<const SymInfo> symbols);

  // The form the questions below expect: a symbol that is a multiple of k becomes k times a symbol
  // of its own, and ceildiv becomes floordiv.
  SymExpr prepare(const SymExpr& e) const;
  // mod(x, c) becomes x - c*floordiv(x, c), unless mods stand too deep inside each other.
  SymExpr expand_mods(const SymExpr& e) const;

  // Bounds of a prepared expression; nothing if none was found.
  std::optional<int64_t> lower(const SymExpr& e) const;
  std::optional<int64_t> upper(const SymExpr& e) const;

 private:
  struct Search;
  struct Target;

  struct Declared {
    std::string name;
    SymExpr lo;
    std::optional<SymExpr> hi;
    SymRange range;  // by intervals alone
  };

  int index_of(std::string_view name) const;  // -1: not declared
  int rank_of(const Atom& atom) const;        // the highest index in it
  SymRange interval(const SymExpr& e) const;
  SymRange interval(const Atom& atom) const;
  std::optional<int64_t> lower(const SymExpr& e, Search& search, int depth) const;
  std::optional<int64_t> eliminate(const Target& target, Search& search, int depth,
                                   bool& applicable) const;
  std::vector<Target> targets(const SymExpr& e) const;

  std::vector<Declared> declared_;
  std::map<std::string, SymExpr, std::less<>> scaling_;
};

}  // namespace gm
