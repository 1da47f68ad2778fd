#include "runtime/generator.h"

#include <algorithm>
#include <memory>

#include "runtime/scheduler.h"
#include "runtime/text_stream.h"

namespace gm {
namespace {

// A request on its way, beside the scheduler's Sequence of the same index.
struct Output {
  Completion completion;
  std::optional<TextStream> stream;
};

}  // namespace

Result<Generator> Generator::create(Instance& instance, GeneratorOptions options) {
  for (const char* name : {"decode", "mixed"}) {
    if (instance.plan().find_program(name) != nullptr) continue;
    return err(Code::step_program, {}, "give a plan that was compiled from a whole model",
               "the plan has no program \"{}\", so it cannot generate", name);
  }
  for (const int64_t size : options.prefill_chunk) {
    if (size >= 1) continue;
    return err(Code::run_size, Location::of_path({}, "--prefill-chunk"),
               "give sizes of 1 or more, such as 1,2,63",
               "a piece of a prompt cannot have {} tokens", size);
  }
  return Generator(instance, std::move(options));
}

Result<std::vector<Completion>> Generator::run(std::span<const Request> requests) {
  const Plan& plan = instance_->plan();
  Executor& executor = instance_->executor();
  GM_ASSIGN(Scheduler scheduler, Scheduler::create(*instance_, requests, options_.prefill_chunk,
                                                   options_.capture == Capture::all));
  std::vector<Output> outputs(requests.size());
  if (options_.tokenizer != nullptr) {
    for (Output& output : outputs) output.stream.emplace(*options_.tokenizer, true);
  }
  const auto is_stop = [&](int32_t id) {
    return std::ranges::find(plan.model.stop_ids, id) != plan.model.stop_ids.end();
  };
  const auto finish = [&](size_t request, std::string reason) {
    Output& output = outputs[request];
    output.completion.finish = std::move(reason);
    std::string rest;
    if (output.stream) rest = output.stream->finish();
    output.completion.text += rest;
    if (options_.on_token) options_.on_token(request, std::nullopt, rest);
    scheduler.finish(request);
  };

  Step step;
  while (scheduler.next(step)) {
    GM_TRY(executor.run(step));
    ++stats_.steps;
    ++(step.program == "decode" ? stats_.decode_steps : stats_.mixed_steps);
    const std::optional<TensorView> next = executor.output("next");
    if (!next) {
      return err(Code::step_program, {}, "compile the plan again with this version",
                 "program {} has no output next", step.program);
    }
    std::optional<TensorView> logits;
    if (options_.capture != Capture::none) {
      logits = executor.output("logits");
      if (!logits || logits->dtype != DType::f32) {
        return err(Code::step_program, {}, "compile the plan again with this version",
                   "program {} has no output logits of f32", step.program);
      }
    }
    const std::span<const int32_t> chosen = next->i32();
    // Before anybody finishes: `rows` refers to the sequences of this step.
    const std::vector<StepRow> rows(scheduler.rows().begin(), scheduler.rows().end());
    stats_.prompt_tokens += scheduler.prompt_tokens();
    for (const StepRow& row : rows) {
      Output& output = outputs[row.request];
      Completion& completion = output.completion;
      const Request& request = requests[row.request];
      if (logits && (options_.capture == Capture::all || (row.samples && request.max_tokens > 0))) {
        const size_t width = static_cast<size_t>(logits->shape.back());
        const std::span<const float> all = logits->f32();
        const auto begin =
            all.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(row.row) * width);
        completion.logits.insert(completion.logits.end(), begin,
                                 begin + static_cast<std::ptrdiff_t>(width));
        ++completion.logit_rows;
      }
      if (!row.samples) continue;
      if (request.max_tokens == 0) {
        finish(row.request, "length");
        continue;
      }
      const int32_t id = chosen[static_cast<size_t>(row.row)];
      GM_CHECK(id >= 0 && id < plan.model.vocab, "the model chose id {} of {}", id,
               plan.model.vocab);
      completion.ids.push_back(id);
      ++stats_.generated_tokens;
      const bool stops = !request.ignore_stop && is_stop(id);
      std::string text;
      if (output.stream && !stops) {
        GM_ASSIGN(text, output.stream->push(id));
        completion.text += text;
      }
      if (options_.on_token) options_.on_token(row.request, id, text);
      if (stops) {
        finish(row.request, "stop");
      } else if (static_cast<int64_t>(completion.ids.size()) >=
                 scheduler.most_tokens(row.request)) {
        finish(row.request, "length");
      } else {
        scheduler.append(row.request, id);
      }
    }
  }
  std::vector<Completion> completions;
  for (Output& output : outputs) {
    GM_CHECK(!output.completion.finish.empty(), "a request was dropped");
    completions.push_back(std::move(output.completion));
  }
  return completions;
}

}  // namespace gm
