#include <cmath>

#include "models/qwen35/builder.h"

namespace gm::qwen35 {

// Full attention with an output gate: spec of the family, section 3.4, the reference's roundings.
ValueId attention_mixer(Builder& b, ValueId h) {
  const Qwen35Config& c = b.config();
  const std::string m = "self_attn.";
  const Attrs act = {{"dtype", b.act_name()}};
  const SymExpr pages = SymExpr::symbol("pages");

  // Each head's rows hold its query and then its gate.
  const ValueId qg_rows =
      b.linear(h, m + "q_proj.weight", 2 * c.heads * c.head_dim, c.hidden, m + "qg");
  const ValueId k_rows =
      b.linear(h, m + "k_proj.weight", c.kv_heads * c.head_dim, c.hidden, m + "k_rows");
  const ValueId v_rows =
      b.linear(h, m + "v_proj.weight", c.kv_heads * c.head_dim, c.hidden, m + "v_rows");
  const ValueId qg = b.split(qg_rows, 1, {c.heads, 2 * c.head_dim}, m + "qg_heads", m + "q_proj");
  const ValueId q_raw = b.slice(qg, 2, 0, c.head_dim, m + "q_raw", m + "q_proj");
  const ValueId gate = b.slice(qg, 2, c.head_dim, 2 * c.head_dim, m + "gate_raw", m + "gate");
  const ValueId k_raw = b.split(k_rows, 1, {c.kv_heads, c.head_dim}, m + "k_raw", m + "k_proj");
  const ValueId v = b.split(v_rows, 1, {c.kv_heads, c.head_dim}, m + "v_heads", m + "v_proj");

  const auto [cosine, sine] = b.rotary();
  auto rotated = [&](ValueId x, const std::string& name) {
    const ValueId n =
        b.zero_centred_norm(x, m + name + "_norm.weight", c.head_dim, m + name + "_norm_out");
    return b.op("rope", {n, cosine, sine}, {{"interior", b.act_name()}}, m + name,
                m + name + "_rope");
  };
  const ValueId q = rotated(q_raw, "q");
  const ValueId k = rotated(k_raw, "k");

  auto append = [&](ValueId x, const std::string& name) {
    const ValueId cache = b.state(name, b.act(), {pages, b.page_tokens(), c.kv_heads, c.head_dim});
    const ValueId next = b.op("cache_append", b.with_sequences({x, cache, b.pos, b.pages}), {},
                              m + name + "_cache", m + name + "_append");
    b.state_output(name, next);
    return next;
  };
  const ValueId k_cache = append(k, "k");
  const ValueId v_cache = append(v, "v");
  const double scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
  const ValueId o = b.op("attention", b.with_sequences({q, k_cache, v_cache, b.pos, b.pages}),
                         {{"scale", scale}, {"interior", b.act_name()}}, m + "o", m + "attention");
  const ValueId open = b.op("sigmoid", {gate}, act, m + "gate", m + "gate");
  const ValueId gated = b.op("mul", {o, open}, act, m + "gated", m + "gate");
  return b.linear(b.merge(gated, 1, m + "gated_rows", m + "gate"), m + "o_proj.weight", c.hidden,
                  c.heads * c.head_dim, m + "out");
}

}  // namespace gm::qwen35
