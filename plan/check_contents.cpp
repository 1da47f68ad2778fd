#include <algorithm>
#include <cmath>
#include <set>

#include "plan/check_parts.h"
#include "plan/plan_json.h"

namespace gm::check {
namespace {

constexpr int64_t kPanelWidth = 32;

struct Fault {
  Location at;

  template <class... A>
  Error operator()(Code code, fmt::format_string<A...> text, A&&... args) const {
    return err(code, at, std::string(kFix), text, std::forward<A>(args)...);
  }
};

// Sorted and each once; programs only the latter, since their order is the compiler's choice.
template <class T>
Result<> check_names(const std::vector<T>& list, bool sorted, std::string_view what,
                     const std::string& file, std::string_view field) {
  std::set<std::string_view> seen;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string& name = list[i].name;
    const Fault fault{Location::of_path(file, fmt::format("{}[{}].name", field, i))};
    if (name.empty()) return fault(Code::plan_names, "a {} has no name", what);
    if (!seen.insert(name).second) {
      return fault(Code::plan_names, "two {}s have the name {}", what, name);
    }
    if (sorted && i > 0 && name < list[i - 1].name) {
      return fault(Code::plan_names, "{} {} is listed after {}, but they are sorted by name", what,
                   name, list[i - 1].name);
    }
  }
  return {};
}

Result<> check_kernel(const Plan& plan, const PlanKernel& kernel, const Location& at) {
  const Fault fault{at};
  std::set<std::string_view> dims;
  for (const std::string& dim : kernel.dims) {
    if (!dims.insert(dim).second) {
      return fault(Code::plan_kernel, "kernel {} takes dim {} twice", kernel.name, dim);
    }
  }
  std::set<std::string_view> params;
  for (const std::string& param : kernel.params) {
    if (!params.insert(param).second) {
      return fault(Code::plan_kernel, "kernel {} has two parameters {}", kernel.name, param);
    }
  }
  if (kernel.part_items.empty()) {
    return fault(Code::plan_kernel, "kernel {} has no parts", kernel.name);
  }
  for (const SymExpr& items : kernel.part_items) {
    if (items.is_too_large()) {
      return fault(Code::plan_kernel, "kernel {} has a part of too many work items", kernel.name);
    }
    for (const std::string& symbol : items.symbols()) {
      if (!dims.contains(symbol)) {
        return fault(Code::plan_kernel, "kernel {} has {} work items, but {} is none of its dims",
                     kernel.name, items.to_string(), symbol);
      }
    }
  }
  if (kernel.scratch_bytes < 0) {
    return fault(Code::plan_kernel, "kernel {} needs {} bytes of scratch memory", kernel.name,
                 kernel.scratch_bytes);
  }
  if (!plan.texts.contains(kernel.text_member)) {
    return fault(Code::plan_text, "kernel {} has its text in {}, which the plan lacks", kernel.name,
                 kernel.text_member);
  }
  if (kernel.symbol.empty() == (plan.stage == "native")) {
    return fault(Code::plan_kernel, "kernel {} has {} function, but the plan's stage is {}",
                 kernel.name, kernel.symbol.empty() ? "no" : "a", plan.stage);
  }
  return {};
}

Result<> check_state(const StateBuffer& state, const Location& at) {
  const Fault fault{at};
  if (state.shape.empty() || state.shape.size() > kMaxRank) {
    return fault(Code::plan_state, "state {} has {} axes", state.name, state.shape.size());
  }
  const std::optional<std::string> outermost = state.shape[0].as_symbol();
  if (outermost != "slots" && outermost != "pages") {
    return fault(Code::plan_state, "the outermost extent of state {} is {}, not slots or pages",
                 state.name, state.shape[0].to_string());
  }
  if (state.dtype == DType::pred) {
    return fault(Code::plan_state, "state {} has dtype pred, which has no form in memory",
                 state.name);
  }
  int64_t bytes = size_bytes(state.dtype);
  for (size_t i = 1; i < state.shape.size(); ++i) {
    const std::optional<int64_t> extent = state.shape[i].constant();
    if (!extent) {
      return fault(Code::plan_state, "extent {} of state {} is {}, but only the outermost may vary",
                   i, state.name, state.shape[i].to_string());
    }
    if (*extent < 0 || __builtin_mul_overflow(bytes, *extent, &bytes)) {
      return fault(Code::plan_size, "one entry of state {} has no size in 64 bits", state.name);
    }
  }
  return {};
}

Result<> check_texts(const Plan& plan, const std::string& file) {
  const Fault fault{Location::of_file(file)};
  if (plan.stage != "native" && plan.stage != "kernels") {
    return fault(Code::plan_text, "the plan's stage is \"{}\", not native or kernels", plan.stage);
  }
  if (plan.shared_object.empty() == (plan.stage == "native")) {
    return fault(Code::plan_text, "the plan's stage is {}, but it has {} native code", plan.stage,
                 plan.shared_object.empty() ? "no" : "some");
  }
  for (const auto& [name, text] : plan.texts) {
    if (!is_text_member(name)) {
      return fault(Code::plan_text, "a plan has no text of the name {}", name);
    }
  }
  return {};
}

Result<> check_limits(const Plan& plan, const std::string& file) {
  const std::pair<std::string_view, int64_t> least_one[] = {
      {"limits.max_context", plan.limits.max_context},
      {"limits.max_seqs", plan.limits.max_seqs},
      {"limits.max_tokens", plan.limits.max_tokens},
      {"limits.page_tokens", plan.limits.page_tokens},
      {"model.vocab", plan.model.vocab},
      {"model.hidden", plan.model.hidden}};
  for (const auto& [path, value] : least_one) {
    const Fault fault{Location::of_path(file, std::string(path))};
    if (value < 1)
      return fault(Code::plan_limits, "{} is {}, but at least 1 is needed", path, value);
  }
  for (size_t i = 0; i < plan.model.stop_ids.size(); ++i) {
    const Fault fault{Location::of_path(file, fmt::format("model.stop_ids[{}]", i))};
    const int64_t id = plan.model.stop_ids[i];
    if (id < 0) return fault(Code::plan_limits, "stop id {} is negative", id);
  }
  return {};
}

Result<> check_series_and_groups(const WeightBuffer& weight, const WeightPart& part,
                                 const Fault& fault) {
  if ((part.slice_axis != -1) + (part.series != 0) + (part.groups != 0) > 1) {
    return fault(Code::plan_recipe, "a part of weight {} has two of slice, series and groups",
                 weight.name);
  }
  if (part.series < 0 || std::ranges::count(part.tensor, '*') != (part.series != 0)) {
    return fault(Code::plan_recipe, "a part of weight {} is a series of {} tensors named \"{}\"",
                 weight.name, part.series, part.tensor);
  }
  if (part.groups == 0 && part.ranges.empty()) return {};
  const int64_t rows = part.stored_shape.empty() ? 0 : part.stored_shape[0];
  if (part.groups < 1 || part.ranges.empty() || rows < 1 || rows % part.groups != 0) {
    return fault(Code::plan_recipe, "a part of weight {} takes {} ranges of {} groups of {} rows",
                 weight.name, part.ranges.size(), part.groups, rows);
  }
  int64_t taken = 0;
  for (const auto& [begin, end] : part.ranges) {
    if (begin < 0 || begin >= end || end > rows / part.groups) {
      return fault(Code::plan_recipe, "a part of weight {} takes rows {} to {} of groups of {}",
                   weight.name, begin, end, rows / part.groups);
    }
    if (__builtin_add_overflow(taken, (end - begin) * part.groups, &taken)) {
      return fault(Code::plan_size, "a part of weight {} has no size in 64 bits", weight.name);
    }
  }
  return {};
}

// The number of elements that a part gives.
Result<int64_t> part_elements(const WeightBuffer& weight, const WeightPart& part,
                              const Fault& fault) {
  if (part.tensor.empty() == part.values.empty()) {
    return fault(Code::plan_recipe, "a part of weight {} must have either a tensor or values",
                 weight.name);
  }
  if (part.stored_shape.size() > kMaxRank) {
    return fault(Code::plan_recipe, "a part of weight {} has {} axes", weight.name,
                 part.stored_shape.size());
  }
  const int rank = static_cast<int>(part.stored_shape.size());
  if (part.slice_axis < -1 || part.slice_axis >= rank) {
    return fault(Code::plan_recipe, "a part of weight {} takes rows of axis {} of {}", weight.name,
                 part.slice_axis, rank);
  }
  GM_TRY(check_series_and_groups(weight, part, fault));
  if (part.slice_axis >= 0) {
    const int64_t extent = part.stored_shape[static_cast<size_t>(part.slice_axis)];
    if (part.slice_begin < 0 || part.slice_begin >= part.slice_end || part.slice_end > extent) {
      return fault(Code::plan_recipe, "a part of weight {} takes rows {} to {} of {}", weight.name,
                   part.slice_begin, part.slice_end, extent);
    }
  }
  int64_t elements = 1;
  for (const int64_t extent : part_shape(part)) {
    if (extent < 1 || __builtin_mul_overflow(elements, extent, &elements)) {
      return fault(Code::plan_size, "a part of weight {} has no size in 64 bits", weight.name);
    }
  }
  if (!part.values.empty()) {
    const auto count = static_cast<int64_t>(part.values.size());
    if (part.slice_axis != -1 || part.series != 0 || part.groups != 0 ||
        (rank > 0 && elements != count)) {
      return fault(Code::plan_recipe, "a part of weight {} has {} values for {} elements",
                   weight.name, count, elements);
    }
    elements = count;
    for (const double value : part.values) {
      // By magnitude first: the conversion of a double that f32 cannot hold is undefined.
      if (!(std::abs(value) <= 3.4028234663852886e38) ||
          static_cast<double>(static_cast<float>(value)) != value) {
        return fault(Code::plan_recipe, "value {} of weight {} is not exact in f32", value,
                     weight.name);
      }
    }
  }
  return elements;
}

}  // namespace

Result<> check_recipe(const WeightBuffer& weight, const Location& at) {
  const Fault fault{at};
  if (weight.dtype == DType::pred) {
    return fault(Code::plan_recipe, "weight {} has dtype pred, which has no form in memory",
                 weight.name);
  }
  if (weight.shape.size() > kMaxRank) {
    return fault(Code::plan_recipe, "weight {} has {} axes", weight.name, weight.shape.size());
  }
  int64_t elements = 1, bytes = 0;
  for (const int64_t extent : weight.shape) {
    if (extent < 1 || __builtin_mul_overflow(elements, extent, &elements)) {
      return fault(Code::plan_size, "weight {} has no size in 64 bits", weight.name);
    }
  }
  if (__builtin_mul_overflow(elements, size_bytes(weight.dtype), &bytes)) {
    return fault(Code::plan_size, "weight {} has no size in 64 bits", weight.name);
  }
  const bool panels = weight.layout == "panels";
  const bool transposed = weight.layout == "transposed";
  if (!panels && !transposed && weight.layout != "dense") {
    return fault(Code::plan_recipe, "weight {} has layout \"{}\", not dense, panels or transposed",
                 weight.name, weight.layout);
  }
  const size_t rank = weight.shape.size();
  if (!panels) {
    if (weight.parts.size() != 1 || weight.parts[0].panel_offset != 0) {
      return fault(Code::plan_recipe, "weight {} is {}, so it has one part and no panels",
                   weight.name, weight.layout);
    }
    if (transposed && rank != 2) {
      return fault(Code::plan_recipe, "weight {} is transposed, but has {} axes", weight.name,
                   rank);
    }
    GM_ASSIGN(const int64_t given, part_elements(weight, weight.parts[0], fault));
    if (given != elements) {
      return fault(Code::plan_recipe, "weight {} has {} elements, but its part gives {}",
                   weight.name, elements, given);
    }
    // Unit axes come and go; the others must be there in order, or swapped.
    const WeightPart& part = weight.parts[0];
    std::vector<int64_t> source = part_shape(part), target = weight.shape;
    if (source.empty()) source.push_back(given);
    if (transposed) std::swap(target[0], target[1]);
    std::erase(source, 1);
    std::erase(target, 1);
    if (part.values.empty() && source != target) {
      return fault(Code::plan_recipe,
                   "weight {} has shape [{}], which its part of [{}] cannot fill", weight.name,
                   fmt::join(weight.shape, ", "), fmt::join(source, ", "));
    }
    return {};
  }
  if (rank < 3 || weight.shape[rank - 1] != kPanelWidth) {
    return fault(Code::plan_recipe, "weight {} of panels has shape [{}], not [..., panels, K, {}]",
                 weight.name, fmt::join(weight.shape, ", "), kPanelWidth);
  }
  int64_t row = weight.shape[rank - 2];  // elements of one n in all leading entries
  for (size_t i = 0; i + 3 < rank; ++i) row *= weight.shape[i];
  int64_t next = 0;
  for (size_t i = 0; i < weight.parts.size(); ++i) {
    const WeightPart& part = weight.parts[i];
    GM_ASSIGN(const int64_t given, part_elements(weight, part, fault));
    if (given % row != 0) {
      return fault(Code::plan_recipe, "part {} of weight {} has {} elements, not a multiple of {}",
                   i, weight.name, given, row);
    }
    if (part.panel_offset != next) {
      return fault(Code::plan_recipe, "part {} of weight {} begins at panel {}, not at {}", i,
                   weight.name, part.panel_offset, next);
    }
    const int64_t n = given / row;
    next += n / kPanelWidth + (n % kPanelWidth != 0);
    if (next > weight.shape[rank - 3]) break;  // reported below; the sum stays small
  }
  if (next != weight.shape[rank - 3]) {
    return fault(Code::plan_recipe, "weight {} has {} panels, but its parts give {}", weight.name,
                 weight.shape[rank - 3], next);
  }
  return {};
}

Result<> check_contents(const Plan& plan, const std::string& file) {
  const std::string program = file + ": program.json";
  const std::string weights = file + ": weights.json";
  GM_TRY(check_limits(plan, file + ": manifest.json"));
  GM_TRY(check_texts(plan, file));
  if (plan.programs.empty()) {
    return err(Code::plan_names, Location::of_path(program, "programs"), std::string(kFix),
               "the plan has no program");
  }
  GM_TRY(check_names(plan.programs, false, "program", program, "programs"));
  GM_TRY(check_names(plan.kernels, true, "kernel", program, "kernels"));
  GM_TRY(check_names(plan.states, true, "state", program, "states"));
  GM_TRY(check_names(plan.weights, true, "weight", weights, "weights"));
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    if (!plan.texts.contains(plan.programs[i].graph)) {
      return err(Code::plan_text, Location::of_path(program, fmt::format("programs[{}].graph", i)),
                 std::string(kFix), "program {} has its graph in {}, which the plan lacks",
                 plan.programs[i].name, plan.programs[i].graph);
    }
  }
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    GM_TRY(check_kernel(plan, plan.kernels[i],
                        Location::of_path(program, fmt::format("kernels[{}]", i))));
  }
  for (size_t i = 0; i < plan.states.size(); ++i) {
    GM_TRY(check_state(plan.states[i], Location::of_path(program, fmt::format("states[{}]", i))));
  }
  for (size_t i = 0; i < plan.weights.size(); ++i) {
    GM_TRY(
        check_recipe(plan.weights[i], Location::of_path(weights, fmt::format("weights[{}]", i))));
  }
  return {};
}

}  // namespace gm::check
