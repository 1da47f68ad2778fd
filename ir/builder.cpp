#include <algorithm>

#include "ir/opdef.h"

namespace gm {

std::string BlockBuilder::fresh(std::string_view base) {
  const auto [first, added] = used_.try_emplace(std::string(base), 1);
  if (added) return first->first;
  // A name made here may have been asked for as a base before, so look, and mark it as taken.
  for (;;) {
    std::string name = fmt::format("{}_{}", base, first->second++);
    if (used_.try_emplace(name, 1).second) return name;
  }
}

Axis BlockBuilder::axis(std::string_view base, SymExpr extent) {
  std::string name = fresh(base);
  axes_.emplace(name, extent);
  return {std::move(name), std::move(extent)};
}

const SymExpr* BlockBuilder::axis_extent(std::string_view name) const {
  const auto found = axes_.find(name);
  return found == axes_.end() ? nullptr : &found->second;
}

bool BlockBuilder::is_open(uint32_t scope) const {
  return std::find(open_.begin(), open_.end(), scope) != open_.end();
}

std::string BlockBuilder::tile(std::string_view base, std::vector<Axis> axes, Expr value) {
  std::string name = fresh(base);
  stack_.back().push_back({TileStmt{name, std::move(axes), std::move(value)}});
  return name;
}

std::string BlockBuilder::reduce(std::string_view base, std::vector<Axis> axes, Axis over,
                                 ReduceOp op, ReduceOrder order, Expr a, Expr b) {
  GM_CHECK((op == ReduceOp::dot) == static_cast<bool>(b), "a dot has two values, all others one");
  std::string name = fresh(base);
  stack_.back().push_back(
      {ReduceStmt{name, std::move(axes), std::move(over), op, order, std::move(a), std::move(b)}});
  return name;
}

void BlockBuilder::update(const std::string& tile, std::vector<Axis> axes,
                          std::vector<Expr> indices, Expr value) {
  stack_.back().push_back(
      {UpdateStmt{tile, std::move(axes), std::move(indices), std::move(value)}});
}

void BlockBuilder::store(std::string buffer, std::vector<Axis> axes, std::vector<Expr> indices,
                         Expr value) {
  stack_.back().push_back(
      {StoreStmt{std::move(buffer), std::move(axes), std::move(indices), std::move(value)}});
}

SymExpr BlockBuilder::let(std::string_view base, SymExpr lo, SymExpr hi, Expr value) {
  std::string name = fresh(base);
  SymExpr symbol = SymExpr::symbol(name);
  stack_.back().push_back(
      {LetStmt{std::move(name), std::move(lo), std::move(hi), std::move(value)}});
  return symbol;
}

void BlockBuilder::loop(std::string_view base, Expr lo, Expr hi,
                        const std::function<void(SymExpr)>& body) {
  std::string name = fresh(base);
  stack_.emplace_back();
  open_.push_back(++scopes_);
  body(SymExpr::symbol(name));
  Block block = std::move(stack_.back());
  stack_.pop_back();
  open_.pop_back();
  stack_.back().push_back(
      {ForStmt{std::move(name), std::move(lo), std::move(hi), std::move(block)}});
}

void BlockBuilder::when(Expr condition, const std::function<void()>& body) {
  stack_.emplace_back();
  open_.push_back(++scopes_);
  body();
  Block block = std::move(stack_.back());
  stack_.pop_back();
  open_.pop_back();
  stack_.back().push_back({IfStmt{std::move(condition), std::move(block)}});
}

Block BlockBuilder::take() {
  GM_CHECK(stack_.size() == 1, "a block is taken inside of {} open ones", stack_.size() - 1);
  Block block = std::move(stack_.back());
  stack_.back().clear();
  return block;
}

Expr at(const std::string& tile, std::vector<Expr> indices, ScalarType type) {
  return Expr::tile(tile, std::move(indices), type);
}

}  // namespace gm
