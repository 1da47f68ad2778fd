#include "codegen/cpu/common_work.h"

#include <algorithm>
#include <set>

namespace gm::cpu {
namespace {

bool mentions(const SymExpr& e, const std::string& symbol) {
  const std::vector<std::string> symbols = e.symbols();
  return std::ranges::find(symbols, symbol) != symbols.end();
}

bool reads(const Expr& e, const std::string& symbol) {
  bool found = false;
  if (e)
    visit_nodes(e, [&](const Expr& node) {
      found |= node->kind == ExprKind::index && mentions(node->sym, symbol);
    });
  return found;
}

// Whether a statement writes tiles alone, and nothing in it depends on the symbol.
bool is_common(const Stmt& stmt, const std::string& symbol) {
  const auto extents = [&](std::span<const Axis> axes) {
    return std::ranges::any_of(axes, [&](const Axis& a) { return mentions(a.extent, symbol); });
  };
  const auto body = [&](const Block& block) {
    return std::ranges::all_of(block, [&](const Stmt& s) { return is_common(s, symbol); });
  };
  if (const auto* s = std::get_if<TileStmt>(&stmt.node))
    return !extents(s->axes) && !reads(s->value, symbol);
  if (const auto* s = std::get_if<ReduceStmt>(&stmt.node))
    return !extents(s->axes) && !mentions(s->over.extent, symbol) && !reads(s->a, symbol) &&
           !reads(s->b, symbol);
  if (const auto* s = std::get_if<UpdateStmt>(&stmt.node)) {
    return !extents(s->axes) && !reads(s->value, symbol) &&
           std::ranges::none_of(s->indices, [&](const Expr& e) { return reads(e, symbol); });
  }
  if (const auto* s = std::get_if<ForStmt>(&stmt.node))
    return !reads(s->lo, symbol) && !reads(s->hi, symbol) && body(s->body);
  if (const auto* s = std::get_if<IfStmt>(&stmt.node))
    return !reads(s->condition, symbol) && body(s->body);
  return false;
}

// The tiles that statements overwrite elements of.
void add_updated(std::span<const Stmt> statements, std::set<std::string>& tiles) {
  for (const Stmt& stmt : statements) {
    if (const auto* update = std::get_if<UpdateStmt>(&stmt.node)) tiles.insert(update->tile);
    if (const auto* loop = std::get_if<ForStmt>(&stmt.node)) add_updated(loop->body, tiles);
    if (const auto* guard = std::get_if<IfStmt>(&stmt.node)) add_updated(guard->body, tiles);
  }
}

const std::string* defined_tile(const Stmt& stmt) {
  if (const auto* tile = std::get_if<TileStmt>(&stmt.node)) return &tile->tile;
  if (const auto* reduce = std::get_if<ReduceStmt>(&stmt.node)) return &reduce->tile;
  return nullptr;
}

}  // namespace

size_t common_statements(const Part& part) {
  if (part.grid.size() < 2) return 0;
  size_t count = 0;
  while (count < part.body.size() && is_common(part.body[count], part.grid.back().name)) ++count;
  // A tile that later statements overwrite is new for each work item.
  for (bool again = true; again;) {
    again = false;
    std::set<std::string> updated;
    add_updated(std::span(part.body).subspan(count), updated);
    for (size_t i = 0; i < count && !again; ++i) {
      const std::string* tile = defined_tile(part.body[i]);
      again = tile != nullptr && updated.contains(*tile);
      if (again) count = i;
    }
  }
  return count;
}

}  // namespace gm::cpu
