// The walk over a kernel: names, types, scopes, bounds of every index, sizes of tiles.
#include "ir/tile_verify.h"

#include <algorithm>
#include <bit>
#include <set>

#include "ir/lexer.h"
#include "ir/tile_text.h"

namespace gm {
namespace {

struct TileInfo {
  std::string name;
  std::vector<SymExpr> shape;
  ScalarType type{};
};

constexpr int kMaxNesting = 64;

class Walk {
 public:
  Walk(const Kernel& kernel, int64_t resident_bytes)
      : kernel_(kernel), resident_limit_(resident_bytes), proof_(kernel) {}

  Result<> run() {
    path_ = {"@" + kernel_.name};
    here_ = kernel_.location;
    GM_TRY(verify_declarations(kernel_));
    std::set<std::string> names;
    for (size_t i = 0; i < kernel_.parts.size(); ++i) {
      const Part& part = kernel_.parts[i];
      part_ = i;
      path_ = {"@" + kernel_.name, part.name};
      here_ = kernel_.location;
      if (!names.insert(part.name).second) {
        return fail(Code::tile_name, "name the parts apart", "the part '{}' is there twice",
                    part.name);
      }
      GM_TRY(check_part(part));
    }
    for (const Param& param : kernel_.params) {
      if (param.access == Access::read) continue;
      std::vector<StoreUse> stores;
      for (const StoreUse& use : stores_) {
        if (use.store->buffer == param.name) stores.push_back(use);
      }
      if (param.access == Access::read_write) GM_TRY(verify_no_race(param, stores, loads_));
      const bool scatter = param.residency == Residency::state;
      GM_TRY(scatter ? verify_scatter(kernel_, param, stores)
                     : verify_written_once(kernel_, param, stores));
    }
    return {};
  }

 private:
  Location where() const {
    Location location = here_;
    for (const std::string& step : path_) {
      if (!location.path.empty() && &step != &path_.front()) location.path += '/';
      location.path = &step == &path_.front() ? step : location.path + step;
    }
    return location;
  }

  template <class... A>
  Error fail(Code code, std::string fix, fmt::format_string<A...> text, A&&... args) const {
    return err(code, where(), std::move(fix), text, std::forward<A>(args)...);
  }

  Result<> known(const SymExpr& e) const {
    if (e.is_too_large())
      return fail(Code::tile_extent, "use smaller numbers", "an index expression is too large");
    for (const std::string& name : e.symbols()) {
      if (!proof_.declared(name)) {
        return fail(Code::tile_name, "declare it with 'symbol', or bind it by an axis or 'let'",
                    "the symbol '{}' is not defined here", name);
      }
    }
    return {};
  }

  Result<> dims_only(const SymExpr& e, std::string_view what) const {
    for (const std::string& name : e.symbols()) {
      if (!kernel_.symbols.find(name)) {
        return fail(Code::tile_name, "use declared symbols only", "{} uses '{}', which is no dim",
                    what, name);
      }
    }
    return {};
  }

  Result<> bind(const std::string& name, SymExpr lo, std::optional<SymExpr> hi) {
    if (proof_.declared(name)) {
      return fail(Code::tile_name, "choose another name", "the axis '{}' has the name of another",
                  name);
    }
    if (!is_name(name, true))
      return fail(Code::tile_name, "use letters, digits and '_'", "the axis '{}' has no name",
                  name);
    proof_.declare(name, std::move(lo), std::move(hi));
    return {};
  }

  Result<> bind_axis(const Axis& axis, AxisUse::Kind kind) {
    GM_TRY(known(axis.extent));
    if (!proof_.not_negative(axis.extent)) {
      auto error = fail(Code::tile_extent, "bound the extent below, with max(0, ...) if need be",
                        "the extent of '{}' may be negative", axis.name);
      return Error(std::move(error.error())
                       .note(fmt::format("cannot prove 0 <= {}", axis.extent.to_string())));
    }
    GM_TRY(bind(axis.name, 0, axis.extent - 1));
    axes_.push_back({kind, axis.name, axis.extent, {}, {}, {}, {}});
    return {};
  }

  Result<> check_part(const Part& part) {
    const auto mark = proof_.mark();
    axes_.clear();
    conditions_.clear();
    tiles_.clear();
    live_bytes_ = 0;
    changing_.clear();
    find_updates(part.body);
    for (const Axis& axis : part.grid) {
      GM_TRY(dims_only(axis.extent, "a grid"));
      GM_TRY(bind_axis(axis, AxisUse::Kind::grid));
    }
    GM_TRY(check_block(part.body, 0));
    proof_.release(mark);
    return {};
  }

  void find_updates(const Block& block) {
    for (const Stmt& stmt : block) {
      if (const auto* s = std::get_if<UpdateStmt>(&stmt.node)) changing_.insert(s->tile);
      if (const auto* s = std::get_if<ForStmt>(&stmt.node)) find_updates(s->body);
      if (const auto* s = std::get_if<IfStmt>(&stmt.node)) find_updates(s->body);
    }
  }

  static std::string title(const Stmt& stmt) {
    const std::string head = print_statement_head(stmt);
    size_t space = head.find(' ');
    if (std::holds_alternative<IfStmt>(stmt.node)) return head.substr(0, space);
    return head.substr(0, head.find_first_of(" [", space + 1));
  }

  Result<> check_block(const Block& block, int depth) {
    if (depth > kMaxNesting)
      return fail(Code::tile_extent, "nest less deeply", "statements are nested too deeply");
    const auto mark = proof_.mark();
    const size_t tiles = tiles_.size();
    const int64_t bytes = live_bytes_;
    const size_t outer_axes = axes_.size();
    const Location outer = here_;
    for (size_t i = 0; i < block.size(); ++i) {
      const Stmt& stmt = block[i];
      path_.push_back(fmt::format("stmt {} ({})", i + 1, title(stmt)));
      here_ = stmt.location;
      const size_t axes = axes_.size();
      GM_TRY(std::visit([&](const auto& s) { return check(s, depth); }, stmt.node));
      // A let stays bound to the end of the block.
      if (!std::holds_alternative<LetStmt>(stmt.node)) axes_.resize(axes);
      path_.pop_back();
    }
    here_ = outer;
    axes_.resize(outer_axes);
    tiles_.resize(tiles);
    live_bytes_ = bytes;
    proof_.release(mark);
    return {};
  }

  const TileInfo* find_tile(std::string_view name) const {
    for (size_t i = tiles_.size(); i-- > 0;) {
      if (tiles_[i].name == name) return &tiles_[i];
    }
    return nullptr;
  }

  // Every load and tile of an expression: names, ranks, types, bounds.
  Result<> check_expr(const Expr& e, std::set<const ExprNode*>& seen) {
    if (!e) return fail(Code::tile_type, "give it a value", "an expression is missing");
    if (!seen.insert(&*e).second) return {};
    if (e->kind == ExprKind::index) return known(e->sym);
    if (e->kind == ExprKind::select) {
      GM_TRY(check_expr(e->args[0], seen));
      // An arm may rely on the condition; what it proved holds nowhere else.
      for (int i = 0; i < 2; ++i) {
        const auto mark = proof_.mark();
        proof_.assume(e->args[0], i == 0);
        std::set<const ExprNode*> in_arm = seen;
        GM_TRY(check_expr(e->args[static_cast<size_t>(i) + 1], in_arm));
        proof_.release(mark);
      }
      return {};
    }
    for (const Expr& arg : e->args) GM_TRY(check_expr(arg, seen));
    if (e->kind == ExprKind::load) return check_load(e);
    if (e->kind != ExprKind::tile) return {};
    const TileInfo* tile = find_tile(e->name);
    if (!tile) {
      return fail(Code::tile_name, "define it before, in this block or one around it",
                  "the tile %{} is not defined here", e->name);
    }
    if (tile->type != e->type) {
      return fail(Code::tile_type, "read it as what it is", "the tile %{} is of {}, not of {}",
                  e->name, to_string(tile->type), to_string(e->type));
    }
    return check_indices(e->name, "tile", e->args, tile->shape);
  }

  Result<> check_load(const Expr& e) {
    const Param* param = kernel_.find_param(e->name);
    if (!param) {
      return fail(Code::tile_name, "declare it with 'param'", "the parameter %{} is not declared",
                  e->name);
    }
    if ((e->type == ScalarType::f32) != is_float(param->dtype)) {
      return fail(Code::tile_type, "load floats as f32 and integers as index",
                  "%{} is of {}, but is loaded as {}", e->name, to_string(param->dtype),
                  to_string(e->type));
    }
    if (param->access == Access::write) {
      return fail(Code::tile_access, "read the tile that was stored, or declare it 'read_write'",
                  "%{} is written by this kernel and may not be read", e->name);
    }
    GM_TRY(check_indices(e->name, "buffer", e->args, param->shape));
    if (param->access == Access::read_write) {
      LoadUse use{e, part_, {}, where()};
      for (const AxisUse& axis : axes_) {
        if (axis.kind == AxisUse::Kind::grid) use.grid_axes.push_back(axis.name);
      }
      loads_.push_back(std::move(use));
    }
    return {};
  }

  Result<> check_indices(std::string_view name, std::string_view what,
                         const std::vector<Expr>& indices, const std::vector<SymExpr>& shape) {
    if (indices.size() != shape.size()) {
      return fail(Code::tile_rank, fmt::format("give it {} indices", shape.size()),
                  "the {} %{} of rank {} is used with {} indices", what, name, shape.size(),
                  indices.size());
    }
    for (size_t i = 0; i < indices.size(); ++i) {
      const SymExpr at = proof_.to_sym(indices[i]);
      const bool below = !proof_.not_negative(at);
      if (!below && proof_.not_negative(shape[i] - 1 - at)) continue;
      const std::string text = print_index(indices[i]);
      const SymRange range = proof_.range(at);
      const auto end = [](const std::optional<int64_t>& value) {
        return value ? fmt::format("{}", *value) : "unbounded";
      };
      auto error = fail(Code::tile_bounds,
                        below ? "guard it with 'if le(index(0), ...)' or correct the index"
                              : "correct the index, or the axis it runs over",
                        "index {} of %{}, {}, may lie outside", i, name, text);
      return Error(std::move(error.error())
                       .note(below
                                 ? fmt::format("cannot prove 0 <= {}", text)
                                 : fmt::format("cannot prove {} < {}", text, shape[i].to_string()))
                       .note(fmt::format("known: {} to {}", end(range.lo), end(range.hi))));
    }
    return {};
  }

  Result<> check_value(const Expr& e, ScalarType type) {
    std::set<const ExprNode*> seen;
    GM_TRY(check_expr(e, seen));
    if (e.type() == type) return {};
    return fail(Code::tile_type, fmt::format("give it a value of {}", to_string(type)),
                "the value is of {}, but {} is needed", to_string(e.type()), to_string(type));
  }

  Result<> bind_axes(const std::vector<Axis>& axes) {
    for (const Axis& axis : axes) GM_TRY(bind_axis(axis, AxisUse::Kind::tile));
    return {};
  }

  Result<> define_tile(const std::string& name, const std::vector<Axis>& axes, ScalarType type) {
    if (find_tile(name) || kernel_.find_param(name)) {
      return fail(Code::tile_name, "choose another name", "the name %{} is in use here", name);
    }
    TileInfo tile{name, {}, type};
    __int128 bytes = type == ScalarType::f32 ? 4 : 8;
    for (const Axis& axis : axes) {
      tile.shape.push_back(axis.extent);
      for (const Axis& other : axes) {
        if (axis.extent.uses(other.name)) {
          return fail(Code::tile_extent, "use outer axes and symbols only",
                      "the extent of '{}' uses the axis '{}' of the same tile", axis.name,
                      other.name);
        }
      }
      if (resident_limit_ == 0) continue;
      const auto extent = proof_.range(axis.extent).hi;
      if (!extent) {
        return fail(Code::tile_resident, "bound the extent by min(...)",
                    "the extent {} of %{} has no upper bound", axis.extent.to_string(), name);
      }
      bytes = std::min<__int128>(bytes * std::max<int64_t>(*extent, 0), __int128{1} << 62);
    }
    tiles_.push_back(std::move(tile));
    if (resident_limit_ == 0) return {};
    live_bytes_ = static_cast<int64_t>(std::min<__int128>(live_bytes_ + bytes, __int128{1} << 62));
    if (live_bytes_ > resident_limit_) {
      return fail(Code::tile_resident, "use smaller tiles",
                  "with %{} the tiles take {} bytes, over the limit of {}", name, live_bytes_,
                  resident_limit_);
    }
    return {};
  }

  Result<> check(const TileStmt& s, int) {
    const auto mark = proof_.mark();
    GM_TRY(bind_axes(s.axes));
    if (!s.value) return fail(Code::tile_type, "give it a value", "a value is missing");
    const ScalarType type = s.value.type();
    if (type != ScalarType::f32 && type != ScalarType::index)
      return fail(Code::tile_type, "use f32 or index", "a tile of {}", to_string(type));
    GM_TRY(check_value(s.value, type));
    SymExpr lo = std::numeric_limits<int64_t>::min();
    std::optional<SymExpr> hi;
    if (type == ScalarType::index) {
      const SymExpr value = proof_.to_sym(s.value);
      const SymRange range = proof_.range(value);
      if (range.lo) lo = *range.lo;
      if (range.hi) hi = *range.hi;
    }
    proof_.release(mark);
    if (type == ScalarType::index && s.axes.empty()) {
      // A scalar is its value, with all that is known of it.
      lo = proof_.to_sym(s.value);
      hi = lo;
    }
    if (type == ScalarType::index)
      proof_.declare_tile(s.tile, std::move(lo), std::move(hi), changing_.contains(s.tile));
    return define_tile(s.tile, s.axes, type);
  }

  Result<> check(const UpdateStmt& s, int) {
    const TileInfo* tile = find_tile(s.tile);
    if (!tile) {
      return fail(Code::tile_name, "define it before, in this block or one around it",
                  "the tile %{} is not defined here", s.tile);
    }
    const std::vector<SymExpr> shape = tile->shape;
    const auto mark = proof_.mark();
    const size_t outer = axes_.size();
    GM_TRY(bind_axes(s.axes));
    std::set<const ExprNode*> seen;
    for (const Expr& index : s.indices) GM_TRY(check_expr(index, seen));
    GM_TRY(check_indices(s.tile, "tile", s.indices, shape));
    GM_TRY(check_value(s.value, tile->type));
    bool elsewhere = false;
    visit_nodes(s.value, [&](const Expr& e) {
      elsewhere |= e->kind == ExprKind::tile && e->name == s.tile && e->args != s.indices;
    });
    if (elsewhere) {
      return fail(Code::tile_update, "copy the tile before, or read the written element only",
                  "the update of %{} reads other elements of it", s.tile);
    }
    std::vector<SymExpr> at;
    for (const Expr& index : s.indices) at.push_back(proof_.to_sym(index));
    std::string repeats;
    const std::vector<AxisUse> own(axes_.begin() + static_cast<std::ptrdiff_t>(outer), axes_.end());
    if (!names_each_once(proof_, std::move(at), own, repeats)) {
      return fail(Code::tile_update, "let each axis move the element",
                  "the update of %{} may write an element twice, over '{}'", s.tile, repeats);
    }
    proof_.release(mark);
    return {};
  }

  Result<> check(const ReduceStmt& s, int) {
    const bool lanes = s.order.kind == ReduceOrder::Kind::lanes;
    if (s.order.size < 1 || s.order.size > (int64_t{1} << 30) ||
        (lanes && !std::has_single_bit(static_cast<uint64_t>(s.order.size)))) {
      return fail(Code::tile_order, "use a power of two for lanes, a positive block for chains",
                  "a reduction in the order '{} {}'", lanes ? "lanes" : "chain", s.order.size);
    }
    const auto mark = proof_.mark();
    GM_TRY(bind_axes(s.axes));
    GM_TRY(bind_axis(s.over, AxisUse::Kind::tile));
    GM_TRY(check_value(s.a, ScalarType::f32));
    if ((s.op == ReduceOp::dot) != static_cast<bool>(s.b)) {
      return fail(Code::tile_type, "give two values to dot, one to the others",
                  "a reduction has the wrong number of values");
    }
    if (s.b) GM_TRY(check_value(s.b, ScalarType::f32));
    proof_.release(mark);
    if (s.op != ReduceOp::argmax) return define_tile(s.tile, s.axes, ScalarType::f32);
    bool outer_only = true;
    for (const Axis& axis : s.axes) outer_only &= !s.over.extent.uses(axis.name);
    proof_.declare_tile(s.tile, 0, outer_only ? std::optional(s.over.extent - 1) : std::nullopt,
                        changing_.contains(s.tile));
    return define_tile(s.tile, s.axes, ScalarType::index);
  }

  Result<> check(const StoreStmt& s, int) {
    const Param* param = kernel_.find_param(s.buffer);
    if (!param) {
      return fail(Code::tile_name, "declare it with 'param'", "the parameter %{} is not declared",
                  s.buffer);
    }
    if (param->access == Access::read) {
      return fail(Code::tile_access, "declare it 'write' or 'read_write'",
                  "%{} is only read, but a store writes it", s.buffer);
    }
    const auto mark = proof_.mark();
    GM_TRY(bind_axes(s.axes));
    std::set<const ExprNode*> seen;
    for (const Expr& index : s.indices) GM_TRY(check_expr(index, seen));
    GM_TRY(check_indices(s.buffer, "buffer", s.indices, param->shape));
    GM_TRY(check_value(s.value, is_float(param->dtype) ? ScalarType::f32 : ScalarType::index));
    proof_.release(mark);
    stores_.push_back({&s, part_, axes_, conditions_, where()});
    return {};
  }

  Result<> check(const ForStmt& s, int depth) {
    GM_TRY(check_value(s.lo, ScalarType::index));
    GM_TRY(check_value(s.hi, ScalarType::index));
    const auto mark = proof_.mark();
    const SymExpr lo = proof_.to_sym(s.lo);
    const SymExpr hi = proof_.to_sym(s.hi);
    GM_TRY(bind(s.axis, lo, hi - 1));
    axes_.push_back({AxisUse::Kind::loop, s.axis, hi - lo, s.lo, s.hi, {}, {}});
    GM_TRY(check_block(s.body, depth + 1));
    proof_.release(mark);
    return {};
  }

  Result<> check(const IfStmt& s, int depth) {
    GM_TRY(check_value(s.condition, ScalarType::pred));
    const auto mark = proof_.mark();
    proof_.assume(s.condition, true);
    conditions_.push_back(s.condition);
    GM_TRY(check_block(s.body, depth + 1));
    conditions_.pop_back();
    proof_.release(mark);
    return {};
  }

  Result<> check(const LetStmt& s, int) {
    GM_TRY(known(s.lo));
    GM_TRY(known(s.hi));
    GM_TRY(check_value(s.value, ScalarType::index));
    const SymExpr value = proof_.to_sym(s.value);
    const bool low = proof_.at_most(s.lo, value);
    if (!low || !proof_.at_most(value, s.hi)) {
      auto error = fail(Code::tile_let, "widen the range, or give the load a contract",
                        "the value of '{}' may leave its range [{}, {}]", s.name, s.lo.to_string(),
                        s.hi.to_string());
      const std::string text = print_index(s.value);
      return Error(std::move(error.error())
                       .note(low ? fmt::format("cannot prove {} <= {}", text, s.hi.to_string())
                                 : fmt::format("cannot prove {} <= {}", s.lo.to_string(), text)));
    }
    GM_TRY(bind(s.name, SymExpr::max(value, s.lo), SymExpr::min(value, s.hi)));
    axes_.push_back({AxisUse::Kind::let, s.name, {}, s.value, {}, s.lo, s.hi});
    return {};
  }

  const Kernel& kernel_;
  const int64_t resident_limit_;
  Proof proof_;
  Location here_;
  std::vector<std::string> path_;
  size_t part_ = 0;
  std::vector<AxisUse> axes_;
  std::vector<Expr> conditions_;
  std::vector<TileInfo> tiles_;
  std::set<std::string, std::less<>> changing_;
  int64_t live_bytes_ = 0;
  std::vector<StoreUse> stores_;
  std::vector<LoadUse> loads_;
};

}  // namespace

Result<> verify_kernel(const Kernel& kernel, int64_t resident_bytes) {
  return Walk(kernel, resident_bytes).run();
}

}  // namespace gm
