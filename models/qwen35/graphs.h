// The op graphs of a Qwen3.5 model, with the roundings of the reference (Hugging Face eager): a
// value's dtype is where it rounds. One graph for each class of steps; both read the same weights
// and states.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"
#include "models/qwen35/config.h"

namespace gm {

// mixed: ragged sequences of any number of tokens · decode: one token a sequence
enum class StepClass : uint8_t { mixed, decode };
std::string_view to_string(StepClass step);

struct GraphOptions {
  DType activations = DType::bf16;  // or f32
  int64_t max_tokens = 2048;        // of one mixed step
  int64_t max_seqs = 64;            // of one step
  int64_t max_context = 4096;       // of one sequence
  int64_t page_tokens = 16;
  std::vector<int64_t>
      valid_ids;  // half-open ranges that may be sampled, flattened; empty: all of the vocabulary
  bool hidden_outputs = false;  // also outputs hidden.N, the residual stream after layer N
};

// The stored dtype of each tensor, by canonical name ("layers.0.linear_attn.A_log"). Which names
// are there says in which form a layer is stored: experts packed or one by one, the delta net's
// input projections apart or fused.
using WeightDtypes = std::map<std::string, DType, std::less<>>;

// Inputs ids, pos, (seq_start,) ctx, slot, pages, (logit_row); outputs logits f32[rows, V] and next
// i32[rows]; states layers.N.conv, .recurrent, .k, .v.
Result<Graph> build_model(const Qwen35Config& config, const WeightDtypes& dtypes, StepClass step,
                          const GraphOptions& options);

// One decoder layer: input x [tokens, H], output out, and the layer's states.
Result<Graph> build_layer(const Qwen35Config& config, const WeightDtypes& dtypes, int64_t layer,
                          StepClass step, const GraphOptions& options);

}  // namespace gm
