#include "runtime/scheduler.h"

#include <algorithm>

#include "runtime/generator.h"

namespace gm {

Scheduler::Scheduler(Instance& instance, std::vector<int64_t> chunks, bool all_rows)
    : instance_(&instance),
      chunks_(std::move(chunks)),
      all_rows_(all_rows),
      slots_(instance.sizes().slots),
      pages_(instance.sizes().pages, instance.plan().limits.page_tokens),
      max_tokens_(instance.plan().limits.max_tokens) {
  const PlanLimits& limits = instance.plan().limits;
  table_columns_ = instance.executor()
                       .input_extent("mixed", "pages", 1)
                       .value_or(pages_.pages_for(limits.max_context));
}

Result<Scheduler> Scheduler::create(Instance& instance, std::span<const Request> requests,
                                    std::vector<int64_t> chunks, bool all_rows) {
  Scheduler scheduler(instance, std::move(chunks), all_rows);
  scheduler.sequences_.reserve(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) GM_TRY(scheduler.add(requests[i], i));
  return scheduler;
}

Result<> check_request(const Plan& plan, const Request& request, size_t index) {
  const PlanLimits& limits = plan.limits;
  const auto length = static_cast<int64_t>(request.ids.size());
  const auto at = [&](std::string_view field) {
    return Location::of_path({}, fmt::format("requests[{}].{}", index, field));
  };
  if (request.ids.empty()) {
    return err(Code::request_prompt, at("ids"), "give a prompt of at least one token",
               "the prompt of request {} is empty", index);
  }
  for (size_t i = 0; i < request.ids.size(); ++i) {
    if (request.ids[i] >= 0 && request.ids[i] < plan.model.vocab) continue;
    return err(Code::request_prompt, at(fmt::format("ids[{}]", i)),
               fmt::format("give ids of 0 to {}", plan.model.vocab - 1),
               "token {} of request {} is {}, but the model has ids 0 to {}", i, index,
               request.ids[i], plan.model.vocab - 1);
  }
  if (request.max_tokens < 0) {
    return err(Code::request_length, at("max_tokens"), "give 0 or more",
               "request {} asks for {} tokens", index, request.max_tokens);
  }
  const SamplingNames names{.where = at, .named = [&](std::string_view field) {
                              return fmt::format("{} of request {}", field, index);
                            }};
  GM_TRY(check_sampling(request.sampling, names));
  GM_TRY(check_stop_strings(request.stop, names));
  if (request.logprobs) GM_TRY(check_logprobs(*request.logprobs, names));
  if (length > limits.max_context) {
    return err(
        Code::request_length, at("ids"),
        "give a shorter prompt, or compile with a greater --max-context",
        "the prompt of request {} has {} tokens, but the plan was compiled for a context of {}",
        index, length, limits.max_context);
  }
  return {};
}

Result<> Scheduler::add(const Request& request, size_t index) {
  GM_TRY(check_request(instance_->plan(), request, index));
  const PlanLimits& limits = instance_->plan().limits;
  const auto length = static_cast<int64_t>(request.ids.size());
  Sequence sequence;
  sequence.ids = request.ids;
  sequence.prompt = length;
  // The last token is never fed, so one more fits than the context has places.
  sequence.most_tokens = std::min(request.max_tokens, limits.max_context - length + 1);
  const int64_t cached = length + std::max<int64_t>(sequence.most_tokens - 1, 0);
  sequence.promised_pages = pages_.pages_for(cached);
  if (sequence.promised_pages > pages_.total()) {
    return err(
        Code::request_pages, Location::of_path({}, fmt::format("requests[{}].max_tokens", index)),
        fmt::format("give --kv-tokens of at least {}, or ask for fewer tokens",
                    sequence.promised_pages * limits.page_tokens),
        "request {} needs a cache of {} tokens ({} pages), but there are {} pages of {} tokens",
        index, cached, sequence.promised_pages, pages_.total(), limits.page_tokens);
  }
  sequences_.push_back(std::move(sequence));
  return {};
}

// Strictly in order: a short request never overtakes a long one for ever.
void Scheduler::admit() {
  while (waiting_ < sequences_.size()) {
    Sequence& sequence = sequences_[waiting_];
    if (slots_.free() == 0 || !pages_.promise(sequence.promised_pages)) return;
    sequence.slot = *slots_.take();
    running_.push_back(waiting_++);
  }
}

int64_t Scheduler::piece(Sequence& sequence, int64_t tokens_left, int64_t rows_left) {
  int64_t count = sequence.prompt - sequence.done;
  if (!chunks_.empty()) count = std::min(count, chunks_[sequence.next_chunk % chunks_.size()]);
  count = std::min(count, tokens_left);
  if (all_rows_) return std::min(count, rows_left);
  // The last piece has a row.
  return sequence.done + count == sequence.prompt && rows_left == 0 ? count - 1 : count;
}

void Scheduler::place(Step& step, size_t index, int64_t count) {
  Sequence& sequence = sequences_[index];
  const bool mixed = step.program == "mixed";
  pages_.grow(sequence.pages, sequence.done + count);
  step.ctx.push_back(static_cast<int32_t>(sequence.done));
  step.slot.push_back(sequence.slot);
  const size_t table = step.pages.size();
  step.pages.resize(table + static_cast<size_t>(table_columns_), -1);
  std::ranges::copy(sequence.pages, step.pages.begin() + static_cast<std::ptrdiff_t>(table));
  if (mixed && sequence.done < sequence.prompt) prompt_tokens_ += count;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = sequence.done + i;
    step.ids.push_back(sequence.ids[static_cast<size_t>(position)]);
    step.pos.push_back(static_cast<int32_t>(position));
    const bool last = position + 1 == static_cast<int64_t>(sequence.ids.size());
    if (last || all_rows_) {
      rows_.push_back({index, static_cast<int64_t>(rows_.size()), last});
      if (mixed) step.logit_row.push_back(static_cast<int32_t>(step.ids.size() - 1));
    }
  }
  sequence.done += count;
  if (mixed) step.seq_start.push_back(static_cast<int32_t>(step.ids.size()));
}

bool Scheduler::next(Step& step) {
  admit();
  rows_.clear();
  prompt_tokens_ = 0;
  step.clear();
  if (running_.empty()) {
    GM_CHECK(waiting_ == sequences_.size(), "request {} waits for nobody", waiting_);
    return false;
  }
  const auto generates = [&](size_t index) {
    return sequences_[index].done >= sequences_[index].prompt;
  };
  const bool decode = std::ranges::all_of(running_, generates);
  step.program = decode ? "decode" : "mixed";
  if (decode) {
    for (const size_t index : running_) place(step, index, 1);
  } else {
    step.seq_start.push_back(0);
    int64_t tokens_left = max_tokens_, rows_left = instance_->sizes().rows;
    // Those that generate first: they are the ones that somebody waits for. Then pieces of prompts
    // in order of admission; who finds no room waits for the next step.
    for (const bool generating : {true, false}) {
      for (const size_t index : running_) {
        if (generates(index) != generating || tokens_left == 0) continue;
        Sequence& sequence = sequences_[index];
        if (generating && rows_left == 0) continue;
        const int64_t count = generating ? 1 : piece(sequence, tokens_left, rows_left);
        if (count == 0) continue;
        const size_t rows_before = rows_.size();
        place(step, index, count);
        if (!generating) ++sequence.next_chunk;
        tokens_left -= count;
        rows_left -= static_cast<int64_t>(rows_.size() - rows_before);
      }
    }
    // A step has at least one row; this one belongs to nobody.
    if (step.logit_row.empty()) step.logit_row.push_back(0);
    GM_CHECK(!step.ids.empty(), "no sequence finds room in a step of {} tokens", max_tokens_);
  }
  step.tokens = static_cast<int64_t>(step.ids.size());
  step.seqs = static_cast<int64_t>(step.slot.size());
  step.rows = decode ? step.seqs : static_cast<int64_t>(step.logit_row.size());
  return true;
}

void Scheduler::append(size_t request, int32_t id) { sequences_[request].ids.push_back(id); }

void Scheduler::finish(size_t request) {
  Sequence& sequence = sequences_[request];
  slots_.give_back(sequence.slot);
  pages_.release(sequence.pages, sequence.promised_pages);
  sequence.slot = -1;
  running_.erase(std::ranges::find(running_, request));
}

}  // namespace gm
