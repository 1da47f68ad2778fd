#include "runtime/step.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace gm {

const std::vector<int32_t>* Step::find(std::string_view input) const {
  const std::array<std::pair<std::string_view, const std::vector<int32_t>*>, 7> inputs = {{
      {"ids", &ids},
      {"pos", &pos},
      {"seq_start", &seq_start},
      {"ctx", &ctx},
      {"slot", &slot},
      {"pages", &pages},
      {"logit_row", &logit_row},
  }};
  for (const auto& [name, values] : inputs) {
    if (name == input) return values;
  }
  return nullptr;
}

void Step::clear() {
  tokens = seqs = rows = 0;
  for (auto* values : {&ids, &pos, &seq_start, &ctx, &slot, &pages, &logit_row}) values->clear();
  x.clear();
}

Result<> check_contract(const Slot& slot, std::span<const int32_t> values,
                        std::span<const int32_t> seq_start, const SymValues& dims,
                        std::vector<uint8_t>& seen) {
  if (!slot.contract) return {};
  const InputContract& contract = *slot.contract;
  const auto where = [&](size_t i) {
    return Location::of_path("step", fmt::format("{}[{}]", slot.name, i));
  };
  const auto value_of = [&](const SymExpr& e) {
    const std::optional<int64_t> value = e.evaluate(dims);
    GM_CHECK(value.has_value(), "contract of {}: {} has no value", slot.name, e.to_string());
    return *value;
  };
  const char* const fix = "give inputs that keep the contract of the plan's step signature";
  const int64_t lo = value_of(contract.lo);
  const int64_t hi = contract.hi ? value_of(*contract.hi) : int64_t{INT32_MAX} + 1;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < lo || values[i] >= hi) {
      return err(Code::step_range, where(i), fix,
                 "{}[{}] is {}, but must be at least {} and below {}", slot.name, i, values[i], lo,
                 hi);
    }
  }
  if (contract.monotone) {
    if (!values.empty() && values[0] != 0) {
      return err(Code::step_order, where(0), fix, "{}[0] is {}, but must be 0", slot.name,
                 values[0]);
    }
    for (size_t i = 1; i < values.size(); ++i) {
      if (values[i] < values[i - 1]) {
        return err(Code::step_order, where(i), fix, "{}[{}] is {}, but {}[{}] before it is {}",
                   slot.name, i, values[i], slot.name, i - 1, values[i - 1]);
      }
    }
    if (contract.total && !values.empty() && values.back() != value_of(*contract.total)) {
      return err(Code::step_order, where(values.size() - 1), fix, "{}[{}] is {}, but must be {}",
                 slot.name, values.size() - 1, values.back(), value_of(*contract.total));
    }
  }
  if (contract.distinct) {
    // All elements are within [lo, hi), so `seen` is as large as the pool that they index.
    seen.assign(static_cast<size_t>(std::max<int64_t>(hi, 0)), 0);
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] < 0) continue;
      if (std::exchange(seen[static_cast<size_t>(values[i])], 1) != 0) {
        const auto first = std::find(values.begin(), values.end(), values[i]) - values.begin();
        return err(Code::step_distinct, where(i), fix, "{}[{}] is {}, as {}[{}] is already",
                   slot.name, i, values[i], slot.name, first);
      }
    }
  }
  if (contract.consecutive && !seq_start.empty()) {
    for (size_t s = 0; s + 1 < seq_start.size(); ++s) {
      for (auto i = static_cast<size_t>(seq_start[s]) + 1;
           i < static_cast<size_t>(seq_start[s + 1]); ++i) {
        if (int64_t{values[i]} != int64_t{values[i - 1]} + 1) {
          return err(
              Code::step_consecutive, where(i), fix,
              "{}[{}] is {}, but must be {}, one after the position before it in sequence {}",
              slot.name, i, values[i], int64_t{values[i - 1]} + 1, s);
        }
      }
    }
  }
  return {};
}

}  // namespace gm
