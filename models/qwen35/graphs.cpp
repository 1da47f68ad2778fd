#include "models/qwen35/graphs.h"

#include "models/qwen35/builder.h"

namespace gm {
namespace {

using qwen35::Builder;

// x + mixer(norm(x)), then x + mlp(norm(x)); the residual stream is rounded after each addition.
// `out` names the result.
ValueId decoder_layer(Builder& b, int64_t layer, ValueId x, const std::string& out) {
  const Qwen35Config& c = b.config();
  b.enter(fmt::format("layers.{}", layer));
  const ValueId h = b.zero_centred_norm(x, "input_layernorm.weight", c.hidden, "h");
  const bool attention = c.layer_kinds[static_cast<size_t>(layer)] == LayerKind::full_attention;
  const ValueId mixed = attention ? qwen35::attention_mixer(b, h) : qwen35::gdn_mixer(b, h);
  const ValueId x1 =
      b.op("add", {x, mixed}, {}, "x1", attention ? "self_attn.residual" : "linear_attn.residual");
  const ValueId h1 = b.zero_centred_norm(x1, "post_attention_layernorm.weight", c.hidden, "h1");
  const ValueId f = c.is_moe() ? qwen35::moe_mlp(b, h1) : qwen35::dense_mlp(b, h1);
  b.enter("");
  return b.op("add", {x1, f}, {}, out, fmt::format("layers.{}.mlp.residual", layer));
}

std::string stream_name(const Qwen35Config& config, int64_t layer) {
  return layer == config.layers() ? "final.x" : fmt::format("layers.{}.x", layer);
}

}  // namespace

std::string_view to_string(StepClass step) { return step == StepClass::mixed ? "mixed" : "decode"; }

Result<Graph> build_model(const Qwen35Config& config, const WeightDtypes& dtypes, StepClass step,
                          const GraphOptions& options) {
  Builder b(config, dtypes, step, options, fmt::format("qwen35.{}", to_string(step)));
  const ValueId ids = b.graph().add_input("ids", {DType::i32, {b.tokens()}},
                                          Contract{.lo = 0, .hi = SymExpr(config.vocab)});
  b.declare_step_inputs();
  const Attrs act = {{"dtype", b.act_name()}};
  const ValueId embed = b.weight("embed_tokens.weight", {config.vocab, config.hidden});
  ValueId x = b.op("embedding", {embed, ids}, act, "layers.0.x", "embed_tokens");
  for (int64_t layer = 0; layer < config.layers(); ++layer) {
    x = decoder_layer(b, layer, x, stream_name(config, layer + 1));
    if (options.hidden_outputs) b.output(fmt::format("hidden.{}", layer), x);
  }
  if (b.mixed()) {
    const ValueId row = b.graph().add_input("logit_row", {DType::i32, {SymExpr::symbol("rows")}},
                                            Contract{.lo = 0, .hi = b.tokens()});
    x = b.op("gather_rows", {x, row}, {}, "final.rows", "final.rows");
  }
  const ValueId h = b.zero_centred_norm(x, "norm.weight", config.hidden, "final.h");
  const ValueId head =
      config.tied ? embed : b.weight("lm_head.weight", {config.vocab, config.hidden});
  const ValueId rounded = b.op("linear", {h, head}, act, "lm_head_out", "lm_head");
  const ValueId logits =
      b.op("cast", {rounded}, {{"dtype", std::string("f32")}}, "logits", "lm_head.cast");
  std::vector<int64_t> valid = options.valid_ids;
  if (valid.empty()) valid = {0, config.vocab};
  const ValueId next = b.op("argmax", {logits}, {{"valid", std::move(valid)}}, "next", "argmax");
  b.output("logits", logits);
  b.output("next", next);
  return std::move(b).finish();
}

Result<Graph> build_layer(const Qwen35Config& config, const WeightDtypes& dtypes, int64_t layer,
                          StepClass step, const GraphOptions& options) {
  Builder b(config, dtypes, step, options,
            fmt::format("qwen35.layer.{}.{}", layer, to_string(step)));
  const ValueId x = b.graph().add_input("x", {b.act(), {b.tokens(), config.hidden}});
  b.declare_step_inputs();
  b.output("out", decoder_layer(b, layer, x, fmt::format("layers.{}.out", layer)));
  return std::move(b).finish();
}

}  // namespace gm
