// A kernel under construction from a region: which values it computes and stores, its parameters,
// and the part that is being written. What the lowerings of contractions, of kernel-like anchors
// and of elementwise chains share.
#pragma once

#include "compiler/lowering/element.h"
#include "compiler/lowering/region_lowering.h"

namespace gm {

class KernelWriter {
 public:
  KernelWriter(const Graph& graph, const Packing& packing, const Region& region);

  const Graph& graph() const { return graph_; }
  const Packing& packing() const { return packing_; }
  const Region& region() const { return region_; }
  const OpDef& def(const Op& op) const { return *graph_.table().find(op.kind); }
  KernelParams& params() { return params_; }
  ElementReader& reader() { return reader_; }

  // The region's outputs, and whether they are written by now.
  const std::vector<ValueId>& outputs() const { return outputs_; }
  bool is_output(ValueId value) const;
  bool is_written(ValueId output) const;
  // Whether some value on the way to `value` from the region's borders, or from the results of its
  // anchors, satisfies `wanted`.
  bool comes_from(ValueId value, const std::function<bool(ValueId)>& wanted) const;
  // The region's outputs that are computed from `source`; state leaves through write_state.
  std::vector<ValueId> outputs_from(ValueId source) const;
  // What is computed a row at a time lies on the way to `value`.
  bool reduces_rows(ValueId value) const;

  // A new part over the grid; its statements go to builder().
  void begin_part(std::string_view name, const std::vector<std::pair<std::string, SymExpr>>& grid);
  void end_part();
  std::string part_name(ValueId value) const;
  BlockBuilder& builder() { return builder_; }
  const std::vector<Axis>& grid() const { return part_.grid; }
  std::vector<Expr> grid_indices() const;
  // Stores outputs at the same indices, in the block that is open.
  void store(BlockBuilder& b, const std::vector<ValueId>& outputs, const std::vector<Axis>& axes,
             const std::vector<Expr>& indices);

  // The kernel, when every output is written (GM_CHECK).
  LoweredRegion finish();

 private:
  bool is_member(OpId op) const;
  std::set<std::string> parameter_names() const;

  const Graph& graph_;
  const Packing& packing_;
  const Region& region_;
  KernelParams params_;
  ElementReader reader_;
  std::vector<ValueId> outputs_;
  std::vector<bool> written_;
  Kernel kernel_;
  Part part_;
  BlockBuilder builder_;
};

// All contractions of the region: a part for each, or for several whose results meet in one
// epilogue.
void lower_contractions(KernelWriter& writer);

}  // namespace gm
