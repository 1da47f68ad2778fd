// Graphs as text, which reads back exactly: the same values and ops with the same ids, and so the
// same text again. What is written is what a person changes to try something, so the parser takes
// any text, locates each mistake, and leaves what concerns meaning to verify_graph.
//
//   graph @qwen35.mixed {
//     symbol tokens : tokens in [1, 8192]
//     input %ids : i32[tokens] range [0, 1024)
//     weight %embed : bf16[1024, 256] from "embed_tokens.weight" [1024, 256]
//     weight %gate : bf16[4, 64, 256] from "experts.gate_up_proj" [4, 128, 256] rows axis 1 [0, 64)
//     weight %down : bf16[4, 256, 64] from "experts.*.down_proj.weight" [256, 64] series 4
//     weight %qkv : bf16[512, 256] from "qkvz.weight" [768, 256] groups 2 [[0, 128), [256, 384)]
//     weight %inv_freq : f32[2] values [1.0, 0.5]
//     state %conv : bf16[slots, 3, 576]
//     %x = embedding(%embed, %ids) : bf16[tokens, 256] @ "embed_tokens"
//     %u, %conv1 = causal_conv(%x, %conv) {taps = 4} : bf16[tokens, 576], bf16[slots, 3, 576] @ "m"
//     output u = %u
//     output state conv = %conv1
//   }
//
// An attribute that equals its default is not written.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace gm {

std::string print_graph(const Graph& graph);
// One line of it, for diagnostics and reports: an op, or an input, weight or state.
std::string print_op(const Graph& graph, OpId id);
std::string print_value_line(const Graph& graph, ValueId id);
// `true`, `4`, `1e-06`, `"bf16"`, `[0, 4]`
std::string print_attr(const Attr& attr);

// `file` is used in messages only. The table must outlive the graph.
Result<Graph> parse_graph(std::string_view text, const std::string& file, const OpTable& table);

}  // namespace gm
