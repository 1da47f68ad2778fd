// Symbolic integers of a kernel with their names resolved to numbered slots: as a tree that the
// compiler of expressions takes apart, and as code that is run on the slots' values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/sym.h"

namespace gm::tile_vm {

struct SymTree {
  enum class Kind : uint8_t { constant, slot, add, mul, floordiv, ceildiv, mod, min, max } kind{};
  int64_t value = 0;  // constant; slot number
  std::vector<SymTree> args;

  bool uses(int slot) const;
};

// `slot_of` gives a symbol's slot or -1. Nothing if a symbol has none: `unknown` is its name.
std::optional<SymTree> resolve(const SymExpr& e,
                               const std::function<int(std::string_view)>& slot_of,
                               std::string& unknown);

class SymCode {
 public:
  SymCode() = default;  // 0
  explicit SymCode(const SymTree& tree);

  int64_t evaluate(const int64_t* slots) const;
  // The greatest depth(slot) of the slots used, at least 0.
  template <class Depth>
  int depth(const Depth& depth_of) const {
    int result = 0;
    for (const auto& [coefficient, slot] : terms_) result = std::max(result, depth_of(slot));
    for (const Step& step : steps_)
      if (step.kind == SymTree::Kind::slot)
        result = std::max(result, depth_of(static_cast<int>(step.value)));
    return result;
  }
  bool is_constant() const { return terms_.empty() && steps_.empty(); }
  bool operator==(const SymCode&) const = default;

 private:
  struct Term {
    int64_t coefficient;
    int slot;
    bool operator==(const Term&) const = default;
  };
  struct Step {  // of a stack machine; functions take `count` operands
    SymTree::Kind kind;
    int64_t value;
    int count;
    bool operator==(const Step&) const = default;
  };
  bool linear(const SymTree& tree, int64_t factor);
  void flatten(const SymTree& tree, int height);

  int64_t constant_ = 0;
  std::vector<Term> terms_;
  std::vector<Step> steps_;  // if not empty, instead of the two above
};

}  // namespace gm::tile_vm
