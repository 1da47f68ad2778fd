#include "models/qwen35/builder.h"

namespace gm::qwen35 {

ValueId swiglu(Builder& b, ValueId gate, ValueId up, std::string_view name,
               std::string_view where) {
  const Attrs act = {{"dtype", b.act_name()}};
  const ValueId open = b.op("silu", {gate}, act, std::string(name) + "_silu", where);
  return b.op("mul", {open, up}, act, name, where);
}

ValueId dense_mlp(Builder& b, ValueId h) {
  const Qwen35Config& c = b.config();
  const ValueId gate = b.linear(h, "mlp.gate_proj.weight", c.intermediate, c.hidden, "mlp.gate");
  const ValueId up = b.linear(h, "mlp.up_proj.weight", c.intermediate, c.hidden, "mlp.up");
  const ValueId hidden = swiglu(b, gate, up, "mlp.act", "mlp.act");
  return b.linear(hidden, "mlp.down_proj.weight", c.hidden, c.intermediate, "mlp.down");
}

// Spec of the family, section 3.6: the chosen experts' results are rounded, weighted, rounded and
// added in ascending expert id; then the shared expert behind its own gate.
ValueId moe_mlp(Builder& b, ValueId h) {
  const Qwen35Config& c = b.config();
  const Attrs act = {{"dtype", b.act_name()}};
  const int64_t width = c.expert_intermediate;

  const ValueId router = b.linear(h, "mlp.gate.weight", c.experts, c.hidden, "mlp.router");
  const ValueId p = b.op("softmax", {router}, {{"dtype", std::string("f32")}}, "mlp.router_p",
                         "mlp.router_softmax");
  const auto route = b.ops("topk_route", {p}, {{"k", c.experts_per_token}, {"dtype", b.act_name()}},
                           {"mlp.expert", "mlp.expert_weight"}, "mlp.route");

  // Half of a packed tensor, or of each expert its own.
  auto half = [&](int64_t begin, std::string_view single, std::string_view name) {
    if (!b.stored("mlp.experts.gate_up_proj"))
      return b.weight_series(single, {width, c.hidden}, c.experts, name);
    return b.weight_rows("mlp.experts.gate_up_proj", {c.experts, 2 * width, c.hidden}, begin,
                         begin + width, name);
  };
  const ValueId gate_weight = half(0, "mlp.experts.*.gate_proj.weight", "mlp.experts.gate");
  const ValueId up_weight = half(width, "mlp.experts.*.up_proj.weight", "mlp.experts.up");
  const ValueId gate = b.op("grouped_linear", {h, gate_weight, route[0]}, act,
                            "mlp.experts.gate_out", "mlp.experts.gate");
  const ValueId up =
      b.op("grouped_linear", {h, up_weight, route[0]}, act, "mlp.experts.up_out", "mlp.experts.up");
  const ValueId hidden = swiglu(b, gate, up, "mlp.experts.act", "mlp.experts.act");
  const ValueId down_weight =
      b.stored("mlp.experts.down_proj")
          ? b.weight("mlp.experts.down_proj", {c.experts, c.hidden, width})
          : b.weight_series("mlp.experts.*.down_proj.weight", {c.hidden, width}, c.experts,
                            "mlp.experts.down_proj");
  const ValueId down = b.op("grouped_linear", {hidden, down_weight, route[0]}, act,
                            "mlp.experts.down", "mlp.experts.down_proj");
  const ValueId weights = b.split(route[1], 1, {-1, 1}, "mlp.expert_weight_column", "mlp.route");
  const ValueId weighted =
      b.op("mul", {down, weights}, act, "mlp.experts.weighted", "mlp.experts.weight");
  const ValueId routed = b.op("expert_sum", {weighted}, {}, "mlp.experts.sum", "mlp.experts.sum");

  const ValueId shared_gate = b.linear(h, "mlp.shared_expert.gate_proj.weight",
                                       c.shared_intermediate, c.hidden, "mlp.shared.gate");
  const ValueId shared_up = b.linear(h, "mlp.shared_expert.up_proj.weight", c.shared_intermediate,
                                     c.hidden, "mlp.shared.up");
  const ValueId shared_hidden =
      swiglu(b, shared_gate, shared_up, "mlp.shared.act", "mlp.shared_expert.act");
  const ValueId shared = b.linear(shared_hidden, "mlp.shared_expert.down_proj.weight", c.hidden,
                                  c.shared_intermediate, "mlp.shared.down");
  const ValueId open = b.op(
      "sigmoid", {b.linear(h, "mlp.shared_expert_gate.weight", 1, c.hidden, "mlp.shared.open_in")},
      act, "mlp.shared.open", "mlp.shared_expert_gate.sigmoid");
  const ValueId gated =
      b.op("mul", {shared, open}, act, "mlp.shared.gated", "mlp.shared_expert_gate.mul");
  return b.op("add", {routed, gated}, act, "mlp.sum", "mlp.sum");
}

}  // namespace gm::qwen35
