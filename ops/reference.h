// The reference: evaluates ops and whole graphs from their declarations, with plain loops over
// row-major tensors. T = float rounds every value to its dtype, as compiled code does; T = double
// rounds nothing, and is what a tolerance is measured against. It shares no code with the
// lowerings: structured ops are interpreted from their bodies, kernel-like ones bring a reference
// of their own.
#pragma once

#include <map>

#include "ir/opdef.h"

namespace gm {

// Results of one op. Types are constant; `inputs` holds a tensor for each. Errors: 20xx at `where`,
// also for an index that leaves its tensor.
template <class T>
Result<std::vector<RefTensor<T>>> evaluate_op(const OpDef& def, std::span<const TensorType> types,
                                              const Attrs& attrs,
                                              std::span<const RefTensor<T>* const> inputs,
                                              const Location& where);

// Values of a graph, by index_of(ValueId). `inputs` holds inputs, weights and states by name
// (weights that the graph itself gives as numbers may be missing), `dims` every symbol. Contracts
// of inputs are checked.
template <class T>
Result<std::vector<RefTensor<T>>> evaluate_graph(
    const Graph& graph, const std::map<std::string, RefTensor<T>, std::less<>>& inputs,
    const std::map<std::string, int64_t, std::less<>>& dims);

extern template Result<std::vector<RefTensor<float>>> evaluate_op(
    const OpDef&, std::span<const TensorType>, const Attrs&,
    std::span<const RefTensor<float>* const>, const Location&);
extern template Result<std::vector<RefTensor<double>>> evaluate_op(
    const OpDef&, std::span<const TensorType>, const Attrs&,
    std::span<const RefTensor<double>* const>, const Location&);
extern template Result<std::vector<RefTensor<float>>> evaluate_graph(
    const Graph&, const std::map<std::string, RefTensor<float>, std::less<>>&,
    const std::map<std::string, int64_t, std::less<>>&);
extern template Result<std::vector<RefTensor<double>>> evaluate_graph(
    const Graph&, const std::map<std::string, RefTensor<double>, std::less<>>&,
    const std::map<std::string, int64_t, std::less<>>&);

}  // namespace gm
