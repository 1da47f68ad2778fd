// Continues prompts, many at a time. Each step takes every sequence that runs: one token
// of those that generate, a piece of the prompt of those that do not yet. What a request yields
// does not depend on its neighbours, on the pieces, or on when it is admitted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diag.h"
#include "runtime/instance.h"
#include "runtime/logprobs.h"
#include "runtime/sampling.h"
#include "runtime/tokenizer.h"

namespace gm {

// Which rows of logits are kept: none · the rows that tokens were chosen from · a row for every
// token of the prompt and for every generated one that was fed back.
enum class Capture : uint8_t { none, sampled, all };

struct Request {
  std::vector<int32_t> ids;
  int64_t max_tokens = 16;   // 0: only the prompt is run
  bool ignore_stop = false;  // of ids that end a text; stop strings still do
  SamplingParams sampling = {};
  std::vector<std::string> stop = {};    // texts that end it; they need a tokenizer
  std::optional<int64_t> logprobs = {};  // of each token, and of this many likeliest ones
};

// Whether a request fits the plan: known before any weight is read. The index is for the message.
Result<> check_request(const Plan& plan, const Request& request, size_t index);

struct Completion {
  std::vector<int32_t>
      ids;           // generated; what ended it, an id or a piece of a stop string, is the last one
  std::string text;  // without special tokens, up to a stop string; empty without a tokenizer
  std::string finish;         // "stop", "length"
  std::vector<float> logits;  // Capture: rows of the vocabulary's width
  int64_t logit_rows = 0;
  std::vector<TokenLogprobs> logprobs;  // Request::logprobs: one for each of ids
};

struct GenerateStats {
  int64_t steps = 0, decode_steps = 0, mixed_steps = 0;
  int64_t prompt_tokens = 0, generated_tokens = 0;
};

struct GeneratorOptions {
  std::vector<int64_t>
      prefill_chunk;  // sizes of the pieces of each prompt, over and over; empty: as large as fits
  Capture capture = Capture::none;
  const Tokenizer* tokenizer = nullptr;  // for texts; must outlive the generator
  // Each token as it is chosen: the request's index, the id, and the text that is certain by now.
  // The last call for a request has the rest of the text and no id.
  std::function<void(size_t request, std::optional<int32_t> id, std::string_view text)> on_token;
};

class Generator {
 public:
  // The instance must outlive the generator. The plan needs the programs decode and mixed.
  static Result<Generator> create(Instance& instance, GeneratorOptions options = {});

  // All requests to their ends; completions in the order of the requests. Every request is checked
  // before the first step: one that could never fit is an error that says which limit it breaks.
  Result<std::vector<Completion>> run(std::span<const Request> requests);
  const GenerateStats& stats() const { return stats_; }

 private:
  Generator(Instance& instance, GeneratorOptions options)
      : instance_(&instance), options_(std::move(options)) {}
  Instance* instance_;
  GeneratorOptions options_;
  GenerateStats stats_;
};

}  // namespace gm
