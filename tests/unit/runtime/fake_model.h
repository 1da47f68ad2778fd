// A model of three kernels whose next token depends on every token of the sequence so far, once
// through the state slot and once through the pages of a cache, so that a mistake in slots, pages,
// positions or contexts shows in the tokens.
#pragma once

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint_file.h"
#include "plan/plan.h"
#include "runtime/instance.h"

namespace gm::test {

inline constexpr int64_t kVocab = 97, kPageTokens = 4;

struct FakeLimits {
  int64_t context = 40, seqs = 4, tokens = 12;
};

inline Plan fake_plan(const FakeLimits& limits = {}) {
  Plan plan;
  plan.stage = "native";
  plan.target = "cpu:v3";
  plan.model = {.architecture = "fake",
                .vocab = kVocab,
                .hidden = 1,
                .layers = 1,
                .max_position = 4096,
                .stop_ids = {5, 6},
                .layer_types = {}};
  plan.limits = {.max_context = limits.context,
                 .max_seqs = limits.seqs,
                 .max_tokens = limits.tokens,
                 .page_tokens = kPageTokens};
  const int64_t columns = (limits.context + kPageTokens - 1) / kPageTokens;
  plan.weights = {
      {"bias", DType::i32, {kVocab}, "dense", {{.tensor = "bias", .stored_shape = {kVocab}}}}};
  plan.states = {{"cache", DType::i32, {SymExpr::symbol("pages"), kPageTokens}},
                 {"sum", DType::i32, {SymExpr::symbol("slots"), 1}}};
  for (const bool mixed : {false, true}) {
    const std::string name = mixed ? "mixed" : "decode";
    Program p;
    p.name = name;
    p.graph = "graph." + name + ".gm";
    if (mixed) {
      p.symbols.declare({"tokens", SymRole::tokens, 1, SymExpr(limits.tokens), 1});
      p.symbols.declare({"rows", SymRole::rows, 1, SymExpr(limits.tokens), 1});
    }
    p.symbols.declare({"seqs", SymRole::seqs, 1, SymExpr(limits.seqs), 1});
    p.symbols.declare({"pages", SymRole::pages, 1, SymExpr(limits.seqs * columns), 1});
    p.symbols.declare({"slots", SymRole::slots, 1, SymExpr(limits.seqs), 1});
    const SymExpr seqs = SymExpr::symbol("seqs"),
                  tokens = SymExpr::symbol(mixed ? "tokens" : "seqs"),
                  rows = SymExpr::symbol(mixed ? "rows" : "seqs");
    const auto contract = [](SymExpr lo, SymExpr hi) {
      InputContract c;
      c.lo = std::move(lo);
      c.hi = std::move(hi);
      return c;
    };
    InputContract pos = contract(0, limits.context), starts = contract(0, tokens + 1),
                  slot = contract(-1, SymExpr::symbol("slots")),
                  pages = contract(-1, SymExpr::symbol("pages"));
    pos.consecutive = true;
    starts.monotone = true;
    starts.total = tokens;
    slot.distinct = slot.masked = pages.distinct = pages.masked = true;
    p.slots = {
        {"ids", SlotKind::input, DType::i32, {tokens}, -1, contract(0, kVocab)},
        {"pos", SlotKind::input, DType::i32, {tokens}, -1, pos},
        {"ctx", SlotKind::input, DType::i32, {seqs}, -1, contract(0, limits.context)},
        {"slot", SlotKind::input, DType::i32, {seqs}, -1, slot},
        {"pages", SlotKind::input, DType::i32, {seqs, columns}, -1, pages},
        {"sum", SlotKind::state, DType::i32, {SymExpr::symbol("slots"), 1}, -1, {}},
        {"cache", SlotKind::state, DType::i32, {SymExpr::symbol("pages"), kPageTokens}, -1, {}},
        {"h", SlotKind::activation, DType::i32, {tokens}, 64, {}},
        {"bias", SlotKind::weight, DType::i32, {kVocab}, -1, {}},
        {"logits", SlotKind::output, DType::f32, {rows, kVocab}, -1, {}},
        {"next", SlotKind::output, DType::i32, {rows}, -1, {}}};
    if (mixed) {
      p.slots.push_back({"seq_start", SlotKind::input, DType::i32, {seqs + 1}, -1, starts});
      p.slots.push_back(
          {"logit_row", SlotKind::input, DType::i32, {rows}, -1, contract(0, tokens)});
    }
    p.arena_bytes = 64 + (limits.tokens * 4 + 63) / 64 * 64;
    constexpr SlotAccess r = SlotAccess::read, w = SlotAccess::write, rw = SlotAccess::read_write;
    Node body{name + ".body",
              {{0, r}, {1, r}, {2, r}, {3, r}, {4, r}, {5, rw}, {6, rw}, {7, w}},
              {},
              {},
              "body"};
    Node head{name + ".head", {{7, r}, {8, r}, {9, w}, {10, w}}, {0}, {}, "head"};
    std::vector<std::string> body_params = {"ids",   "pos", "ctx",   "slot",
                                            "pages", "sum", "cache", "h"},
                             head_params = {"h", "bias", "logits", "next"};
    if (mixed) {
      body.args.push_back({11, r});
      head.args.push_back({12, r});
      body_params.push_back("seq_start");
      head_params.push_back("logit_row");
    }
    p.nodes = {body, head};
    plan.programs.push_back(std::move(p));
    plan.kernels.push_back({name + ".body",
                            name + "_body",
                            {"seqs"},
                            body_params,
                            {seqs},
                            128,
                            "kernels/" + name + ".body.gm"});
    plan.kernels.push_back({name + ".head",
                            name + "_head",
                            {mixed ? "rows" : "seqs"},
                            head_params,
                            {rows},
                            0,
                            "kernels/" + name + ".head.gm"});
  }
  return plan;
}

// What the kernels compute, from all the ids at once.
inline int32_t fake_hidden(const std::vector<int32_t>& ids, size_t count) {
  int64_t sum = 0, cached = 0;
  for (size_t i = 0; i < count; ++i) {
    sum = (sum * 31 + ids[i] + 1) % 1000003;
    cached = (cached + static_cast<int64_t>(i + 1) * ids[i]) % 1000003;
  }
  return static_cast<int32_t>((sum + 7 * cached) % 1000003);
}
inline int32_t fake_bias(int64_t v) { return static_cast<int32_t>(v * v % 61); }
inline int32_t fake_next(int32_t hidden) {
  return static_cast<int32_t>((hidden + fake_bias(hidden % kVocab)) % kVocab);
}

class FakeLibrary : public KernelLibrary {
 public:
  // stale: the hidden values are added to what lies there, a mistake that poison finds.
  explicit FakeLibrary(bool stale = false, int64_t columns = 10)
      : stale_(stale), columns_(columns) {}

  Result<KernelFn> find(const PlanKernel& kernel) override {
    const bool mixed = kernel.name.starts_with("mixed");
    if (kernel.name.ends_with(".body")) {
      return [this, mixed](const int64_t*, void* const* args, int64_t begin, int64_t end,
                           std::byte* scratch) { body(mixed, args, begin, end, scratch); };
    }
    if (kernel.name.ends_with(".head")) {
      return [mixed](const int64_t*, void* const* args, int64_t begin, int64_t end, std::byte*) {
        head(mixed, args, begin, end);
      };
    }
    return err(Code::run_kernel, {}, "use another library", "no kernel {}", kernel.name);
  }

 private:
  void body(bool mixed, void* const* args, int64_t begin, int64_t end, std::byte* scratch) const {
    const auto* ids = static_cast<const int32_t*>(args[0]);
    const auto* pos = static_cast<const int32_t*>(args[1]);
    const auto* ctx = static_cast<const int32_t*>(args[2]);
    const auto* slot = static_cast<const int32_t*>(args[3]);
    const auto* pages = static_cast<const int32_t*>(args[4]);
    auto* sums = static_cast<int32_t*>(args[5]);
    auto* cache = static_cast<int32_t*>(args[6]);
    auto* h = static_cast<int32_t*>(args[7]);
    const auto* starts = mixed ? static_cast<const int32_t*>(args[8]) : nullptr;
    std::memset(scratch, 0x5a, 128);  // its own, or the sanitizers and neighbours will tell
    for (int64_t s = begin; s < end; ++s) {
      const int64_t from = mixed ? starts[s] : s, to = mixed ? starts[s + 1] : s + 1;
      int64_t sum = ctx[s] == 0 ? 0 : sums[slot[s]];
      const int32_t* table = pages + s * columns_;
      for (int64_t t = from; t < to; ++t) {
        sum = (sum * 31 + ids[t] + 1) % 1000003;
        cache[table[pos[t] / kPageTokens] * kPageTokens + pos[t] % kPageTokens] = ids[t];
        int64_t cached = 0;
        for (int64_t j = 0; j <= pos[t]; ++j) {
          cached =
              (cached + (j + 1) * cache[table[j / kPageTokens] * kPageTokens + j % kPageTokens]) %
              1000003;
        }
        h[t] = (stale_ ? h[t] & 1 : 0) + static_cast<int32_t>((sum + 7 * cached) % 1000003);
      }
      sums[slot[s]] = static_cast<int32_t>(sum);
    }
  }

  static void head(bool mixed, void* const* args, int64_t begin, int64_t end) {
    const auto* h = static_cast<const int32_t*>(args[0]);
    const auto* bias = static_cast<const int32_t*>(args[1]);
    auto* logits = static_cast<float*>(args[2]);
    auto* next = static_cast<int32_t*>(args[3]);
    for (int64_t r = begin; r < end; ++r) {
      const int32_t hidden = h[mixed ? static_cast<const int32_t*>(args[4])[r] : r];
      const int64_t chosen = (hidden + bias[static_cast<uint32_t>(hidden) % kVocab]) % kVocab;
      for (int64_t v = 0; v < kVocab; ++v)
        logits[r * kVocab + v] =
            static_cast<float>(hidden % 1000) - static_cast<float>(v == chosen ? 0 : v + 1);
      next[r] = static_cast<int32_t>(chosen);
    }
  }

  bool stale_;
  int64_t columns_;
};

inline FileTensor bias_tensor() {
  FileTensor bias{"model.bias", "I32", {kVocab}, std::string(kVocab * 4, '\0')};
  for (int64_t v = 0; v < kVocab; ++v) {
    const int32_t value = fake_bias(v);
    std::memcpy(bias.bytes.data() + v * 4, &value, 4);
  }
  return bias;
}

inline Result<std::unique_ptr<Instance>> fake_instance(InstanceOptions options = {},
                                                       const FakeLimits& limits = {},
                                                       bool stale = false) {
  const TempDir folder;
  GM_ASSIGN(const SafeTensors tensors, SafeTensors::open_file(write_checkpoint(
                                           folder.path() / "m.safetensors", {bias_tensor()})));
  const int64_t columns = (limits.context + kPageTokens - 1) / kPageTokens;
  return Instance::create(std::make_shared<const Plan>(fake_plan(limits)),
                          std::make_shared<FakeLibrary>(stale, columns), tensors,
                          std::move(options));
}

}  // namespace gm::test
