// What a step has to do, counted from the plan's graph: the bytes that no implementation can leave
// out, and the multiply-adds. Activations are not counted; they stay in caches.
#pragma once

#include "base/diag.h"
#include "plan/plan.h"

namespace gm {

struct StepShape {
  int64_t tokens = 1;  // in all
  int64_t seqs = 1;
  int64_t rows = 1;     // rows of logits
  int64_t context = 0;  // tokens of a sequence before the step
};

struct StepWork {
  int64_t weight_bytes =
      0;                    // each weight once. Of embeddings the rows of the tokens; of experts as
                            // many as the tokens may choose, so at most this with several tokens
  int64_t state_bytes = 0;  // read and written
  int64_t kv_bytes = 0;     // read, and the tokens' own written
  int64_t bytes() const { return weight_bytes + state_bytes + kv_bytes; }
  double multiply_adds = 0;  // of matrices, attention, the delta rule and convolutions
};

Result<StepWork> count_work(const Plan& plan, const std::string& program, const StepShape& shape);

}  // namespace gm
