// Chooses a token from a row of logits: penalties, temperature, top-k, top-p, min-p, then one
// random number. docs/sampling.md states each step, with the orders of sums and the rules for ties,
// so that equal logits and an equal seed give the same token on every device. In particular the
// weights of tokens are integers: their sums do not depend on an order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/diag.h"
#include "runtime/sampling.h"

namespace gm {

// Maximal [low, high) ranges of the ids that may be chosen, ascending. A vocabulary is padded with
// ids that no tokenizer entry belongs to, and their logits are arbitrary.
using IdRanges = std::vector<std::pair<int32_t, int32_t>>;

// floor(2^39 exp(value - largest)), for value <= largest, by the formula of docs/sampling.md.
uint64_t sampling_weight(float value, float largest);

// One step of the way from logits to a token. A candidate's order is its value, descending, then
// its id, ascending.
struct Candidate {
  float value = 0;
  int32_t id = 0;
  uint64_t weight = 0;
};

// Working memory, for one row after another. After Sampler::choose, `candidates` are those that the
// token was drawn from, in ascending order of ids.
struct SamplerScratch {
  std::vector<float> values;
  std::vector<Candidate> candidates;
};

// What is particular to one request: its parameters, and which tokens it has had.
class Sampler {
 public:
  Sampler(const SamplingParams& params, std::span<const int32_t> prompt);

  // Whether the token is not simply that of the largest logit.
  bool needs_logits() const { return params_.temperature != 0 || params_.penalised(); }

  // The next token. Nothing if the logits hold NaN or +inf at an id that may be chosen, or nothing
  // but -inf.
  std::optional<int32_t> choose(std::span<const float> logits, const IdRanges& ranges,
                                SamplerScratch& scratch) const;
  // Tells of the token that the request goes on with.
  void accept(int32_t id);

 private:
  struct Seen {
    bool in_prompt = false;
    int64_t generated = 0;
  };

  void penalise(std::span<float> values) const;

  SamplingParams params_;
  int64_t position_ = 0;
  std::unordered_map<int32_t, Seen> seen_;  // never iterated for anything that depends on its order
};

}  // namespace gm
