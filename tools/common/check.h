// What `check` does with a plan that is ready to run: the whole model on each prompt of the
// goldens, then each layer by itself on the reference's own input. One line a case, one line a
// layer.
#pragma once

#include <functional>
#include <string>

#include "runtime/instance.h"
#include "tools/common/goldens.h"

namespace gm {

class CheckTally {
 public:
  explicit CheckTally(std::function<void(const std::string&)> print) : print_(std::move(print)) {}
  void add(bool passed, const std::string& line);
  int passed() const { return passed_; }
  int failed() const { return failed_; }

 private:
  std::function<void(const std::string&)> print_;
  int passed_ = 0, failed_ = 0;
};

// f32 plans: logits, hidden states and greedy logits to 1e-4, and every greedy token. bf16 plans:
// prompt logits no further from f32 than the reference's own bf16 run by more than a quarter.
Result<> check_cases(Instance& instance, const Goldens& goldens, CheckTally& tally);

// bf16 plans: a layer's output elements that differ from the reference's, for 67 tokens and for one
// more behind the reference's states; and the states themselves.
Result<> check_layers(Instance& instance, const Goldens& goldens, CheckTally& tally);

// The plan must have the programs and outputs that the checks read.
Result<> require_check_outputs(const Plan& plan, const std::string& file);

// `what` has at least one token, and the plan's context has room for `more` behind them.
Result<> require_room(const Plan& plan, const std::string& what, int64_t tokens, int64_t more);

// A step of one sequence in slot 0 with its pages from 0 on, for which there is room: tokens [done,
// done + count).
Step one_sequence(const Instance& instance, std::string program, int64_t done, int64_t count);

// ||a - b|| / ||b||, infinite if a is not of b's size or not finite.
double relative_error(std::span<const float> a, std::span<const float> b);

}  // namespace gm
