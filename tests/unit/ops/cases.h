// Inputs for the cases that ops declare: numbers drawn from a fixed generator, each exact in its
// dtype.
#pragma once

#include <random>

#include "ops/ops.h"
#include "ops/reference.h"

namespace gm {

inline std::vector<int64_t> constant_shape(const TensorType& type) {
  std::vector<int64_t> shape;
  for (const SymExpr& dim : type.shape) shape.push_back(dim.constant().value());
  return shape;
}

inline int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

template <class T>
std::vector<RefTensor<T>> case_inputs(const OpDef& def, const OpDef::Case& c, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<RefTensor<T>> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const TensorType& type = c.inputs[i];
    RefTensor<T> tensor;
    tensor.shape = constant_shape(type);
    if (!is_float(type.dtype)) {
      tensor.ints = c.ints.at(i);
    } else {
      for (int64_t k = 0; k < count_of(tensor.shape); ++k) {
        // Within [-1, 1); decays and probabilities have the sign that their ops expect.
        float x = static_cast<float>(static_cast<int>(random() >> 8) - (1 << 23)) / (1 << 23);
        const std::string& name = def.operands[i].name;
        if (name == "g") x = -std::abs(x);
        if (name == "p" || name == "beta") x = std::abs(x);
        tensor.data.push_back(static_cast<T>(round_to(type.dtype, x)));
      }
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

template <class T>
Result<std::vector<RefTensor<T>>> evaluate_case(const OpDef& def, const OpDef::Case& c,
                                                const std::vector<RefTensor<T>>& inputs) {
  std::vector<const RefTensor<T>*> pointers;
  for (const RefTensor<T>& input : inputs) pointers.push_back(&input);
  return evaluate_op<T>(def, c.inputs, c.attrs, pointers, Location::of_path("", def.name));
}

inline std::vector<const OpDef*> all_ops() {
  std::vector<const OpDef*> ops;
  for (const OpDef& def : builtin_ops().defs()) ops.push_back(&def);
  return ops;
}

}  // namespace gm
