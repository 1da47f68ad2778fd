// Kernels as text. Everything is printed in one way, so that text is comparable and reads back as
// the same kernel.
#include <fmt/format.h>

#include "ir/lexer.h"
#include "ir/tile.h"
#include "ir/tile_text.h"

namespace gm {
namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

template <class List, class Print>
std::string join(const List& list, Print print) {
  std::string text;
  for (const auto& item : list) {
    if (!text.empty()) text += ", ";
    text += print(item);
  }
  return text;
}

std::string bracketed(const std::vector<Expr>& indices) {
  return indices.empty() ? "" : fmt::format("[{}]", join(indices, print_index));
}

// Binding strength of an index as printed: sums bind loosest, then products, then all that needs no
// parentheses.
enum class Strength { sum, product, atom };

Strength strength_of(const SymExpr& e, const std::string& text) {
  if (e.as_symbol()) return Strength::atom;
  if (const auto value = e.constant()) return *value < 0 ? Strength::sum : Strength::atom;
  int depth = 0;
  bool product = text.front() == '-';
  bool sum = product;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth != 0) continue;
    sum |= c == '+' || c == '-';
    product |= c == '*';
  }
  return sum ? Strength::sum : product ? Strength::product : Strength::atom;
}

std::string infix(const Expr& e, Strength at_least);

std::pair<std::string, Strength> infix_text(const Expr& e) {
  if (const auto sym = e.as_sym()) {
    std::string text = sym->to_string();
    const Strength strength = strength_of(*sym, text);
    return {std::move(text), strength};
  }
  if (e->kind != ExprKind::binary) return {print_value(e), Strength::atom};
  const Expr& a = e->args[0];
  const Expr& b = e->args[1];
  switch (e->binary_op) {
    case BinaryOp::add:
      return {fmt::format("{} + {}", infix(a, Strength::sum), infix(b, Strength::product)),
              Strength::sum};
    case BinaryOp::sub:
      return {fmt::format("{} - {}", infix(a, Strength::sum), infix(b, Strength::product)),
              Strength::sum};
    case BinaryOp::mul:
      return {fmt::format("{}*{}", infix(a, Strength::product), infix(b, Strength::atom)),
              Strength::product};
    default:
      return {fmt::format("{}({}, {})", to_string(e->binary_op), infix(a, Strength::sum),
                          infix(b, Strength::sum)),
              Strength::atom};
  }
}

std::string infix(const Expr& e, Strength at_least) {
  auto [text, strength] = infix_text(e);
  return strength < at_least ? fmt::format("({})", text) : text;
}

std::string over_axes(const std::vector<Axis>& axes) {
  return axes.empty() ? "" : fmt::format(" over ({})", print_axes(axes));
}

std::string tile_head(const std::string& name, const std::vector<Axis>& axes, ScalarType type) {
  const std::string extents = axes.empty() ? "" : fmt::format("[{}]", print_axes(axes));
  return fmt::format("%{}{} : {}", name, extents, to_string(type));
}

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::dot:
      return "dot";
    case ReduceOp::max:
      return "max";
    case ReduceOp::argmax:
      return "argmax";
  }
  return "?";
}

std::string print_head(const ReduceStmt& s) {
  const ScalarType type = s.op == ReduceOp::argmax ? ScalarType::index : ScalarType::f32;
  std::string text =
      fmt::format("reduce {} = {} {} {} over {} of {}", tile_head(s.tile, s.axes, type),
                  to_string(s.op), s.order.kind == ReduceOrder::Kind::chain ? "chain" : "lanes",
                  s.order.size, print_axes({s.over}), print_value(s.a));
  if (s.b) text += ", " + print_value(s.b);
  return text;
}

void print_block(const Block& block, int indent, std::string& out) {
  for (const Stmt& stmt : block) {
    out.append(static_cast<size_t>(indent), ' ');
    out += print_statement_head(stmt);
    const Block* body = nullptr;
    if (const auto* loop = std::get_if<ForStmt>(&stmt.node)) body = &loop->body;
    if (const auto* guard = std::get_if<IfStmt>(&stmt.node)) body = &guard->body;
    if (body) {
      out += " {\n";
      print_block(*body, indent + 2, out);
      out.append(static_cast<size_t>(indent), ' ');
      out += '}';
    }
    out += '\n';
  }
}

std::string print_symbol(const SymInfo& symbol) {
  std::string text = fmt::format("symbol {} : {} in [{}, {}]", symbol.name, to_string(symbol.role),
                                 symbol.lo.to_string(), symbol.hi ? symbol.hi->to_string() : "inf");
  if (symbol.multiple_of != 1) text += fmt::format(" multiple {}", symbol.multiple_of);
  return text;
}

std::string print_param(const Param& param) {
  std::string text = fmt::format("param %{} : {}[{}] {} {}", param.name, to_string(param.dtype),
                                 join(param.shape, [](const SymExpr& e) { return e.to_string(); }),
                                 access_name(param.access), residency_name(param.residency));
  if (param.contract) text += " " + print_contract(*param.contract);
  return text;
}

}  // namespace

std::string_view access_name(Access access) {
  switch (access) {
    case Access::read:
      return "read";
    case Access::write:
      return "write";
    case Access::read_write:
      return "read_write";
  }
  return "?";
}

std::string_view residency_name(Residency residency) {
  switch (residency) {
    case Residency::activation:
      return "activation";
    case Residency::weight:
      return "weight";
    case Residency::state:
      return "state";
    case Residency::step:
      return "step";
  }
  return "?";
}

std::string print_contract(const Contract& contract) {
  std::string text = fmt::format("range [{}, {})", contract.lo.to_string(),
                                 contract.hi ? contract.hi->to_string() : "inf");
  if (contract.monotone) text += " monotone";
  if (contract.total) text += " total " + contract.total->to_string();
  if (contract.distinct) text += " distinct";
  if (contract.consecutive) text += " consecutive";
  if (contract.masked) text += " masked";
  return text;
}

std::string print_axes(const std::vector<Axis>& axes) {
  return join(axes,
              [](const Axis& a) { return fmt::format("{} < {}", a.name, a.extent.to_string()); });
}

std::string print_index(const Expr& e) { return infix(e, Strength::sum); }

std::string print_value(const Expr& e) {
  const auto call = [&](std::string_view name) {
    return fmt::format("{}({})", name, join(e->args, print_value));
  };
  switch (e->kind) {
    case ExprKind::number:
      return e->type == ScalarType::bits ? fmt::format("bits(0x{:08x})", e->bits)
                                         : real_text(e->number);
    case ExprKind::index:
      return fmt::format("index({})", e->sym.to_string());
    case ExprKind::load:
    case ExprKind::tile:
      return fmt::format("%{}{}", e->name, bracketed(e->args));
    case ExprKind::unary:
      return call(to_string(e->unary_op));
    case ExprKind::binary:
      return call(to_string(e->binary_op));
    case ExprKind::fma:
      return call("fma");
    case ExprKind::select:
      return call("select");
    case ExprKind::round:
      return call(fmt::format("round_{}", to_string(e->dtype)));
  }
  return "?";
}

std::string print_statement_head(const Stmt& stmt) {
  return std::visit(
      Overload{
          [](const TileStmt& s) {
            return fmt::format("tile {} = {}", tile_head(s.tile, s.axes, s.value.type()),
                               print_value(s.value));
          },
          [](const UpdateStmt& s) {
            return fmt::format("update %{}{}{} = {}", s.tile, bracketed(s.indices),
                               over_axes(s.axes), print_value(s.value));
          },
          [](const ReduceStmt& s) { return print_head(s); },
          [](const StoreStmt& s) {
            return fmt::format("store %{}{}{} = {}", s.buffer, bracketed(s.indices),
                               over_axes(s.axes), print_value(s.value));
          },
          [](const ForStmt& s) {
            return fmt::format("for {} in [{}, {})", s.axis, print_index(s.lo), print_index(s.hi));
          },
          [](const IfStmt& s) { return fmt::format("if {}", print_value(s.condition)); },
          [](const LetStmt& s) {
            return fmt::format("let {} in [{}, {}] = {}", s.name, s.lo.to_string(),
                               s.hi.to_string(), print_value(s.value));
          },
      },
      stmt.node);
}

std::string print_kernel(const Kernel& kernel) {
  std::string out = fmt::format("kernel @{} {{\n", kernel.name);
  for (const SymInfo& symbol : kernel.symbols.symbols()) out += "  " + print_symbol(symbol) + "\n";
  for (const Param& param : kernel.params) out += "  " + print_param(param) + "\n";
  for (const Part& part : kernel.parts) {
    out += fmt::format("  part {} grid ({}) {{\n", part.name, print_axes(part.grid));
    print_block(part.body, 4, out);
    out += "  }\n";
  }
  return out + "}\n";
}

}  // namespace gm
