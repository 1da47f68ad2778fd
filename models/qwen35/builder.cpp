#include "models/qwen35/builder.h"

#include "models/qwen35/rotary.h"
#include "ops/ops.h"

namespace gm::qwen35 {

Builder::Builder(const Qwen35Config& config, const WeightDtypes& dtypes, StepClass step,
                 const GraphOptions& options, std::string name)
    : config_(config), dtypes_(dtypes), step_(step), options_(options), graph_(builtin_ops()) {
  graph_.name = std::move(name);
  const int64_t seq_pages = (options.max_context + options.page_tokens - 1) / options.page_tokens;
  auto declare = [&](std::string symbol, SymRole role, int64_t hi) {
    graph_.symbols.declare({.name = std::move(symbol), .role = role, .lo = 1, .hi = SymExpr(hi)});
  };
  if (mixed()) {
    declare("tokens", SymRole::tokens, options.max_tokens);
    declare("rows", SymRole::rows, options.max_tokens);
  }
  declare("seqs", SymRole::seqs, options.max_seqs);
  declare("pages", SymRole::pages, options.max_seqs * seq_pages);
  declare("slots", SymRole::slots, options.max_seqs);
  tokens_ = SymExpr::symbol(mixed() ? "tokens" : "seqs");
}

void Builder::declare_step_inputs() {
  const SymExpr seqs = SymExpr::symbol("seqs");
  auto input = [&](std::string name, std::vector<SymExpr> shape, Contract contract) {
    return graph_.add_input(std::move(name), {DType::i32, std::move(shape)}, std::move(contract));
  };
  pos =
      input("pos", {tokens_}, {.lo = 0, .hi = SymExpr(options_.max_context), .consecutive = true});
  if (mixed()) {
    seq_start = input("seq_start", {seqs + 1},
                      {.lo = 0, .hi = tokens_ + 1, .monotone = true, .total = tokens_});
  }
  ctx = input("ctx", {seqs}, {.lo = 0, .hi = SymExpr(options_.max_context)});
  slot = input("slot", {seqs},
               {.lo = -1, .hi = SymExpr::symbol("slots"), .distinct = true, .masked = true});
  const int64_t seq_pages =
      (options_.max_context + options_.page_tokens - 1) / options_.page_tokens;
  pages = input("pages", {seqs, seq_pages},
                {.lo = -1, .hi = SymExpr::symbol("pages"), .distinct = true, .masked = true});
}

ValueId Builder::op(std::string_view kind, std::vector<ValueId> inputs, Attrs attrs,
                    std::string_view name, std::string_view where) {
  return ops(kind, std::move(inputs), std::move(attrs), {std::string(name)}, where)[0];
}

std::vector<ValueId> Builder::ops(std::string_view kind, std::vector<ValueId> inputs, Attrs attrs,
                                  std::vector<std::string> names, std::string_view where) {
  const size_t count = names.size();
  if (error_) return std::vector<ValueId>(count);
  for (std::string& name : names) name = named(name);
  auto result =
      graph_.add_op(kind, std::move(inputs), std::move(attrs), named(where), std::move(names));
  if (!result) {
    error_ = std::move(result).error();
    return std::vector<ValueId>(count);
  }
  return *std::move(result);
}

DType Builder::weight_dtype(std::string_view tensor) const {
  const auto found = dtypes_.find(named(tensor));
  GM_CHECK(found != dtypes_.end(), "no stored dtype of {}", named(tensor));
  return found->second;
}

namespace {

std::string_view without_suffix(std::string_view tensor) {
  return tensor.ends_with(".weight") ? tensor.substr(0, tensor.size() - 7) : tensor;
}

}  // namespace

ValueId Builder::weight(std::string_view tensor, std::vector<int64_t> stored_shape,
                        int dropped_axis) {
  const std::string name = named(without_suffix(tensor));
  if (const auto known = graph_.find_value(name)) return *known;
  TensorType type{weight_dtype(tensor), {}};
  for (size_t axis = 0; axis < stored_shape.size(); ++axis) {
    if (static_cast<int>(axis) != dropped_axis) type.shape.emplace_back(stored_shape[axis]);
  }
  return graph_.add_weight(name, std::move(type),
                           {.tensor = named(tensor), .stored_shape = std::move(stored_shape)});
}

ValueId Builder::weight_rows(std::string_view tensor, std::vector<int64_t> stored_shape,
                             int64_t begin, int64_t end, std::string_view name) {
  TensorType type{weight_dtype(tensor), {stored_shape.begin(), stored_shape.end()}};
  type.shape[1] = end - begin;
  return graph_.add_weight(named(name), std::move(type),
                           {.tensor = named(tensor),
                            .stored_shape = std::move(stored_shape),
                            .slice_axis = 1,
                            .slice_begin = begin,
                            .slice_end = end});
}

ValueId Builder::weight_series(std::string_view tensor, std::vector<int64_t> stored_shape,
                               int64_t count, std::string_view name) {
  std::string first(tensor);
  first.replace(first.find('*'), 1, "0");
  TensorType type{weight_dtype(first), {stored_shape.begin(), stored_shape.end()}};
  type.shape.insert(type.shape.begin(), SymExpr(count));
  return graph_.add_weight(
      named(name), std::move(type),
      {.tensor = named(tensor), .stored_shape = std::move(stored_shape), .series = count});
}

ValueId Builder::weight_groups(std::string_view tensor, std::vector<int64_t> stored_shape,
                               int64_t groups, std::vector<std::pair<int64_t, int64_t>> ranges,
                               std::string_view name) {
  TensorType type{weight_dtype(tensor), {stored_shape.begin(), stored_shape.end()}};
  int64_t rows = 0;
  for (const auto& [begin, end] : ranges) rows += (end - begin) * groups;
  type.shape[0] = rows;
  return graph_.add_weight(named(name), std::move(type),
                           {.tensor = named(tensor),
                            .stored_shape = std::move(stored_shape),
                            .groups = groups,
                            .ranges = std::move(ranges)});
}

ValueId Builder::state(std::string_view name, DType dtype, std::vector<SymExpr> shape) {
  return graph_.add_state(named(name), {dtype, std::move(shape)});
}

void Builder::state_output(std::string_view name, ValueId value) {
  if (!error_) graph_.add_state_output(named(name), value);
}

void Builder::output(std::string name, ValueId value) {
  if (!error_) graph_.add_output(std::move(name), value);
}

std::vector<ValueId> Builder::with_sequences(std::vector<ValueId> inputs) const {
  if (step_ == StepClass::mixed) inputs.push_back(seq_start);
  return inputs;
}

ValueId Builder::linear(ValueId x, std::string_view tensor, int64_t rows, int64_t columns,
                        std::string_view name) {
  const ValueId w = weight(tensor, {rows, columns});
  return op("linear", {x, w}, {{"dtype", act_name()}}, name, without_suffix(tensor));
}

ValueId Builder::zero_centred_norm(ValueId x, std::string_view tensor, int64_t width,
                                   std::string_view name) {
  const ValueId w = weight(tensor, {width});
  return op("rms_norm", {x, w}, {{"eps", config_.eps}, {"zero_centred", true}}, name,
            without_suffix(tensor));
}

ValueId Builder::slice(ValueId x, int64_t axis, int64_t begin, int64_t end, std::string_view name,
                       std::string_view where) {
  return op("slice", {x}, {{"axis", axis}, {"begin", begin}, {"end", end}}, name, where);
}

ValueId Builder::split(ValueId x, int64_t axis, std::vector<int64_t> sizes, std::string_view name,
                       std::string_view where) {
  return op("split_axis", {x}, {{"axis", axis}, {"sizes", std::move(sizes)}}, name, where);
}

ValueId Builder::merge(ValueId x, int64_t axis, std::string_view name, std::string_view where) {
  return op("merge_axes", {x}, {{"axis", axis}}, name, where);
}

std::pair<ValueId, ValueId> Builder::rotary() {
  if (rotary_) return *rotary_;
  const std::string outer = std::exchange(prefix_, "rope");
  const int64_t pairs = config_.rotary_dims / 2;
  const ValueId inv_freq = graph_.add_weight(
      "rope.inv_freq", {DType::f32, {pairs}},
      {.tensor = "", .stored_shape = {pairs}, .values = rotary_frequencies(config_)});
  const ValueId position =
      op("cast", {pos}, {{"dtype", std::string("f32")}}, "position", "position");
  const ValueId column = split(position, 0, {-1, 1}, "column", "position");
  const ValueId angle = op("mul", {column, inv_freq}, {}, "angle", "angle");
  // YaRN's factor comes before the rounding.
  const double factor = config_.yarn ? config_.yarn->attention_factor : 1.0;
  auto turned = [&](const std::string& kind) {
    const Attrs act = {{"dtype", act_name()}};
    if (factor == 1.0) return op(kind, {angle}, act, kind, kind);
    const ValueId plain = op(kind, {angle}, {{"dtype", std::string("f32")}}, kind + "_plain", kind);
    return op("scale", {plain},
              {{"value", double{static_cast<float>(factor)}}, {"dtype", act_name()}}, kind,
              "attention_factor");
  };
  const ValueId cosine = turned("cos");
  const ValueId sine = turned("sin");
  prefix_ = outer;
  rotary_ = {cosine, sine};
  return *rotary_;
}

Result<Graph> Builder::finish() && {
  if (error_) return Error(*std::move(error_));
  return std::move(graph_);
}

}  // namespace gm::qwen35
