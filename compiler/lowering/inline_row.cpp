// Row-wise ops in the middle of another op's work item: their lowering runs where a row of theirs
// is read, and writes tiles in place of buffers.
#include "compiler/lowering/element.h"

namespace gm {

class InlineContext final : public LoweringContext {
 public:
  // `row` has one entry a grid axis of the op's part; results go to tiles behind `outer`.
  InlineContext(ElementReader& reader, const Op& op, std::vector<Expr> row, std::vector<Expr> outer,
                std::vector<std::string> tiles)
      : builder_(*reader.block_),
        operands_(reader, reader.graph_, op),
        row_(std::move(row)),
        outer_(std::move(outer)),
        tiles_(std::move(tiles)) {}
  const OpInstance& op() const override { return operands_.op(); }
  const TensorType& result(size_t i) const override { return operands_.result(i); }
  Expr read(size_t operand, std::vector<Expr> indices) override {
    return operands_.read(operand, std::move(indices));
  }
  void part(std::string_view, std::vector<std::pair<std::string, SymExpr>> grid,
            const std::function<void(BlockBuilder&, std::span<const Expr>)>& body) override {
    GM_CHECK(grid.size() == row_.size(), "{} has {} grid axes, its rows {}", op().def().name,
             grid.size(), row_.size());
    body(builder_, row_);
  }
  void write(BlockBuilder& b, size_t result, std::vector<Axis> axes, std::vector<Expr> indices,
             Expr value) override {
    const DType dtype = this->result(result).dtype;
    if (is_float(dtype)) value = Expr::round(dtype, std::move(value));
    std::vector<Expr> element = outer_;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (i >= row_.size()) {
        element.push_back(std::move(indices[i]));
      } else {
        GM_CHECK(indices[i] == row_[i], "{} writes a row of another work item", op().def().name);
      }
    }
    b.update(tiles_[result], std::move(axes), std::move(element), std::move(value));
  }
  Expr read_state(size_t, std::vector<Expr>) override { no_state(); }
  void write_state(BlockBuilder&, size_t, std::vector<Axis>, std::vector<Expr>, Expr) override {
    no_state();
  }

 private:
  [[noreturn]] void no_state() const {
    GM_CHECK(false, "{} is row-wise and has a state", op().def().name);
  }
  BlockBuilder& builder_;
  OpReader operands_;
  std::vector<Expr> row_, outer_;
  std::vector<std::string> tiles_;
};

Expr ElementReader::inline_row(const Op& op, const OpDef& def, const Value& value,
                               const std::vector<Expr>& indices) {
  const ScalarType type = is_float(value.type.dtype) ? ScalarType::f32 : ScalarType::index;
  // All results have the same leading axes, and the last one to themselves.
  const std::vector<Expr> row(indices.begin(), indices.end() - 1);
  auto element = [&](const Inlined& inlined) {
    std::vector<Expr> place = inlined.index;
    place.push_back(indices.back());
    return at(inlined.tiles[static_cast<size_t>(value.result_index)], std::move(place), type);
  };
  for (const Inlined& i : inlined_) {
    if (i.op == op.id && i.row == row && block_->is_open(i.scope)) return element(i);
  }
  const Spread s = spread(row);
  Inlined inlined{op.id, row, {}, s.index, block_->scope()};
  for (ValueId output : op.outputs) {
    const TensorType& result = graph_.value(output).type;
    std::vector<Axis> axes;
    for (const Axis& axis : s.axes) axes.push_back(block_->axis(axis.name, axis.extent));
    axes.push_back(block_->axis("j", result.shape.back()));
    inlined.tiles.push_back(
        block_->tile(def.results[static_cast<size_t>(graph_.value(output).result_index)].name, axes,
                     is_float(result.dtype) ? Expr(0.0f) : Expr::index(0)));
  }
  // One run of the lowering for each row that the statement's axes reach.
  std::map<std::string, SymExpr, std::less<>> here;
  std::vector<Expr> outer;
  std::function<void(size_t)> run = [&](size_t axis) {
    if (axis < s.axes.size()) {
      block_->loop(s.axes[axis].name, Expr::index(0), Expr::index(s.axes[axis].extent),
                   [&](const SymExpr& i) {
                     here.insert_or_assign(s.axes[axis].name, i);
                     outer.push_back(Expr::index(i));
                     run(axis + 1);
                   });
      return;
    }
    std::vector<Expr> at_row;
    for (const Expr& coordinate : s.row) at_row.push_back(substitute(coordinate, here));
    InlineContext context(*this, op, std::move(at_row), outer, inlined.tiles);
    def.lower(context);
  };
  run(0);
  inlined_.push_back(inlined);
  return element(inlined);
}

}  // namespace gm
