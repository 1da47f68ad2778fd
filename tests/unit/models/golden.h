// A golden folder of tests/golden, and a runner that evaluates a model's graphs step by step with
// the reference evaluator, as a runtime would: states by slot and page carry over from one step to
// the next.
#pragma once

#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "base/checkpoint_names.h"
#include "models/qwen35/checkpoint.h"
#include "models/qwen35/graphs.h"
#include "ops/reference.h"

namespace gm {

inline std::filesystem::path golden_folder(const std::string& name) {
  return std::filesystem::path(GRAPHMILL_SOURCE_DIR) / "tests" / "golden" / name;
}

// The value of a Result, or a test failure that says why not.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  return *std::move(result);
}

inline std::vector<double> floats(const StoredTensor& tensor) {
  std::vector<double> values;
  const bool f32 = tensor.dtype == "F32";
  const size_t width = f32 ? 4 : 2;
  for (size_t at = 0; at < tensor.data.size(); at += width) {
    if (f32) {
      float value;
      std::memcpy(&value, tensor.data.data() + at, 4);
      values.push_back(value);
    } else {
      uint16_t bits;
      std::memcpy(&bits, tensor.data.data() + at, 2);
      values.push_back(tensor.dtype == "BF16" ? bf16_to_f32(bits) : f16_to_f32(bits));
    }
  }
  return values;
}

inline std::vector<int64_t> ints(const StoredTensor& tensor) {
  std::vector<int64_t> values;
  for (size_t at = 0; at < tensor.data.size(); at += 4) {
    int32_t value;
    std::memcpy(&value, tensor.data.data() + at, 4);
    values.push_back(value);
  }
  return values;
}

struct Golden {
  explicit Golden(const std::string& name)
      : config(must(read_config(golden_folder(name)))),
        checkpoint(must(SafeTensors::open_folder(golden_folder(name)))),
        values(must(SafeTensors::open_file(golden_folder(name) / "golden.safetensors"))),
        layers(must(SafeTensors::open_file(golden_folder(name) / "layers.safetensors"))),
        dtypes(must(match_checkpoint(config, checkpoint))) {
    for (const auto& [stored, tensor] : checkpoint.tensors()) {
      if (!is_skipped_tensor(stored)) tensors.emplace(canonical_tensor_name(stored), &tensor);
    }
  }

  const StoredTensor& value(const std::string& name) const { return *values.find(name); }
  const StoredTensor& layer_value(const std::string& name) const { return *layers.find(name); }

  Qwen35Config config;
  SafeTensors checkpoint, values, layers;
  WeightDtypes dtypes;
  std::map<std::string, const StoredTensor*, std::less<>> tensors;
};

// ||a - b|| / ||b||
template <class A, class B>
double relative_error(const std::vector<A>& a, const std::vector<B>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

// One sequence's part of a step.
struct Piece {
  int64_t slot;
  int64_t ctx;
  std::vector<int64_t> pages;
  std::vector<int64_t> ids;    // of a whole model
  std::vector<double> x = {};  // of one layer: rows of the residual stream
  int64_t tokens = 0;          // filled in by step()
};

// Runs graphs over one set of states. T = double rounds nothing, T = float rounds as compiled code
// does.
template <class T>
class Runner {
 public:
  static constexpr int64_t kSlots = 3, kPages = 24;

  Runner(const Golden& golden, GraphOptions options, int64_t layer = -1)
      : golden_(golden), options_(options), layer_(layer) {}

  Graph graph(StepClass step) const {
    return must(layer_ < 0 ? build_model(golden_.config, golden_.dtypes, step, options_)
                           : build_layer(golden_.config, golden_.dtypes, layer_, step, options_));
  }

  // Outputs by name. Every token's logits are asked for.
  std::map<std::string, RefTensor<T>, std::less<>> step(StepClass cls, std::vector<Piece> pieces) {
    const Graph g = graph(cls);
    const int64_t seq_pages =
        (options_.max_context + options_.page_tokens - 1) / options_.page_tokens;
    RefTensor<T> ids, pos, start, ctx, slot, pages, row, x;
    start.ints = {0};
    for (const Piece& piece : pieces) {
      const auto width = static_cast<size_t>(golden_.config.hidden);
      const auto tokens =
          static_cast<int64_t>(layer_ < 0 ? piece.ids.size() : piece.x.size() / width);
      for (int64_t t = 0; t < tokens; ++t) {
        pos.ints.push_back(piece.ctx + t);
        row.ints.push_back(static_cast<int64_t>(row.ints.size()));
      }
      ids.ints.insert(ids.ints.end(), piece.ids.begin(), piece.ids.end());
      x.data.insert(x.data.end(), piece.x.begin(), piece.x.end());
      start.ints.push_back(start.ints.back() + tokens);
      ctx.ints.push_back(piece.ctx);
      slot.ints.push_back(piece.slot);
      for (int64_t i = 0; i < seq_pages; ++i) {
        const auto at = static_cast<size_t>(i);
        pages.ints.push_back(at < piece.pages.size() ? piece.pages[at] : -1);
      }
    }
    const auto seqs = static_cast<int64_t>(pieces.size());
    const int64_t tokens = start.ints.back();
    ids.shape = pos.shape = {tokens};
    x.shape = {tokens, golden_.config.hidden};
    start.shape = {seqs + 1};
    ctx.shape = slot.shape = {seqs};
    pages.shape = {seqs, seq_pages};
    row.shape = {tokens};
    const std::map<std::string, int64_t, std::less<>> dims = {
        {"tokens", tokens}, {"rows", tokens}, {"seqs", seqs}, {"pages", kPages}, {"slots", kSlots}};

    std::map<std::string, RefTensor<T>, std::less<>> inputs = {
        {"ids", ids},   {"pos", pos},     {"seq_start", start}, {"ctx", ctx},
        {"slot", slot}, {"pages", pages}, {"logit_row", row},   {"x", x}};
    for (const Value& value : g.values()) {
      if (value.kind == ValueKind::weight && !value.source->tensor.empty())
        inputs[value.name] = weight(value);
      if (value.kind == ValueKind::state) inputs[value.name] = state(value);
    }
    const auto values = must(evaluate_graph<T>(g, inputs, dims));
    for (const Value& value : g.values()) {
      if (value.kind == ValueKind::result) values_[value.name] = values[index_of(value.id)];
    }
    std::map<std::string, RefTensor<T>, std::less<>> outputs;
    for (const GraphOutput& output : g.outputs()) {
      (output.is_state ? states_ : outputs)[output.name] = values[index_of(output.value)];
    }
    return outputs;
  }

  const RefTensor<T>& state(const std::string& name) const { return states_.at(name); }
  // Of the last step.
  const RefTensor<T>& value(const std::string& name) const { return values_.at(name); }

 private:
  RefTensor<T> weight(const Value& value) const {
    const WeightSource& source = *value.source;
    const std::vector<double> stored = floats(*golden_.tensors.at(source.tensor));
    RefTensor<T> tensor;
    for (const SymExpr& extent : value.type.shape) tensor.shape.push_back(*extent.constant());
    EXPECT_EQ(source.series + source.groups, 0);  // the goldens are packed and not fused
    if (source.slice_axis < 0) {
      tensor.data.assign(stored.begin(), stored.end());
      return tensor;
    }
    EXPECT_EQ(source.slice_axis, 1);
    const auto& s = source.stored_shape;
    for (int64_t e = 0; e < s[0]; ++e) {
      const auto begin = stored.begin() + (e * s[1] + source.slice_begin) * s[2];
      tensor.data.insert(tensor.data.end(), begin,
                         begin + (source.slice_end - source.slice_begin) * s[2]);
    }
    return tensor;
  }

  // At first a slot or page holds what an earlier request left: a fresh one must not see it.
  const RefTensor<T>& state(const Value& value) {
    RefTensor<T>& tensor = states_[value.name];
    if (!tensor.data.empty()) return tensor;
    int64_t count = 1;
    for (const SymExpr& extent : value.type.shape) {
      const std::string text = extent.to_string();
      tensor.shape.push_back(text == "slots"   ? kSlots
                             : text == "pages" ? kPages
                                               : *extent.constant());
      count *= tensor.shape.back();
    }
    tensor.data.assign(static_cast<size_t>(count), T(1000));
    return tensor;
  }

  const Golden& golden_;
  GraphOptions options_;
  int64_t layer_;
  std::map<std::string, RefTensor<T>, std::less<>> states_, values_;
};

}  // namespace gm
