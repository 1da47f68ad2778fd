#include "ir/tile_proof.h"

#include "ir/tile_text.h"

namespace gm {

Proof::Proof(const Kernel& kernel) : kernel_(kernel), symbols_(kernel.symbols) {}

void Proof::declare(std::string name, SymExpr lo, std::optional<SymExpr> hi) {
  symbols_.declare({std::move(name), SymRole::loop, std::move(lo), std::move(hi), 1});
  tightened_.reset();
}

void Proof::declare_tile(std::string name, SymExpr lo, std::optional<SymExpr> hi, bool changing) {
  tiles_.push_back({std::move(name), std::move(lo), std::move(hi), changing});
}

void Proof::release(const Mark& mark) {
  while (symbols_.symbols().size() > mark.symbols) symbols_.pop();
  facts_.resize(mark.facts);
  tiles_.erase(tiles_.begin() + static_cast<std::ptrdiff_t>(mark.tiles), tiles_.end());
  tightened_.reset();
}

void Proof::fact(SymExpr e) {
  if (e.is_too_large() || e.constant()) return;
  facts_.push_back(std::move(e));
  tightened_.reset();
}

void Proof::assume(const Expr& condition, bool holds) {
  if (condition->kind == ExprKind::unary && condition->unary_op == UnaryOp::logical_not) {
    assume(condition->args[0], !holds);
    return;
  }
  if (condition->kind != ExprKind::binary) return;
  const Expr& a = condition->args[0];
  const Expr& b = condition->args[1];
  switch (condition->binary_op) {
    case BinaryOp::logical_and:
    case BinaryOp::logical_or:
      if (holds == (condition->binary_op == BinaryOp::logical_and)) {
        assume(a, holds);
        assume(b, holds);
      }
      return;
    case BinaryOp::lt:
    case BinaryOp::le:
    case BinaryOp::eq:
      break;
    default:
      return;
  }
  if (a.type() != ScalarType::index) return;
  const SymExpr x = to_sym(a);
  const SymExpr y = to_sym(b);
  const bool strict = condition->binary_op == BinaryOp::lt;
  if (condition->binary_op == BinaryOp::eq) {
    if (!holds) return;
    fact(x - y);
    fact(y - x);
  } else if (holds) {
    fact(y - x - (strict ? 1 : 0));
  } else {
    fact(x - y - (strict ? 0 : 1));
  }
}

SymExpr Proof::load_symbol(const Expr& load) {
  std::string name = print_value(load);
  const Param* param = kernel_.find_param(load->name);
  if (param && param->access != Access::read) name += fmt::format("#{}", ++occurrences_);
  if (declared(name)) return SymExpr::symbol(name);
  SymExpr lo = std::numeric_limits<int32_t>::min();
  std::optional<SymExpr> hi = std::numeric_limits<int32_t>::max();
  if (param && param->dtype == DType::i8) {
    lo = -128;
    hi = 127;
  }
  if (!param || !param->contract) {
    declare(name, std::move(lo), std::move(hi));
    return SymExpr::symbol(name);
  }
  const Contract& contract = *param->contract;
  lo = contract.masked ? SymExpr::min(contract.lo, -1) : contract.lo;
  if (contract.hi) hi = *contract.hi - 1;
  if (contract.monotone && contract.total) {
    hi = hi ? SymExpr::min(*hi, *contract.total) : *contract.total;
  }
  if (contract.monotone && load->args.size() == 1) {
    // Sequence starts ascend: what is known of other elements bounds this one.
    const SymExpr at = to_sym(load->args[0]);
    const std::string prefix = "%" + load->name + "[";
    std::vector<std::string> others;
    for (const SymInfo& info : symbols_.symbols()) {
      if (info.name.starts_with(prefix)) others.push_back(info.name);
    }
    for (const std::string& other : others) {
      const auto where = SymExpr::parse(
          std::string_view(other).substr(prefix.size(), other.size() - prefix.size() - 1));
      if (!where) continue;
      const SymExpr value = SymExpr::symbol(other);
      if (at_most(*where, at)) lo = SymExpr::max(lo, value);
      if (at_most(at, *where)) hi = hi ? SymExpr::min(*hi, value) : value;
    }
  }
  declare(name, std::move(lo), std::move(hi));
  return SymExpr::symbol(name);
}

SymExpr Proof::to_sym(const Expr& e) {
  if (const auto sym = e.as_sym()) return *sym;
  switch (e->kind) {
    case ExprKind::load:
      return load_symbol(e);
    case ExprKind::tile: {
      std::string name = print_value(e);
      const TileBounds* bounds = nullptr;
      for (const TileBounds& tile : tiles_) {
        if (tile.name == e->name) bounds = &tile;
      }
      if (!bounds || bounds->changing) {
        name += fmt::format("#{}", ++occurrences_);
        declare(name, std::numeric_limits<int64_t>::min(), std::nullopt);
      } else if (!declared(name)) {
        declare(name, bounds->lo, bounds->hi);
      }
      return SymExpr::symbol(name);
    }
    case ExprKind::binary: {
      const SymExpr a = to_sym(e->args[0]);
      const SymExpr b = to_sym(e->args[1]);
      switch (e->binary_op) {
        case BinaryOp::add:
          return a + b;
        case BinaryOp::sub:
          return a - b;
        case BinaryOp::mul:
          return a * b;
        case BinaryOp::min:
          return SymExpr::min(a, b);
        case BinaryOp::max:
          return SymExpr::max(a, b);
        case BinaryOp::floordiv:
          return SymExpr::floordiv(a, b.constant().value_or(1));
        case BinaryOp::mod:
          return SymExpr::mod(a, b.constant().value_or(1));
        default:
          break;
      }
      break;
    }
    case ExprKind::select: {
      const std::string name = print_value(e);
      if (declared(name)) return SymExpr::symbol(name);
      SymExpr arms[2];
      SymExpr lowest[2];
      for (int i = 0; i < 2; ++i) {
        const SymExpr arm = to_sym(e->args[static_cast<size_t>(i) + 1]);
        arms[i] = lowest[i] = arm;
        // A fact holds in its arm only, so what it proves is put into the bound.
        const Mark before = mark();
        assume(e->args[0], i == 0);
        if (not_negative(arm)) lowest[i] = SymExpr::max(arm, 0);
        release(before);
      }
      declare(name, SymExpr::min(lowest[0], lowest[1]), SymExpr::max(arms[0], arms[1]));
      return SymExpr::symbol(name);
    }
    default:
      break;
  }
  GM_CHECK(false, "{} is no index", print_value(e));
}

const SymTable& Proof::tightened() const {
  if (tightened_) return *tightened_;
  std::vector<SymInfo> infos(symbols_.symbols().begin(), symbols_.symbols().end());
  for (const SymExpr& e : facts_) {
    // The fact bounds its innermost symbol by the others.
    for (size_t i = infos.size(); i-- > 0;) {
      if (!e.uses(infos[i].name)) continue;
      if (const auto linear = e.linear_in(infos[i].name); linear && linear->coefficient != 0) {
        const int64_t c = linear->coefficient;
        if (c > 0) {
          infos[i].lo = SymExpr::max(infos[i].lo, SymExpr::ceildiv(SymExpr(0) - linear->rest, c));
        } else if (c > std::numeric_limits<int64_t>::min()) {
          const SymExpr hi = SymExpr::floordiv(linear->rest, -c);
          infos[i].hi = infos[i].hi ? SymExpr::min(*infos[i].hi, hi) : hi;
        }
      }
      break;
    }
  }
  tightened_.emplace();
  for (SymInfo& info : infos) tightened_->declare(std::move(info));
  return *tightened_;
}

bool Proof::not_negative(const SymExpr& e) const {
  if (e.is_too_large()) return false;
  const SymTable& table = tightened();
  if (table.provably_le(0, e) == Truth::yes) return true;
  for (const SymExpr& known : facts_) {
    if (table.provably_le(known, e) == Truth::yes) return true;
  }
  return false;
}

bool Proof::equal(const SymExpr& a, const SymExpr& b) const {
  return !a.is_too_large() && !b.is_too_large() && tightened().provably_equal(a, b) == Truth::yes;
}

}  // namespace gm
