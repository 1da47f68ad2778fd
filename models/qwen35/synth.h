// Checkpoints with random weights that behave like trained ones: logits are finite and differ,
// decays and expert choices spread. Each value is a function of the seed, the tensor's canonical
// name, its shape and the element's index alone (docs/synth.md), so a device can make the same
// weights without a file. Here is what the files hold; writing them is the caller's.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/counter_random.h"
#include "base/json.h"
#include "models/qwen35/graphs.h"

namespace gm {

// The values of a tensor, by what it is for. `name` is canonical.
BellShape synth_shape(std::string_view name, const std::vector<int64_t>& shape);

struct SynthTensor {
  std::string name;  // canonical
  DType dtype{};
  std::vector<int64_t> shape;
  int64_t offset = 0;  // in the file
  int64_t bytes = 0;
  uint64_t stream = 0;
  BellShape values;
};

struct SynthShard {
  std::string file;
  std::string header;  // the file's first bytes: the safetensors header with its length
  std::vector<SynthTensor> tensors;
  int64_t bytes = 0;
};

struct SynthCheckpoint {
  std::vector<SynthShard> shards;
  std::string index;  // model.safetensors.index.json
  int64_t bytes = 0;  // of all shards
  int64_t tensors = 0;
};

// Names, shapes and dtypes are those that the import expects of the published checkpoints. A shard
// ends before it would have more than `shard_bytes`, if it has a tensor by then.
SynthCheckpoint synth_checkpoint(const Qwen35Config& config, uint64_t seed, int64_t shard_bytes);

// The bytes of elements `first`, `first` + 1, ... of a tensor, as many as fill `out`, which is
// aligned for the dtype.
void fill_synth(const SynthTensor& tensor, uint64_t seed, int64_t first, std::span<std::byte> out);

// config.json as the published models have it, which reads back as the same config.
Json config_json(const Qwen35Config& config);

// The model with another number of layers, whose kinds go on as they began.
Qwen35Config with_layers(Qwen35Config config, int64_t layers);

}  // namespace gm
