// A small op table for the tests of graphs, which must not depend on the real ops.
#pragma once

#include "ir/opdef.h"

namespace gm::test_ops {

using Types = std::expected<std::vector<TensorType>, std::string>;

// add(a, b) · scale(x){value, dtype, taps, weights, exact} · embed(w, ids) · norm(x, w?)
// advance(x, state) -> y, state' · peek(state) -> y · halves(x) -> low, high · note(x) -> nothing
// grow(x, state) -> y, a state of another type
inline OpTable make() {
  using Kind = OperandDef::Kind;
  const auto like_first = [](const OpInstance& op) -> Types {
    return std::vector<TensorType>{op.input(0)};
  };
  std::vector<OpDef> defs;

  OpDef add;
  add.name = "add";
  add.operands = {{"a", "", Kind::floating}, {"b", "", Kind::floating}};
  add.results = {{"y", ""}};
  add.infer = [](const OpInstance& op) -> Types {
    if (op.input(0).shape != op.input(1).shape) return std::unexpected("the shapes differ");
    return std::vector<TensorType>{op.input(0)};
  };
  defs.push_back(add);

  OpDef scale;
  scale.name = "scale";
  scale.operands = {{"x", "", Kind::floating}};
  scale.results = {{"y", ""}};
  scale.attrs = {{"value", "the factor", 0.0, true},
                 {"dtype", "", std::string()},
                 {"taps", "", std::vector<int64_t>{}},
                 {"weights", "", std::vector<double>{}},
                 {"exact", "", false},
                 {"times", "", int64_t{1}}};
  scale.infer = [](const OpInstance& op) -> Types {
    TensorType type = op.input(0);
    if (!op.text("dtype").empty()) {
      const auto dtype = parse_dtype(op.text("dtype"));
      if (!dtype) return std::unexpected("dtype is unknown");
      type.dtype = *dtype;
    }
    return std::vector<TensorType>{type};
  };
  defs.push_back(scale);

  OpDef embed;
  embed.name = "embed";
  embed.operands = {{"w", "", Kind::floating}, {"ids", "", Kind::integer}};
  embed.results = {{"y", ""}};
  embed.infer = [](const OpInstance& op) -> Types {
    return std::vector<TensorType>{
        {op.input(0).dtype, {op.input(1).shape[0], op.input(0).shape[1]}}};
  };
  defs.push_back(embed);

  OpDef norm;
  norm.name = "norm";
  norm.operands = {{"x", "", Kind::floating}, {"w", "", Kind::floating, true}};
  norm.results = {{"y", ""}};
  norm.infer = like_first;
  defs.push_back(norm);

  OpDef advance;
  advance.name = "advance";
  advance.operands = {{"x", "", Kind::floating}, {"s", "", Kind::state}};
  advance.results = {{"y", ""}, {"s", "", true, 1}};
  advance.infer = [](const OpInstance& op) -> Types {
    return std::vector<TensorType>{op.input(0), op.input(1)};
  };
  defs.push_back(advance);

  OpDef grow = advance;
  grow.name = "grow";
  grow.infer = [](const OpInstance& op) -> Types {
    return std::vector<TensorType>{op.input(0), op.input(0)};
  };
  defs.push_back(grow);

  OpDef peek;
  peek.name = "peek";
  peek.operands = {{"s", "", Kind::state}};
  peek.results = {{"y", ""}};
  peek.infer = like_first;
  defs.push_back(peek);

  OpDef peek_advance = advance;
  peek_advance.name = "peek_advance";
  peek_advance.operands.push_back({"other", "", Kind::state});
  defs.push_back(peek_advance);

  OpDef halves;
  halves.name = "halves";
  halves.operands = {{"x", "", Kind::floating}};
  halves.results = {{"low", ""}, {"high", ""}};
  halves.infer = [](const OpInstance& op) -> Types {
    return std::vector<TensorType>{op.input(0), op.input(0)};
  };
  defs.push_back(halves);

  OpDef note;
  note.name = "note";
  note.operands = {{"x", "", Kind::floating}};
  note.infer = [](const OpInstance&) -> Types { return std::vector<TensorType>{}; };
  defs.push_back(note);

  OpDef power;  // extents that soon leave 64 bits
  power.name = "power";
  power.operands = {{"x", "", Kind::floating}};
  power.results = {{"y", ""}};
  power.infer = [](const OpInstance& op) -> Types {
    const SymExpr& n = op.input(0).shape[0];
    return std::vector<TensorType>{{op.input(0).dtype, {n * n}}};
  };
  defs.push_back(power);

  return OpTable(std::move(defs));
}

inline const OpTable& table() {
  static const OpTable kTable = make();
  return kTable;
}

}  // namespace gm::test_ops
