#include <algorithm>
#include <numeric>

#include "compiler/lowering/kernel_writer.h"

namespace gm {
namespace {

// Rows of a contraction's left side that one work item holds, so that a streamed weight serves
// several tokens.
constexpr int64_t kRowBlock = 4;
// Panels that one row block meets before the next comes: they stay in a core's second-level cache
// from row block to row block, and what is computed in front of them serves all of them.
constexpr int64_t kMostPanels = 8;
constexpr int64_t kPanelBytes = 512 << 10;

// The products of one part: for each anchor, and each of its rows that an output needs, a tile of
// sums over the part's panel. Rows are written with kRow in place of the axis of a block.
class Products {
 public:
  static constexpr std::string_view kRow = "row";
  Products(KernelWriter& writer, Expr panel, SymExpr row_extent)
      : writer_(writer), panel_(std::move(panel)), row_extent_(std::move(row_extent)) {}

  std::string sums(OpId anchor, const std::vector<Expr>& row);

 private:
  static constexpr std::string_view kReduced = "reduced";
  struct Left {
    ValueId value;
    std::vector<Expr> source;
    std::string tile;
  };
  struct Sums {
    OpId anchor;
    std::vector<Expr> row;
    std::string tile;
  };
  static std::vector<Expr> with_row(std::vector<Expr> row, const Expr& m) {
    for (Expr& coordinate : row) {
      coordinate = substitute(coordinate, {{std::string(kRow), *m.as_sym()}});
    }
    return row;
  }
  std::string left(const Op& op, const OpDef& def, const std::vector<Expr>& row);

  KernelWriter& writer_;
  Expr panel_;
  SymExpr row_extent_;
  std::vector<Left> lefts_;
  std::vector<Sums> sums_;
};

// Contractions whose results meet in one epilogue share a part.
std::vector<std::vector<OpId>> contraction_groups(const KernelWriter& w) {
  const Graph& graph = w.graph();
  std::vector<OpId> anchors;
  for (const Member& m : w.region().members) {
    if (w.def(graph.op(m.op)).op_class == OpClass::contraction) anchors.push_back(m.op);
  }
  std::vector<size_t> group(anchors.size());
  std::iota(group.begin(), group.end(), size_t{0});
  for (ValueId output : w.outputs()) {
    size_t first = anchors.size();
    for (size_t i = 0; i < anchors.size(); ++i) {
      const ValueId result = graph.op(anchors[i]).outputs[0];
      if (!w.comes_from(output, [&](ValueId v) { return v == result; })) continue;
      if (first == anchors.size()) first = group[i];
      const size_t old = group[i];
      std::ranges::replace(group, old, first);
    }
  }
  std::vector<std::vector<OpId>> groups;
  for (size_t g = 0; g < anchors.size(); ++g) {
    std::vector<OpId> ops;
    for (size_t i = 0; i < anchors.size(); ++i) {
      if (group[i] == g) ops.push_back(anchors[i]);
    }
    if (!ops.empty()) groups.push_back(std::move(ops));
  }
  return groups;
}

// A weight's element in panel `panel`, column `n` of it.
Expr panel_load(KernelWriter& w, const Op& op, OpReader& reader, const std::vector<Expr>& row,
                const Expr& panel, const Expr& n, const Expr& k) {
  const Value& weight = w.graph().value(op.inputs[1]);
  GM_CHECK(weight.kind == ValueKind::weight, "{} multiplies with {}, which is no weight", op.where,
           weight.name);
  std::vector<Expr> indices =
      packed_indices(w.packing().weights.at(weight.name),
                     w.def(op).w_index(reader, row, panel * Expr::index(kPanelWidth), k));
  indices.back() = n;
  return Expr::load(w.params().weight(weight.id), std::move(indices), ScalarType::f32);
}

std::string Products::left(const Op& op, const OpDef& def, const std::vector<Expr>& row) {
  OpReader reader(writer_.reader(), writer_.graph(), op);
  // What is multiplied, with a stand-in for the reduced axis.
  std::vector<Expr> source =
      def.a_index(reader, row, Expr::index(SymExpr::symbol(std::string(kReduced))));
  for (const Left& l : lefts_) {
    if (l.value == op.inputs[0] && l.source == source) return l.tile;
  }
  const Axis m = writer_.builder().axis("m", row_extent_);
  const Axis k = writer_.builder().axis("k", def.extent_k(reader.op()));
  Expr value =
      writer_.reader().element(op.inputs[0], def.a_index(reader, with_row(row, at(m)), at(k)));
  const std::string tile = writer_.builder().tile("a", {m, k}, std::move(value));
  lefts_.push_back({op.inputs[0], std::move(source), tile});
  return tile;
}

std::string Products::sums(OpId anchor, const std::vector<Expr>& row) {
  for (const Sums& s : sums_) {
    if (s.anchor == anchor && s.row == row) return s.tile;
  }
  const Op& op = writer_.graph().op(anchor);
  const OpDef& def = writer_.def(op);
  const std::string a = left(op, def, row);
  OpReader reader(writer_.reader(), writer_.graph(), op);
  BlockBuilder& b = writer_.builder();
  const Axis m = b.axis("m", row_extent_);
  const Axis n = b.axis("n", kPanelWidth);
  const Axis k = b.axis("k", def.extent_k(reader.op()));
  // Panels are padded to the full width, so that the loop over columns has a constant extent.
  Expr weight = panel_load(writer_, op, reader, with_row(row, at(m)), panel_, at(n), at(k));
  const std::string tile =
      b.reduce("acc", {m, n}, k, ReduceOp::dot, {ReduceOrder::Kind::chain, kChainBlock},
               at(a, {at(m), at(k)}), std::move(weight));
  sums_.push_back({anchor, row, tile});
  return tile;
}

// Panels a group: a divisor of all panels, so that no group has to ask where it ends.
int64_t panels_of_group(const KernelWriter& w, const std::vector<OpId>& anchors,
                        const SymExpr& columns) {
  const std::optional<int64_t> n = columns.constant();
  if (!n || *n % kPanelWidth != 0) return 1;
  int64_t bytes = 0;
  for (OpId anchor : anchors) {
    const TensorType& weight = w.graph().value(w.graph().op(anchor).inputs[1]).type;
    bytes += weight.shape.back().constant().value_or(kPanelBytes) * kPanelWidth *
             size_bytes(weight.dtype);
  }
  int64_t group = std::min(kMostPanels, std::max<int64_t>(kPanelBytes / bytes, 1));
  while (*n / kPanelWidth % group != 0) --group;
  return group;
}

void lower_group(KernelWriter& w, const std::vector<OpId>& anchors) {
  const Graph& graph = w.graph();
  BlockBuilder& b = w.builder();
  std::vector<ValueId> outputs;
  bool blocked = true;
  for (OpId anchor : anchors) {
    // A weight that is chosen by row (experts) cannot serve several rows at once.
    blocked &= graph.op(anchor).inputs.size() == 2;
    for (ValueId output : w.outputs_from(graph.op(anchor).outputs[0])) {
      if (std::ranges::find(outputs, output) == outputs.end()) outputs.push_back(output);
    }
  }
  std::ranges::sort(outputs);
  GM_CHECK(!outputs.empty(), "nothing needs {}", graph.op(anchors.front()).where);
  const std::vector<SymExpr>& shape = graph.value(outputs.front()).type.shape;
  const SymExpr& columns = shape.back();
  const std::vector<SymExpr> rows(shape.begin(), shape.end() - 1);
  blocked &= rows.size() == 1;

  // The panels of a group come last, since whoever runs the part keeps what they have in common.
  const int64_t group = panels_of_group(w, anchors, columns);
  std::vector<std::pair<std::string, SymExpr>> grid{
      {group > 1 ? "ng" : "nb", SymExpr::ceildiv(columns, kPanelWidth * group)}};
  for (const SymExpr& extent : rows) {
    grid.emplace_back(blocked ? "tb" : "t", blocked ? SymExpr::ceildiv(extent, kRowBlock) : extent);
  }
  if (group > 1) grid.emplace_back("nb", group);
  w.begin_part(w.part_name(graph.op(anchors.front()).outputs[0]), grid);
  const std::vector<Expr> g = w.grid_indices();
  const Expr panel = group > 1 ? g[0] * Expr::index(group) + g.back() : g[0];
  const Expr column0 = panel * Expr::index(kPanelWidth);
  const SymExpr row_extent =
      blocked ? SymExpr::min(kRowBlock, rows[0] - SymExpr(kRowBlock) * *g[1].as_sym()) : SymExpr(1);
  auto row_at = [&](const Expr& m) {
    if (blocked) return std::vector<Expr>{g[1] * Expr::index(kRowBlock) + m};
    return std::vector<Expr>(g.begin() + 1, g.end() - (group > 1 ? 1 : 0));
  };
  Products products(w, panel, row_extent);
  const Expr any = Expr::index(SymExpr::symbol(std::string(Products::kRow)));
  for (OpId anchor : anchors) {
    if (graph.value(graph.op(anchor).outputs[0]).type.shape == shape)
      products.sums(anchor, row_at(any));
  }

  SymExpr column_extent = SymExpr::min(kPanelWidth, columns - *column0.as_sym());
  if (const auto n = columns.constant(); n && *n % kPanelWidth == 0) column_extent = kPanelWidth;
  if (const auto n = columns.constant(); n && *n < kPanelWidth) column_extent = columns;
  for (ValueId output : outputs) {
    GM_CHECK(graph.value(output).type.shape == shape, "{} is not stored where {} is",
             graph.value(output).name, graph.value(outputs.front()).name);
    const Axis m = b.axis("m", row_extent);
    const Axis n = b.axis("n", column_extent);
    std::vector<Expr> indices = row_at(at(m));
    indices.push_back(column0 + at(n));
    for (OpId anchor : anchors) {
      const Value& result = graph.value(graph.op(anchor).outputs[0]);
      w.reader().bind(result.id, [&, anchor](const std::vector<Expr>& element) {
        GM_CHECK(element.back() == indices.back(), "{} is read at other columns than are stored",
                 result.name);
        std::vector<Expr> row(element.begin(), element.end() - 1);
        for (Expr& coordinate : row) coordinate = substitute(coordinate, {{m.name, *any.as_sym()}});
        return Expr::round(result.type.dtype, at(products.sums(anchor, row),
                                                 {blocked ? at(m) : Expr::index(0), at(n)}));
      });
    }
    std::vector<Axis> axes{m, n};
    if (!blocked) axes = {n};
    w.store(b, {output}, axes, indices);
    w.reader().unbind();
  }
  w.end_part();
}

}  // namespace

void lower_contractions(KernelWriter& writer) {
  for (const std::vector<OpId>& group : contraction_groups(writer)) lower_group(writer, group);
}

}  // namespace gm
