#include <cmath>

#include "models/qwen35/builder.h"

namespace gm::qwen35 {

namespace {

// A fused tensor and its rows for one key head.
struct FusedRows {
  std::string tensor;
  int64_t rows;
};

}  // namespace

// Gated delta net: spec of the family, section 3.3, the reference's roundings.
ValueId gdn_mixer(Builder& b, ValueId h) {
  const Qwen35Config& c = b.config();
  const Attrs f32 = {{"dtype", std::string("f32")}};
  const Attrs act = {{"dtype", b.act_name()}};
  const std::string m = "linear_attn.";
  const int64_t key = c.key_heads * c.key_dim, value = c.value_heads * c.value_dim;
  const SymExpr slots = SymExpr::symbol("slots");

  // Qwen3-Next fuses projections: of each key head in turn its q, k, v and z rows, and its b and a
  // rows. Taken head by head they are the rows of Qwen3.5's own four tensors.
  const int64_t ratio = c.value_heads / c.key_heads, values = ratio * c.value_dim;
  const FusedRows qkvz{"in_proj_qkvz.weight", 2 * (c.key_dim + values)};
  const FusedRows ba{"in_proj_ba.weight", 2 * ratio};
  auto projection = [&](const std::string& name, int64_t rows, const FusedRows& fused,
                        std::vector<std::pair<int64_t, int64_t>> ranges, const std::string& out) {
    const std::string tensor = m + name + ".weight";
    const ValueId w = b.stored(tensor)
                          ? b.weight(tensor, {rows, c.hidden})
                          : b.weight_groups(m + fused.tensor, {c.key_heads * fused.rows, c.hidden},
                                            c.key_heads, std::move(ranges), m + name);
    return b.op("linear", {h, w}, act, m + out, m + name);
  };
  const int64_t v0 = 2 * c.key_dim, z0 = v0 + values;
  const ValueId qkv = projection("in_proj_qkv", c.conv_channels(), qkvz,
                                 {{0, c.key_dim}, {c.key_dim, v0}, {v0, z0}}, "qkv");
  const ValueId z = projection("in_proj_z", value, qkvz, {{z0, z0 + values}}, "z");
  const ValueId beta_in = projection("in_proj_b", c.value_heads, ba, {{0, ratio}}, "b");
  const ValueId decay_in = projection("in_proj_a", c.value_heads, ba, {{ratio, 2 * ratio}}, "a");

  const ValueId conv_weight = b.weight(m + "conv1d.weight", {c.conv_channels(), 1, c.conv_taps}, 1);
  const ValueId conv_state = b.state("conv", b.act(), {slots, c.conv_taps - 1, c.conv_channels()});
  const auto conv =
      b.ops("causal_conv", b.with_sequences({qkv, conv_weight, conv_state, b.ctx, b.slot}), {},
            {m + "u", m + "conv_next"}, m + "conv1d");
  b.state_output("conv", conv[1]);
  const ValueId u = b.op("silu", {conv[0]}, act, m + "us", m + "conv_silu");

  auto head = [&](int64_t begin, int64_t heads, int64_t dim, const std::string& name) {
    const ValueId rows = b.slice(u, 1, begin, begin + heads * dim, m + name + "_rows", m + name);
    return b.split(rows, 1, {heads, dim}, m + name + "_heads", m + name);
  };
  auto normalised = [&](ValueId x, const std::string& name) {
    return b.op("l2_norm", {x}, {{"eps", 1e-6}, {"dtype", std::string("f32")}}, m + name + "_norm",
                m + name + "_norm");
  };
  const ValueId q_norm = normalised(head(0, c.key_heads, c.key_dim, "q"), "q");
  const double scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.key_dim)));
  const ValueId q = b.op("scale", {q_norm}, {{"value", scale}}, m + "q", m + "q_scale");
  const ValueId k = normalised(head(key, c.key_heads, c.key_dim, "k"), "k");
  const ValueId v = head(2 * key, c.value_heads, c.value_dim, "v");

  const ValueId beta = b.op("sigmoid", {beta_in}, act, m + "beta", m + "beta");
  const ValueId dt_bias = b.weight(m + "dt_bias", {c.value_heads});
  const ValueId shifted = b.op("add", {decay_in, dt_bias}, f32, m + "shifted", m + "dt_bias");
  const ValueId step = b.op("softplus", {shifted}, f32, m + "step", m + "decay");
  const ValueId rate =
      b.op("exp", {b.weight(m + "A_log", {c.value_heads})}, f32, m + "rate", m + "A_log");
  const ValueId product = b.op("mul", {rate, step}, f32, m + "decay_product", m + "decay");
  const ValueId g = b.op("neg", {product}, f32, m + "g", m + "decay");

  const ValueId s =
      b.state("recurrent", DType::f32, {slots, c.value_heads, c.key_dim, c.value_dim});
  const auto delta =
      b.ops("gated_delta_rule", b.with_sequences({q, k, v, g, beta, s, b.ctx, b.slot}), act,
            {m + "o", m + "recurrent_next"}, m + "delta_rule");
  b.state_output("recurrent", delta[1]);

  // Norm first, then the gate. The weight's product is rounded only where the weight itself is
  // stored in bf16.
  const ValueId n =
      b.op("rms_norm", {delta[0]}, {{"eps", c.eps}, {"dtype", b.act_name()}}, m + "n", m + "norm");
  const ValueId norm_weight = b.weight(m + "norm.weight", {c.value_dim});
  const bool rounds = b.act() == DType::bf16 && b.weight_dtype(m + "norm.weight") == DType::bf16;
  const ValueId nw = b.op("mul", {n, norm_weight}, rounds ? act : f32, m + "nw", m + "norm");
  const ValueId gate =
      b.op(c.output_gate == OutputGate::sigmoid ? "sigmoid" : "silu",
           {b.split(z, 1, {c.value_heads, c.value_dim}, m + "z_heads", m + "gate")}, f32,
           m + "gate", m + "gate");
  const ValueId y = b.op("mul", {nw, gate}, act, m + "y", m + "gate");
  return b.linear(b.merge(y, 1, m + "y_rows", m + "gate"), m + "out_proj.weight", c.hidden, value,
                  m + "out");
}

}  // namespace gm::qwen35
