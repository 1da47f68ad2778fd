// Which tokens of which sequences make the next step. Requests are admitted in their order, as
// slots and pages for their whole length become free, so that one that runs can always go on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/diag.h"
#include "runtime/instance.h"
#include "runtime/state_pool.h"
#include "runtime/step.h"

namespace gm {

struct Request;

// One row of the logits of a step.
struct StepRow {
  size_t request = 0;
  int64_t row = 0;
  bool samples = false;  // the row of the last token so far: the next one comes from it
};

class Scheduler {
 public:
  // `all_rows`: a row of logits for each token. The requests and the instance must outlive the
  // scheduler.
  static Result<Scheduler> create(Instance& instance, std::span<const Request> requests,
                                  std::vector<int64_t> chunks, bool all_rows);

  // Fills the next step; false when every request has finished. Then, for each row that samples, in
  // order: append() or finish().
  bool next(Step& step);
  std::span<const StepRow> rows() const { return rows_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }  // of the last step

  // The token that follows; it is fed in the next step.
  void append(size_t request, int32_t id);
  // Slot and pages are free for others from the next step on.
  void finish(size_t request);
  // What the request may generate: its own limit or what is left of the context.
  int64_t most_tokens(size_t request) const { return sequences_[request].most_tokens; }

 private:
  struct Sequence {
    std::vector<int32_t> ids;  // prompt, then what was generated
    int64_t prompt = 0;
    int64_t done = 0;  // tokens in the states
    int64_t most_tokens = 0;
    int64_t promised_pages = 0;
    size_t next_chunk = 0;
    int32_t slot = -1;
    std::vector<int32_t> pages;
  };

  Scheduler(Instance& instance, std::vector<int64_t> chunks, bool all_rows);
  Result<> add(const Request& request, size_t index);
  void admit();
  int64_t piece(Sequence& sequence, int64_t tokens_left, int64_t rows_left);
  void place(Step& step, size_t index, int64_t count);

  Instance* instance_;
  std::vector<int64_t> chunks_;
  bool all_rows_;
  std::vector<Sequence> sequences_;
  std::vector<size_t> running_;  // in the order of admission
  size_t waiting_ = 0;           // the first that was not admitted
  IdPool slots_;
  PageAllocator pages_;
  int64_t table_columns_ = 0;
  int64_t max_tokens_ = 0;  // of a mixed step
  std::vector<StepRow> rows_;
  int64_t prompt_tokens_ = 0;
};

}  // namespace gm
