// One step as the host describes it: the program, its extents and its inputs. Before anything runs,
// every input is held against the contract that the plan declares for it, since the kernels believe
// what the contract says.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/diag.h"
#include "plan/plan.h"

namespace gm {

// A program has the inputs that it declares; those it lacks (seq_start and logit_row of decode) are
// not looked at.
struct Step {
  std::string program;  // "decode", "mixed", "layer.3.mixed"
  int64_t tokens = 0, seqs = 0, rows = 0;
  std::vector<int32_t> ids, pos, seq_start, ctx, slot, pages, logit_row;
  std::vector<float> x;  // of programs of one layer: rounded to the input's dtype

  // By the name of a slot; nothing if steps have no i32 input of the name.
  const std::vector<int32_t>* find(std::string_view input) const;
  void clear();  // keeps the capacity
};

using SymValues = std::map<std::string, int64_t, std::less<>>;

// The elements against the slot's contract. `seq_start` says where sequences begin (empty: each is
// one element).
Result<> check_contract(const Slot& slot, std::span<const int32_t> values,
                        std::span<const int32_t> seq_start, const SymValues& dims,
                        std::vector<uint8_t>& seen);

}  // namespace gm
