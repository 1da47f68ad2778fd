// A small plan that is sound, for tests to write, read and break.
#pragma once

#include "plan/plan.h"

namespace gm::test {

// Slots of both programs of the sample.
enum SampleSlot : uint32_t {
  kIds,
  kEmbed,
  kA,  // bytes 0 to 256 of the arena
  kB,  // bytes 256 to 768
  kC,  // in the place of kB
  kD,  // in the place of kA, long after it
  kState,
  kLogits,
  kHead,
};

// Two programs of five nodes in a row: embed, widen, step, narrow, head.
inline Plan sample_plan() {
  Plan plan;
  plan.compiler = "graphmill 0.1.0";
  plan.stage = "native";
  plan.target = "cpu:v3";
  plan.target_features = "+avx2,+fma";
  plan.llvm_version = "19.1.7";
  plan.dtype = "bf16";
  plan.numerics = "match-storage";
  plan.fusion = "full";
  plan.model = {.architecture = "qwen3_5",
                .vocab = 64,
                .hidden = 16,
                .layers = 1,
                .max_position = 4096,
                .stop_ids = {1, 2},
                .layer_types = {"linear_attention"}};
  plan.limits = {.max_context = 128, .max_seqs = 8, .max_tokens = 8, .page_tokens = 16};

  const auto kernel = [&](const std::string& name, const std::string& dim,
                          std::vector<std::string> params) {
    plan.kernels.push_back({.name = name,
                            .symbol = "k_" + name,
                            .dims = {dim},
                            .params = std::move(params),
                            .part_items = {SymExpr::ceildiv(SymExpr::symbol(dim), 4)},
                            .scratch_bytes = 1024,
                            .text_member = "kernels/" + name + ".gm"});
    plan.texts["kernels/" + name + ".gm"] = "kernel @" + name + " {}\n";
  };
  for (const auto& [program_name, dim] :
       {std::pair<std::string, std::string>{"decode", "seqs"}, {"mixed", "tokens"}}) {
    const std::string prefix = program_name + ".";
    kernel(prefix + "embed", dim, {"ids", "table", "out"});
    kernel(prefix + "head", dim, {"in", "w", "out"});
    kernel(prefix + "narrow", dim, {"in", "out"});
    kernel(prefix + "step", dim, {"in", "state", "out"});
    kernel(prefix + "widen", dim, {"in", "out"});

    Program p;
    p.name = program_name;
    p.graph = "graph." + program_name + ".gm";
    plan.texts[p.graph] = "graph @" + program_name + " {}\n";
    p.symbols.declare({dim, dim == "seqs" ? SymRole::seqs : SymRole::tokens, 1, SymExpr(8), 1});
    p.symbols.declare({"slots", SymRole::slots, 1, std::nullopt, 1});
    const SymExpr n = SymExpr::symbol(dim);
    const SymExpr slots = SymExpr::symbol("slots");
    InputContract ids;
    ids.hi = SymExpr(64);
    p.slots = {
        {"ids", SlotKind::input, DType::i32, {n}, -1, ids},
        {"embed", SlotKind::weight, DType::bf16, {64, 16}, -1, {}},
        {"a", SlotKind::activation, DType::bf16, {n, 16}, 0, {}},
        {"b", SlotKind::activation, DType::f32, {n, 16}, 256, {}},
        {"c", SlotKind::activation, DType::f32, {n, 16}, 256, {}},
        {"d", SlotKind::activation, DType::bf16, {n, 16}, 0, {}},
        {"layers.0.state", SlotKind::state, DType::f32, {slots, 16}, -1, {}},
        {"logits", SlotKind::output, DType::f32, {n, 64}, -1, {}},
        {"head", SlotKind::weight, DType::bf16, {2, 16, 32}, -1, {}},
    };
    constexpr SlotAccess r = SlotAccess::read, w = SlotAccess::write, rw = SlotAccess::read_write;
    p.nodes = {
        {prefix + "embed", {{kIds, r}, {kEmbed, r}, {kA, w}}, {}, {}, "embed"},
        {prefix + "widen", {{kA, r}, {kB, w}}, {0}, {}, "layers.0.in"},
        {prefix + "step", {{kB, r}, {kState, rw}, {kC, w}}, {1}, {{kC, kB}}, "layers.0.mixer"},
        {prefix + "narrow", {{kC, r}, {kD, w}}, {2}, {}, "layers.0.out"},
        {prefix + "head", {{kD, r}, {kHead, r}, {kLogits, w}}, {3}, {}, "head"},
    };
    p.arena_bytes = 768;
    plan.programs.push_back(std::move(p));
  }
  plan.states = {{"layers.0.state", DType::f32, {SymExpr::symbol("slots"), 16}}};
  WeightPart table;
  table.tensor = "embed_tokens.weight";
  table.stored_shape = {64, 16};
  WeightPart upper = {.tensor = "up.weight",
                      .stored_shape = {40, 16},
                      .slice_axis = 0,
                      .slice_begin = 8,
                      .slice_end = 40};
  WeightPart lower = {.tensor = "down.weight", .stored_shape = {3, 1, 16}, .panel_offset = 1};
  WeightPart frequencies = {.stored_shape = {3}, .values = {1.0, 0.5, 0.1f}};
  plan.weights = {
      {"embed", DType::bf16, {64, 16}, "dense", {table}},
      {"frequencies", DType::f32, {3}, "dense", {frequencies}},
      {"head", DType::bf16, {2, 16, 32}, "panels", {upper, lower}},
  };
  for (const char c : std::string_view("\x7f"
                                       "ELF native code")) {
    plan.shared_object.push_back(static_cast<std::byte>(c));
  }
  plan.tokenizer = "{\"model\": {}}";
  plan.report = Json{{"decisions", Json::array()}};
  return plan;
}

}  // namespace gm::test
