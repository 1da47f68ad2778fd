// What the layers of the graph builder share: the step's inputs, weights by tensor name, and short
// forms for ops. The first error is kept; ops after it yield a dummy value, so that a layer reads
// as its formulas.
#pragma once

#include <optional>

#include "ir/graph.h"
#include "models/qwen35/graphs.h"

namespace gm::qwen35 {

class Builder {
 public:
  Builder(const Qwen35Config& config, const WeightDtypes& dtypes, StepClass step,
          const GraphOptions& options, std::string name);

  const Qwen35Config& config() const { return config_; }
  DType act() const { return options_.activations; }
  std::string act_name() const { return std::string(gm::to_string(options_.activations)); }
  bool mixed() const { return step_ == StepClass::mixed; }
  const SymExpr& tokens() const { return tokens_; }
  int64_t page_tokens() const { return options_.page_tokens; }
  Graph& graph() { return graph_; }

  // The step signature (docs/architecture.md section 3).
  void declare_step_inputs();
  ValueId ctx{}, slot{}, pages{}, pos{}, seq_start{};

  // Everything named from here on is "PREFIX.name", and happens at "PREFIX.where".
  void enter(std::string prefix) { prefix_ = std::move(prefix); }

  ValueId op(std::string_view kind, std::vector<ValueId> inputs, Attrs attrs, std::string_view name,
             std::string_view where);
  std::vector<ValueId> ops(std::string_view kind, std::vector<ValueId> inputs, Attrs attrs,
                           std::vector<std::string> names, std::string_view where);
  // A weight of the layer: canonical tensor PREFIX.tensor with its stored shape, of which one axis
  // of extent 1 may be dropped.
  ValueId weight(std::string_view tensor, std::vector<int64_t> stored_shape, int dropped_axis = -1);
  // Rows [begin, end) of axis 1 of a packed tensor, under another name.
  ValueId weight_rows(std::string_view tensor, std::vector<int64_t> stored_shape, int64_t begin,
                      int64_t end, std::string_view name);
  // All of a series of tensors, whose name has a '*' for 0 to count - 1, stacked.
  ValueId weight_series(std::string_view tensor, std::vector<int64_t> stored_shape, int64_t count,
                        std::string_view name);
  // Rows of groups: for each range in turn, these rows of every group of axis 0.
  ValueId weight_groups(std::string_view tensor, std::vector<int64_t> stored_shape, int64_t groups,
                        std::vector<std::pair<int64_t, int64_t>> ranges, std::string_view name);
  // Whether the checkpoint has this tensor: of the forms that layers come in, it has one.
  bool stored(std::string_view tensor) const { return dtypes_.contains(named(tensor)); }
  DType weight_dtype(std::string_view tensor) const;
  ValueId state(std::string_view name, DType dtype, std::vector<SymExpr> shape);
  void state_output(std::string_view name, ValueId value);
  void output(std::string name, ValueId value);
  // Appends seq_start in a mixed step.
  std::vector<ValueId> with_sequences(std::vector<ValueId> inputs) const;

  // x * w^T, in the activations' dtype.
  ValueId linear(ValueId x, std::string_view tensor, int64_t rows, int64_t columns,
                 std::string_view name);
  ValueId zero_centred_norm(ValueId x, std::string_view tensor, int64_t width,
                            std::string_view name);
  ValueId slice(ValueId x, int64_t axis, int64_t begin, int64_t end, std::string_view name,
                std::string_view where);
  ValueId split(ValueId x, int64_t axis, std::vector<int64_t> sizes, std::string_view name,
                std::string_view where);
  ValueId merge(ValueId x, int64_t axis, std::string_view name, std::string_view where);

  // cos and sin of pos * inv_freq, rounded to the activations' dtype; made at first use.
  std::pair<ValueId, ValueId> rotary();

  Result<Graph> finish() &&;

 private:
  std::string named(std::string_view name) const {
    return prefix_.empty() ? std::string(name) : prefix_ + "." + std::string(name);
  }

  const Qwen35Config& config_;
  const WeightDtypes& dtypes_;
  StepClass step_;
  const GraphOptions& options_;
  Graph graph_;
  SymExpr tokens_;
  std::string prefix_;
  std::optional<Diag> error_;
  std::optional<std::pair<ValueId, ValueId>> rotary_;
};

// Each takes the normalised rows and gives the mixer's (or MLP's) result before the residual
// addition.
ValueId gdn_mixer(Builder& b, ValueId h);
ValueId attention_mixer(Builder& b, ValueId h);
ValueId dense_mlp(Builder& b, ValueId h);
ValueId moe_mlp(Builder& b, ValueId h);

// act(gate) * up with the reference's two roundings.
ValueId swiglu(Builder& b, ValueId gate, ValueId up, std::string_view name, std::string_view where);

}  // namespace gm::qwen35
