#include "runtime/generator.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "runtime/sampler.h"
#include "runtime/scheduler.h"
#include "runtime/stop_strings.h"
#include "runtime/text_stream.h"

namespace gm {
namespace {

// A request on its way, beside the scheduler's Sequence of the same index.
struct Output {
  Completion completion;
  Sampler sampler;
  StopStrings stop;
  std::optional<TextStream> stream;
};

bool needs_logits(const Request& request) {
  return request.logprobs || request.sampling.temperature != 0 || request.sampling.penalised();
}

// What may be chosen: ids that the tokenizer has an entry for, or all.
IdRanges choices(const Plan& plan, const Tokenizer* tokenizer) {
  const auto vocab = static_cast<int32_t>(plan.model.vocab);
  if (tokenizer == nullptr) return {{0, vocab}};
  IdRanges ranges;
  for (const auto& [low, high] : tokenizer->entry_ranges()) {
    if (low < vocab) ranges.emplace_back(low, std::min(high, vocab));
  }
  return ranges;
}

Error no_choice(size_t request) {
  return err(Code::request_logits, Location::of_path({}, fmt::format("requests[{}]", request)),
             "see whether the weights are damaged: `graphmill check` compares them with goldens",
             "the model's logits for request {} are not numbers, or none can be chosen", request);
}

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
  std::vector<Output> outputs;
  outputs.reserve(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests[i];
    if (!request.stop.empty() && options_.tokenizer == nullptr) {
      return err(Code::request_sampling, Location::of_path({}, fmt::format("requests[{}].stop", i)),
                 "compile a checkpoint that has a tokenizer.json, or give no stop strings",
                 "without a tokenizer there is no text that request {} could stop at", i);
    }
    outputs.push_back(
        {{}, Sampler(request.sampling, request.ids), StopStrings(request.stop), std::nullopt});
    if (options_.tokenizer != nullptr) outputs.back().stream.emplace(*options_.tokenizer, true);
  }
  const IdRanges ranges = choices(plan, options_.tokenizer);
  SamplerScratch scratch;
  const auto is_stop = [&](int32_t id) {
    return std::ranges::find(plan.model.stop_ids, id) != plan.model.stop_ids.end();
  };
  const auto finish = [&](size_t request, std::string reason) {
    Output& output = outputs[request];
    std::string rest;
    if (output.stream && !output.stop.matched()) {
      rest = output.stop.push(output.stream->finish());
      rest += output.stop.finish();
    }
    output.completion.text += rest;
    output.completion.finish = output.stop.matched() ? "stop" : std::move(reason);
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
    // Before anybody finishes: `rows` refers to the sequences of this step.
    const std::vector<StepRow> rows(scheduler.rows().begin(), scheduler.rows().end());
    std::optional<TensorView> logits;
    if (options_.capture != Capture::none || std::ranges::any_of(rows, [&](const StepRow& row) {
          return row.samples && needs_logits(requests[row.request]);
        })) {
      logits = executor.output("logits");
      if (!logits || logits->dtype != DType::f32) {
        return err(Code::step_program, {}, "compile the plan again with this version",
                   "program {} has no output logits of f32", step.program);
      }
    }
    const std::span<const int32_t> likeliest = next->i32();
    const auto logits_of = [&](const StepRow& row) {
      const auto width = static_cast<size_t>(logits->shape.back());
      return logits->f32().subspan(static_cast<size_t>(row.row) * width, width);
    };
    stats_.prompt_tokens += scheduler.prompt_tokens();
    for (const StepRow& row : rows) {
      Output& output = outputs[row.request];
      Completion& completion = output.completion;
      const Request& request = requests[row.request];
      if (options_.capture == Capture::all ||
          (options_.capture == Capture::sampled && row.samples && request.max_tokens > 0)) {
        const std::span<const float> kept = logits_of(row);
        completion.logits.insert(completion.logits.end(), kept.begin(), kept.end());
        ++completion.logit_rows;
      }
      if (!row.samples) continue;
      if (request.max_tokens == 0) {
        finish(row.request, "length");
        continue;
      }
      int32_t id = likeliest[static_cast<size_t>(row.row)];
      if (output.sampler.needs_logits()) {
        const auto chosen = output.sampler.choose(logits_of(row), ranges, scratch);
        if (!chosen) return no_choice(row.request);
        id = *chosen;
      }
      GM_CHECK(id >= 0 && id < plan.model.vocab, "the model chose id {} of {}", id,
               plan.model.vocab);
      if (request.logprobs) {
        completion.logprobs.push_back(
            token_logprobs(logits_of(row), id, *request.logprobs, ranges));
        if (!std::isfinite(completion.logprobs.back().chosen.logprob))
          return no_choice(row.request);
      }
      output.sampler.accept(id);
      completion.ids.push_back(id);
      ++stats_.generated_tokens;
      const bool stops = !request.ignore_stop && is_stop(id);
      std::string text;
      if (output.stream && !stops) {
        GM_ASSIGN(text, output.stream->push(id));
        text = output.stop.push(text);
        completion.text += text;
      }
      if (options_.on_token) options_.on_token(row.request, id, text);
      if (stops || output.stop.matched()) {
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
