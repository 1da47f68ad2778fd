#include "runtime/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/sampler_random.h"

namespace gm {
namespace {

constexpr int kWeightBits = 39;  // 2^24 ids of the largest weight still have a sum below 2^64

bool before(const Candidate& a, const Candidate& b) {
  return a.value != b.value ? a.value > b.value : a.id < b.id;
}

// The largest value and its lowest id; id -1 if there is none, or a value that is no logit.
Candidate largest_of(std::span<const float> values, const IdRanges& ranges) {
  Candidate best{-std::numeric_limits<float>::infinity(), -1, 0};
  for (const auto& [low, high] : ranges) {
    for (int32_t id = low; id < high; ++id) {
      const float value = values[static_cast<size_t>(id)];
      if (!(value <= std::numeric_limits<float>::max())) return {0, -1, 0};
      if (value > best.value) best = {value, id, 0};
    }
  }
  return best;
}

using Candidates = std::vector<Candidate>;

// The first k of all, or all for 0, in ascending order of ids. A heap of those so far has the last
// of them in front, which most ids do not come before.
void collect(std::span<const float> values, const IdRanges& ranges, size_t k,
             Candidates& candidates) {
  for (const auto& [low, high] : ranges) {
    for (int32_t id = low; id < high; ++id) {
      const Candidate next{values[static_cast<size_t>(id)], id, 0};
      if (k > 0 && candidates.size() == k) {
        if (!before(next, candidates.front())) continue;
        std::ranges::pop_heap(candidates, before);
        candidates.pop_back();
      }
      candidates.push_back(next);
      if (k > 0) std::ranges::push_heap(candidates, before);
    }
  }
  if (k > 0) std::ranges::sort(candidates, {}, &Candidate::id);
}

// Candidates are in ascending order of ids, before and after.
void keep_top_p(Candidates& candidates, double p) {
  if (p >= 1) return;
  uint64_t total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  // A candidate stays if those before it have less than this; the first always does.
  const auto enough = static_cast<uint64_t>(std::ceil(p * static_cast<double>(total)));
  // Sorted piece by piece, since mostly a few are enough.
  uint64_t sum = 0;
  size_t kept = 0, sorted = 0;
  while (kept < candidates.size() && sum < enough) {
    if (kept == sorted) {
      const auto begin = candidates.begin() + static_cast<std::ptrdiff_t>(sorted);
      sorted = std::min(candidates.size(), std::max<size_t>(256, sorted * 8));
      const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(sorted);
      if (end != candidates.end()) std::nth_element(begin, end, candidates.end(), before);
      std::sort(begin, end, before);
    }
    sum += candidates[kept++].weight;
  }
  candidates.resize(kept);
  std::ranges::sort(candidates, {}, &Candidate::id);
}

void keep_min_p(Candidates& candidates, double p) {
  // The product with a power of two is exact.
  const double least = p * static_cast<double>(uint64_t{1} << kWeightBits);
  std::erase_if(candidates,
                [&](const Candidate& c) { return static_cast<double>(c.weight) < least; });
}

int32_t draw(const Candidates& candidates, uint64_t bits) {
  uint64_t total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  const auto point = static_cast<uint64_t>(static_cast<unsigned __int128>(bits) * total >> 64);
  uint64_t sum = 0;
  for (const Candidate& c : candidates) {
    sum += c.weight;
    if (point < sum) return c.id;
  }
  GM_CHECK(false, "a point of {} lies beyond the weights", total);
}

}  // namespace

// exp by range reduction, d = k ln 2 + r with |r| <= ln 2 / 2, and the Taylor polynomial of degree
// 13 in r, whose error is far below 2^-39. Separate products and sums in f64 only, so that any
// machine gives these bits.
uint64_t sampling_weight(float value, float largest) {
  const double d = static_cast<double>(value) - static_cast<double>(largest);
  if (!(d >= -28.0)) return 0;  // below 2^-40
  constexpr double kLog2E = 0x1.71547652b82fep+0, kLn2High = 0x1.62e42feep-1,
                   kLn2Low = 0x1.a39ef35793c76p-33;
  const double k = std::floor(d * kLog2E + 0.5);
  const double r = (d - k * kLn2High) - k * kLn2Low;
  double p = 1.0 / 6227020800.0;
  constexpr double kFactorials[] = {479001600, 39916800, 3628800, 362880, 40320, 5040,
                                    720,       120,      24,      6,      2,     1};
  for (const double factorial : kFactorials) p = p * r + 1.0 / factorial;
  p = p * r + 1.0;
  const double power =
      std::bit_cast<double>(static_cast<uint64_t>(1023 + kWeightBits + static_cast<int>(k)) << 52);
  return static_cast<uint64_t>(p * power);
}

Sampler::Sampler(const SamplingParams& params, std::span<const int32_t> prompt)
    : params_(params), position_(static_cast<int64_t>(prompt.size())) {
  if (params_.repetition_penalty == 1) return;
  for (const int32_t id : prompt) seen_[id].in_prompt = true;
}

void Sampler::accept(int32_t id) {
  ++position_;
  if (params_.penalised()) ++seen_[id].generated;
}

// Each id by itself, so the order of ids is of no matter.
void Sampler::penalise(std::span<float> values) const {
  const auto repetition = static_cast<float>(params_.repetition_penalty),
             frequency = static_cast<float>(params_.frequency_penalty),
             presence = static_cast<float>(params_.presence_penalty);
  for (const auto& [id, seen] : seen_) {
    float& value = values[static_cast<size_t>(id)];
    if (repetition != 1) value = value > 0 ? value / repetition : value * repetition;
    if (seen.generated == 0) continue;
    value -= frequency * static_cast<float>(seen.generated);
    value -= presence;
  }
}

std::optional<int32_t> Sampler::choose(std::span<const float> logits, const IdRanges& ranges,
                                       SamplerScratch& scratch) const {
  Candidates& candidates = scratch.candidates;
  candidates.clear();
  scratch.values.assign(logits.begin(), logits.end());
  penalise(scratch.values);
  if (params_.temperature != 0) {
    const auto temperature = static_cast<float>(params_.temperature);
    for (float& value : scratch.values) value /= temperature;
  }
  const Candidate best = largest_of(scratch.values, ranges);
  if (best.id < 0) return std::nullopt;
  if (params_.temperature == 0) {
    candidates.push_back(best);
    return best.id;
  }
  // Top-k before the weights, of which there are few then. A candidate without weight comes behind
  // all others and is never drawn, so nothing else depends on when it goes.
  collect(scratch.values, ranges, static_cast<size_t>(std::max<int64_t>(params_.top_k, 0)),
          candidates);
  for (Candidate& c : candidates) c.weight = sampling_weight(c.value, best.value);
  std::erase_if(candidates, [](const Candidate& c) { return c.weight == 0; });
  keep_top_p(candidates, params_.top_p);
  keep_min_p(candidates, params_.min_p);
  return draw(candidates, sampling_bits(params_.seed, position_));
}

}  // namespace gm
