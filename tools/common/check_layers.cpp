#include <algorithm>
#include <cmath>
#include <cstring>

#include "tools/common/check.h"

namespace gm {
namespace {

constexpr double kLeastBound = 0.06;    // of elements that differ
constexpr double kReferenceFactor = 2;  // of the reference's own differences between two machines
constexpr double kStateBound = 1e-2;    // relative 2-norm
constexpr int kDecodeRowsOver = 1;      // in a row of one token, an early flip spreads

// One state of one sequence, on its way between the reference's order of elements and ours.
struct LayerState {
  std::string name;  // of the plan's buffer
  DType dtype{};
  int64_t elements = 0;          // of the reference's tensor
  std::vector<float> reference;  // in its own order
  std::vector<int64_t> place;    // where element i of the reference lies in our buffer
};

Result<std::vector<int64_t>> extents(const Plan& plan, const std::string& name) {
  const StateBuffer* state = plan.find_state(name);
  if (state == nullptr || state->shape.empty()) {
    return err(Code::goldens, Location::of_path("", name),
               "check a plan against the goldens of its own model", "the plan has no such state");
  }
  std::vector<int64_t> shape;
  for (size_t i = 1; i < state->shape.size(); ++i)
    shape.push_back(state->shape[i].constant().value_or(-1));
  return shape;
}

// conv: theirs [C, K-1], ours [K-1, C] · recurrent: alike · k, v: theirs [heads, T, D], ours pages
// of [P, heads, D] from 0 on
Result<std::vector<LayerState>> layer_states(const Plan& plan, const Goldens& goldens,
                                             int64_t layer, int64_t tokens) {
  std::vector<LayerState> states;
  const std::string ours = fmt::format("layers.{}.", layer),
                    theirs = fmt::format("layer{}.state.", layer);
  const bool attention = plan.model.layer_types[static_cast<size_t>(layer)] == "full_attention";
  const std::vector<std::string> names = attention ? std::vector<std::string>{"k", "v"}
                                                   : std::vector<std::string>{"conv", "recurrent"};
  for (const std::string& name : names) {
    LayerState state{.name = ours + name};
    GM_ASSIGN(const std::vector<int64_t> shape, extents(plan, state.name));
    state.dtype = plan.find_state(state.name)->dtype;
    const bool paged = attention && !shape.empty() && shape[0] == plan.limits.page_tokens;
    if (shape.size() != (name == "conv" ? 2u : 3u) || paged != attention) {
      return err(Code::goldens, Location::of_path("", state.name),
                 "check a plan of a model that these goldens are of",
                 "the plan's state has another form than such layers have");
    }
    if (name == "conv") {
      const int64_t taps = shape[0], channels = shape[1];
      GM_ASSIGN(state.reference, goldens.floats(theirs + name, {channels, taps}));
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t t = 0; t < taps; ++t) state.place.push_back(t * channels + c);
      }
    } else if (name == "recurrent") {
      GM_ASSIGN(state.reference, goldens.floats(theirs + name, shape));
      for (int64_t i = 0; i < std::ssize(state.reference); ++i) state.place.push_back(i);
    } else {
      const int64_t heads = shape[1],
                    width =
                        shape[2];  // shape[0]: tokens of a page; pages 0, 1, ... follow each other
      GM_ASSIGN(state.reference, goldens.floats(theirs + name, {heads, tokens, width}));
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t t = 0; t < tokens; ++t) {
          for (int64_t d = 0; d < width; ++d) state.place.push_back((t * heads + h) * width + d);
        }
      }
    }
    states.push_back(std::move(state));
  }
  return states;
}

std::vector<float> read_state(const Instance& instance, const LayerState& state) {
  const std::byte* data = instance.states().find(state.name);
  std::vector<float> values(state.place.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (state.dtype == DType::f32) {
      std::memcpy(&values[i], data + 4 * state.place[i], 4);
    } else {
      uint16_t bits;
      std::memcpy(&bits, data + 2 * state.place[i], 2);
      values[i] = bf16_to_f32(bits);
    }
  }
  return values;
}

void write_state(const Instance& instance, const LayerState& state) {
  std::byte* data = instance.states().find(state.name);
  for (size_t i = 0; i < state.place.size(); ++i) {
    if (state.dtype == DType::f32) {
      std::memcpy(data + 4 * state.place[i], &state.reference[i], 4);
    } else {
      const uint16_t bits = f32_to_bf16(state.reference[i]);
      std::memcpy(data + 2 * state.place[i], &bits, 2);
    }
  }
}

// The bits of `out` after running `x` at position `done`, in as few steps as the plan allows.
Result<std::vector<uint16_t>> run_layer(Instance& instance, const std::string& program,
                                        int64_t done, const std::vector<float>& x) {
  const int64_t width = instance.plan().model.hidden, tokens = std::ssize(x) / width;
  std::vector<uint16_t> out;
  for (int64_t at = 0; at < tokens;) {
    const int64_t count = std::min(tokens - at, instance.plan().limits.max_tokens);
    Step step = one_sequence(instance, program, done + at, count);
    step.x.assign(x.begin() + at * width, x.begin() + (at + count) * width);
    GM_TRY(instance.executor().run(step));
    const auto view = instance.executor().output("out");
    GM_CHECK(view.has_value() && view->dtype == DType::bf16, "{} has no bf16 output 'out'",
             program);
    const size_t before = out.size();
    out.resize(before + static_cast<size_t>(view->elements()));
    std::memcpy(out.data() + before, view->data, static_cast<size_t>(view->elements()) * 2);
    at += count;
  }
  return out;
}

double differing(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
  if (a.size() != b.size() || a.empty()) return 1;
  size_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return static_cast<double>(count) / static_cast<double>(a.size());
}

}  // namespace

Result<> check_layers(Instance& instance, const Goldens& goldens, CheckTally& tally) {
  const Plan& plan = instance.plan();
  const int64_t width = plan.model.hidden;
  int decode_rows_over = 0;
  for (const GoldenLayer& golden : goldens.layers()) {
    const int64_t n = golden.layer;
    if (n >= plan.model.layers)
      return err(Code::goldens, {}, "check a plan against the goldens of its own model",
                 "the goldens have a layer {}, but the plan ends at {}", n, plan.model.layers - 1);
    const std::string name = fmt::format("layer{}.", n);
    GM_ASSIGN(const std::vector<float> in, goldens.floats(name + "prefill.in", {-1, width}));
    const int64_t tokens = std::ssize(in) / width;
    GM_TRY(require_room(plan, name + "prefill.in", tokens, 1));
    GM_ASSIGN(const std::vector<uint16_t> want,
              goldens.bf16_bits(name + "prefill.out", {tokens, width}));
    GM_ASSIGN(const std::vector<float> decode_in, goldens.floats(name + "decode.in", {1, width}));
    GM_ASSIGN(const std::vector<uint16_t> decode_want,
              goldens.bf16_bits(name + "decode.out", {1, width}));
    GM_ASSIGN(const std::vector<LayerState> states, layer_states(plan, goldens, n, tokens));

    GM_ASSIGN(const std::vector<uint16_t> out,
              run_layer(instance, fmt::format("layer.{}.mixed", n), 0, in));
    double state_error = 0;
    for (const LayerState& state : states)
      state_error =
          std::max(state_error, relative_error(read_state(instance, state), state.reference));
    for (const LayerState& state : states) write_state(instance, state);
    GM_ASSIGN(const std::vector<uint16_t> decode_out,
              run_layer(instance, fmt::format("layer.{}.decode", n), tokens, decode_in));

    const double bound = std::max(kReferenceFactor * golden.reference_differing, kLeastBound);
    const double prefill = differing(out, want), decode = differing(decode_out, decode_want);
    const bool excused = decode > bound && ++decode_rows_over <= kDecodeRowsOver;
    const bool passed =
        prefill <= bound && (decode <= bound || excused) && state_error <= kStateBound;
    tally.add(passed, fmt::format("layer {} {}: {:.1f} % of {} rows differ, {:.1f} % of a decode "
                                  "row (bound {:.1f} %{}), states {:.1e} (bound {:.0e})",
                                  n, plan.model.layer_types[static_cast<size_t>(n)], 100 * prefill,
                                  tokens, 100 * decode, 100 * bound,
                                  excused ? ", one decode row may exceed it" : "", state_error,
                                  kStateBound));
  }
  return {};
}

}  // namespace gm
