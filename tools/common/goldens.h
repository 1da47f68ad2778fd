// A folder of goldens: what a reference implementation computed with the checkpoint beside it.
// golden.json and golden.safetensors hold whole prompts, layers.json and layers.safetensors each
// layer by itself (docs/cli.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/safetensors.h"

namespace gm {

struct GoldenCase {
  std::string name;
  double reference_bf16_error = 0;  // of the reference's own bf16 run against its f32 run
};

struct GoldenLayer {
  int64_t layer = 0;
  double reference_differing = 0;  // elements by which the reference's runs on two machines differ
};

class Goldens {
 public:
  static Result<Goldens> open(const std::string& folder);

  const std::vector<GoldenCase>& cases() const { return cases_; }
  const std::vector<GoldenLayer>& layers() const { return layers_; }  // empty: the folder has none

  // A tensor of golden.safetensors or of layers.safetensors as f32, of exactly this shape (-1: any
  // extent).
  Result<std::vector<float>> floats(const std::string& name, std::vector<int64_t> shape) const;
  Result<std::vector<int32_t>> integers(const std::string& name) const;
  // The bits of a BF16 tensor.
  Result<std::vector<uint16_t>> bf16_bits(const std::string& name,
                                          std::vector<int64_t> shape) const;

 private:
  Goldens(SafeTensors values, std::optional<SafeTensors> layer_values)
      : values_(std::move(values)), layer_values_(std::move(layer_values)) {}
  Result<const StoredTensor*> find(const std::string& name,
                                   const std::vector<int64_t>& shape) const;

  std::string folder_;
  SafeTensors values_;
  std::optional<SafeTensors> layer_values_;
  std::vector<GoldenCase> cases_;
  std::vector<GoldenLayer> layers_;
};

}  // namespace gm
