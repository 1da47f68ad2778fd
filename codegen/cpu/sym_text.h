// A SymExpr as a tree that code can be made from: its canonical text, taken apart again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gm::cpu {

struct SymTree {
  enum class Kind : uint8_t {
    number,
    symbol,
    add,
    sub,
    mul,
    neg,
    ceildiv,
    floordiv,
    mod,
    min,
    max
  };
  Kind kind{};
  int64_t number = 0;
  std::string name;
  std::vector<SymTree> args;
};

// `text` must come from SymExpr::to_string: anything else is our own bug (GM_CHECK).
SymTree parse_sym_tree(std::string_view text);

}  // namespace gm::cpu
