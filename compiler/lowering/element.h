// Expressions for elements of values: the heart of fusion by substitution. Reading a value that the
// region computes itself yields its scalar body over its own operands; reading any other yields a
// load. Row reductions on the way are emitted as tiles in front of the statement under
// construction, once a scope.
#pragma once

#include <set>

#include "compiler/packing.h"
#include "ir/region.h"
#include "ir/tile.h"

namespace gm {

// The parameters of the kernel under construction, one a buffer.
class KernelParams {
 public:
  KernelParams(const Graph& graph, const Packing& packing) : graph_(graph), packing_(packing) {}

  // The name without its layer, so that kernels of different layers get equal texts.
  static std::string base_name(std::string_view name);

  // The state input that a version of a state goes back to; any other value itself. Versions share
  // memory.
  static ValueId state_root(const Graph& graph, ValueId value);

  // The parameter's name. State is read and written through one parameter.
  std::string activation(ValueId value, Access access);
  std::string state(ValueId value, Access access);
  std::string weight(ValueId value);

  struct Entry {
    Param param;
    std::optional<ValueId> value;
    std::string weight_buffer;
  };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::string add(Entry entry);
  const Graph& graph_;
  const Packing& packing_;
  std::vector<Entry> entries_;
};

class ElementReader {
 public:
  ElementReader(const Graph& graph, const Packing& packing, std::set<OpId> members,
                KernelParams& params)
      : graph_(graph), packing_(packing), members_(std::move(members)), params_(params) {}

  // A new part: statements go to `block` from now on.
  void begin(BlockBuilder* block);

  // The element of `value` at `indices`: f32 as after a store and a load of it, or an index.
  Expr element(ValueId value, const std::vector<Expr>& indices);

  // While bound, element(value, indices) is what `element` says, or `expr`, and then no other
  // indices may be asked for.
  using Element = std::function<Expr(const std::vector<Expr>& indices)>;
  void bind(ValueId value, Element element);
  void bind(ValueId value, std::vector<Expr> indices, Expr expr);
  void unbind();

 private:
  friend class OpReader;
  friend class InlineContext;
  struct Row {  // a row of a value, held in a tile: element(value, row + {i}) is tile[index + {i}]
    ValueId value;
    std::vector<Expr> row;
    std::string tile;
    std::vector<Expr> index;
    uint32_t scope;
  };
  struct Reduced {
    OpId op;
    std::vector<Expr> row;
    std::vector<Expr> results;
    uint32_t scope;
  };
  struct Inlined {  // the rows of a row-wise op's results, one tile a result
    OpId op;
    std::vector<Expr> row;
    std::vector<std::string> tiles;
    std::vector<Expr> index;
    uint32_t scope;
  };
  // A row's coordinates with fresh axes in place of the statement's, and how to index a tile over
  // those axes.
  struct Spread {
    std::vector<Axis> axes;
    std::vector<Expr> row;
    std::vector<Expr> index;
  };

  Expr load(const Value& value, const std::vector<Expr>& indices);
  std::vector<Expr> reduce_row(const Op& op, const OpDef& def, const std::vector<Expr>& row);
  Expr inline_row(const Op& op, const OpDef& def, const Value& value,
                  const std::vector<Expr>& indices);
  Spread spread(const std::vector<Expr>& row);
  bool is_expensive(ValueId value) const;
  void hold_row(ValueId value, const std::vector<Expr>& row, const Spread& s,
                const SymExpr& extent);

  const Graph& graph_;
  const Packing& packing_;
  std::set<OpId> members_;
  KernelParams& params_;
  BlockBuilder* block_ = nullptr;
  struct Bound {
    ValueId value;
    Element element;
  };
  std::vector<Bound> bound_;
  std::vector<Row> rows_;
  std::vector<Reduced> reduced_;
  std::vector<Inlined> inlined_;
};

// The ReadContext of one op: operands through an ElementReader.
class OpReader final : public ReadContext {
 public:
  OpReader(ElementReader& reader, const Graph& graph, const Op& op);
  const OpInstance& op() const override { return instance_; }
  const TensorType& result(size_t i) const override { return graph_.value(op_.outputs[i]).type; }
  Expr read(size_t operand, std::vector<Expr> indices) override {
    return reader_.element(op_.inputs[operand], indices);
  }

 private:
  ElementReader& reader_;
  const Graph& graph_;
  const Op& op_;
  std::vector<TensorType> input_types_;
  OpInstance instance_;
};

}  // namespace gm
