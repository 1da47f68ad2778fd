// What is known of the indices of a kernel at one place in it: symbols with their bounds, and facts
// that conditions established. Loaded indices become symbols too, named by their own text
// (`%slot[s]`), with the range of their contract: equal loads are then equal symbols. Inside ir/
// only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/tile.h"

namespace gm {

class Proof {
 public:
  explicit Proof(const Kernel& kernel);

  bool declared(std::string_view name) const { return symbols_.find(name) != nullptr; }
  void declare(std::string name, SymExpr lo, std::optional<SymExpr> hi);
  // Bounds of the elements of an integer tile (inclusive). A `changing` tile is one that is
  // updated: two reads of it may differ, and nothing is known of them.
  void declare_tile(std::string name, SymExpr lo, std::optional<SymExpr> hi, bool changing);
  // The condition holds (or does not) from here on.
  void assume(const Expr& condition, bool holds);

  // Everything since the mark is forgotten by `release`.
  struct Mark {
    size_t symbols, facts, tiles;
  };
  Mark mark() const { return {symbols_.symbols().size(), facts_.size(), tiles_.size()}; }
  void release(const Mark& mark);

  // The value of an index expression as a polynomial, with symbols for what is loaded.
  SymExpr to_sym(const Expr& e);

  bool not_negative(const SymExpr& e) const;
  bool at_most(const SymExpr& a, const SymExpr& b) const { return not_negative(b - a); }
  bool equal(const SymExpr& a, const SymExpr& b) const;
  SymRange range(const SymExpr& e) const { return tightened().range(e); }

 private:
  struct TileBounds {
    std::string name;
    SymExpr lo;
    std::optional<SymExpr> hi;
    bool changing;
  };

  const SymTable& tightened() const;
  SymExpr load_symbol(const Expr& load);
  void fact(SymExpr e);  // e >= 0

  const Kernel& kernel_;
  SymTable symbols_;
  std::vector<SymExpr> facts_;
  std::vector<TileBounds> tiles_;
  int occurrences_ = 0;
  mutable std::optional<SymTable> tightened_;
};

}  // namespace gm
