#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/sampler_random.h"

namespace gm {
namespace {

using ::testing::ElementsAre;

IdRanges all_of(std::span<const float> logits) {
  return {{0, static_cast<int32_t>(logits.size())}};
}

std::vector<int32_t> ids_of(const SamplerScratch& scratch) {
  std::vector<int32_t> ids;
  for (const Candidate& c : scratch.candidates) ids.push_back(c.id);
  return ids;
}

// The ids that a token is drawn from.
std::vector<int32_t> support(const std::vector<float>& logits, SamplingParams params) {
  if (params.temperature == 0) params.temperature = 1;
  SamplerScratch scratch;
  EXPECT_TRUE(Sampler(params, {}).choose(logits, all_of(logits), scratch));
  return ids_of(scratch);
}

// How often each id comes in `draws` positions of one request.
std::vector<int64_t> counts(const std::vector<float>& logits, const SamplingParams& params,
                            int64_t draws) {
  Sampler sampler(params, {});
  SamplerScratch scratch;
  std::vector<int64_t> result(logits.size());
  for (int64_t i = 0; i < draws; ++i) {
    const auto id = sampler.choose(logits, all_of(logits), scratch);
    EXPECT_TRUE(id);
    sampler.accept(*id);
    ++result[static_cast<size_t>(*id)];
  }
  return result;
}

// The softmax at a temperature of those that are in `kept`.
std::vector<double> softmax(const std::vector<float>& logits, double temperature,
                            const std::vector<int32_t>& kept) {
  std::vector<double> p(logits.size());
  double sum = 0;
  for (const int32_t id : kept) {
    p[static_cast<size_t>(id)] =
        std::exp(static_cast<double>(logits[static_cast<size_t>(id)]) / temperature);
    sum += p[static_cast<size_t>(id)];
  }
  for (double& x : p) x /= sum;
  return p;
}

// Infinite if something came that cannot.
double chi_square(const std::vector<int64_t>& counts, const std::vector<double>& p) {
  int64_t draws = 0;
  for (const int64_t count : counts) draws += count;
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = p[i] * static_cast<double>(draws);
    if (expected == 0) {
      if (counts[i] != 0) return std::numeric_limits<double>::infinity();
      continue;
    }
    const double d = static_cast<double>(counts[i]) - expected;
    sum += d * d / expected;
  }
  return sum;
}

const std::vector<float> kLogits = {0.5F, 2.0F, -1.0F, 1.25F, 0.0F, 1.75F, -0.5F, 1.0F};
constexpr int64_t kDraws = 40000;
// Of seven degrees of freedom, chi-square is above this once in 10,000 times.
constexpr double kBound = 29.9;

TEST(Sampler, PhiloxGivesThePublishedNumbers) {
  EXPECT_THAT(philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(
      philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
      ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(
      philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
  EXPECT_EQ(sampling_bits(0, 0), 0xe169c58d6627e8d5);
  EXPECT_NE(sampling_bits(0, 1), sampling_bits(1, 0));
  EXPECT_NE(sampling_bits(int64_t{1} << 40, 0), sampling_bits(0, int64_t{1} << 40));
}

TEST(Sampler, WeightsAreExpInUnitsOfTwoToTheMinus39) {
  constexpr auto kOne = static_cast<double>(uint64_t{1} << 39);
  uint64_t above = uint64_t{1} << 39;
  EXPECT_EQ(sampling_weight(3.5F, 3.5F), above);
  for (int i = 1; i < 60000; ++i) {
    const float value = -static_cast<float>(i) / 2000.0F;
    const uint64_t weight = sampling_weight(value, 0);
    EXPECT_NEAR(static_cast<double>(weight), kOne * std::exp(static_cast<double>(value)), 1.001)
        << value;
    EXPECT_LE(weight, above) << value;
    above = weight;
  }
  EXPECT_EQ(sampling_weight(-27.1F, 0), 0u);
  EXPECT_EQ(sampling_weight(-3e38F, 3e38F), 0u);
  EXPECT_EQ(sampling_weight(-std::numeric_limits<float>::infinity(), 0), 0u);
}

// What a second implementation of docs/sampling.md gives, written in another language.
TEST(Sampler, ChoosesWhatThePageSays) {
  EXPECT_EQ(sampling_weight(-0.1F, 0), 0x73d1b6646fu);
  EXPECT_EQ(sampling_weight(-1, 0), 0x2f16ac6c59u);
  EXPECT_EQ(sampling_weight(-5.5F, 0), 0x85ea52d6u);
  EXPECT_EQ(sampling_weight(-20, 0), 0x46du);
  EXPECT_EQ(sampling_weight(-27, 0), 1u);
  std::vector<float> logits;
  for (int i = 0; i < 50; ++i) logits.push_back(static_cast<float>(i * 37 % 64) / 8.0F - 3.0F);
  const std::vector<int32_t> prompt = {1, 2, 3};
  const auto choose = [&](const SamplingParams& params) {
    Sampler sampler(params, prompt);
    SamplerScratch scratch;
    std::vector<int32_t> ids;
    for (int i = 0; i < 16; ++i) {
      ids.push_back(*sampler.choose(logits, all_of(logits), scratch));
      sampler.accept(ids.back());
    }
    return ids;
  };
  EXPECT_THAT(choose({.temperature = 1, .seed = 42}),
              ElementsAre(31, 38, 17, 36, 19, 10, 19, 31, 19, 12, 20, 36, 19, 12, 19, 43));
  EXPECT_THAT(choose({.temperature = 0.7,
                      .top_k = 40,
                      .top_p = 0.9,
                      .min_p = 0.05,
                      .presence_penalty = 0.5,
                      .frequency_penalty = 0.3,
                      .repetition_penalty = 1.1,
                      .seed = 1234567890123}),
              ElementsAre(43, 24, 38, 31, 29, 38, 12, 19, 17, 48, 31, 5, 38, 19, 10, 43));
}

TEST(Sampler, TemperatureGivesTheSoftmax) {
  const std::vector<int32_t> all = {0, 1, 2, 3, 4, 5, 6, 7};
  for (const double temperature : {0.5, 1.0, 1.7}) {
    const auto seen = counts(kLogits, {.temperature = temperature, .seed = 11}, kDraws);
    EXPECT_LT(chi_square(seen, softmax(kLogits, temperature, all)), kBound) << temperature;
    // The test would see a temperature that is off by a tenth, and one id too few.
    EXPECT_GT(chi_square(seen, softmax(kLogits, temperature * 1.1, all)), 2 * kBound);
    EXPECT_GT(chi_square(seen, softmax(kLogits, temperature, {0, 1, 3, 4, 5, 6, 7})), 2 * kBound);
  }
}

TEST(Sampler, FiltersGiveTheSoftmaxOfWhatTheyKeep) {
  // In order: 1 5 3 7 0 4 6 2.
  const auto top_k = counts(kLogits, {.temperature = 0.8, .top_k = 3, .seed = 5}, kDraws);
  EXPECT_LT(chi_square(top_k, softmax(kLogits, 0.8, {1, 5, 3})), kBound);
  const auto top_p = counts(kLogits, {.temperature = 0.8, .top_p = 0.75, .seed = 6}, kDraws);
  EXPECT_LT(chi_square(top_p, softmax(kLogits, 0.8, {1, 5, 3})), kBound);
  EXPECT_GT(chi_square(top_p, softmax(kLogits, 0.8, {1, 5, 3, 7})), kBound);
  const auto min_p = counts(kLogits, {.temperature = 0.8, .min_p = 0.2, .seed = 7}, kDraws);
  EXPECT_LT(chi_square(min_p, softmax(kLogits, 0.8, {1, 5, 3, 7})), kBound);
  EXPECT_GT(chi_square(min_p, softmax(kLogits, 0.8, {1, 5, 3})), kBound);
}

TEST(Sampler, SeedsAndPositionsAreIndependent) {
  // One draw of each of many seeds.
  std::vector<int64_t> seen(kLogits.size());
  SamplerScratch scratch;
  for (int64_t seed = 0; seed < kDraws; ++seed) {
    const Sampler sampler({.temperature = 1, .seed = seed}, std::vector<int32_t>{1, 2, 3});
    ++seen[static_cast<size_t>(*sampler.choose(kLogits, all_of(kLogits), scratch))];
  }
  EXPECT_LT(chi_square(seen, softmax(kLogits, 1, {0, 1, 2, 3, 4, 5, 6, 7})), kBound);
  // Pairs of neighbouring positions, and of neighbouring seeds, over four equal ids: 15 degrees of
  // freedom, of which chi-square is above 44.3 once in 10,000 times.
  const std::vector<float> equal(4, 0.25F);
  std::vector<int64_t> positions(16), seeds(16);
  std::vector<int32_t> first, second;
  for (const int64_t seed : {3, 4}) {
    Sampler sampler({.temperature = 1, .seed = seed}, {});
    for (int64_t i = 0; i < kDraws; ++i) {
      const int32_t id = *sampler.choose(equal, all_of(equal), scratch);
      sampler.accept(id);
      (seed == 3 ? first : second).push_back(id);
    }
  }
  for (size_t i = 0; i + 1 < first.size(); i += 2)
    ++positions[static_cast<size_t>(first[i] * 4 + first[i + 1])];
  for (size_t i = 0; i < first.size(); ++i) ++seeds[static_cast<size_t>(first[i] * 4 + second[i])];
  const std::vector<double> p(16, 1.0 / 16);
  EXPECT_LT(chi_square(positions, p), 44.3);
  EXPECT_LT(chi_square(seeds, p), 44.3);
}

TEST(Sampler, SupportsAreExactWithTheLowerIdFirstAmongEquals) {
  const std::vector<float> ties = {1, 3, 3, 3, 2};
  EXPECT_THAT(support(ties, {.top_k = 1}), ElementsAre(1));
  EXPECT_THAT(support(ties, {.top_k = 2}), ElementsAre(1, 2));
  EXPECT_THAT(support(ties, {.top_k = 4}), ElementsAre(1, 2, 3, 4));
  for (const int64_t all : {0, -1, 5, 100})
    EXPECT_THAT(support(ties, {.top_k = all}), ElementsAre(0, 1, 2, 3, 4));
  const std::vector<float> equal(8, -7.5F);
  EXPECT_THAT(support(equal, {.top_p = 0.5}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(support(equal, {.top_p = 0.5000001}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(support(equal, {.top_p = 1e-9}), ElementsAre(0));
  // What top-k has taken away has no share in top-p.
  EXPECT_THAT(support(equal, {.top_k = 4, .top_p = 0.5}), ElementsAre(0, 1));
  const std::vector<float> logs = {std::log(0.1F), std::log(0.4F), std::log(0.3F), std::log(0.2F)};
  EXPECT_THAT(support(logs, {.top_p = 0.39}), ElementsAre(1));
  EXPECT_THAT(support(logs, {.top_p = 0.41}), ElementsAre(1, 2));
  EXPECT_THAT(support(logs, {.top_p = 0.89}), ElementsAre(1, 2, 3));
  EXPECT_THAT(support(logs, {.top_p = 0.91}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(support(logs, {.min_p = 0.51}), ElementsAre(1, 2));
  EXPECT_THAT(support(logs, {.min_p = 0.49}), ElementsAre(1, 2, 3));
  EXPECT_THAT(support(logs, {.min_p = 1}), ElementsAre(1));
  EXPECT_THAT(support(equal, {.min_p = 1}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  // Filters follow the temperature: at 2, 0.4 to 0.3 is as 1 to 0.87, and 0.4 to 0.1 as 1 to 0.5.
  EXPECT_THAT(support(logs, {.temperature = 2, .min_p = 0.49}), ElementsAre(0, 1, 2, 3));
  // min-p looks at what top-p has kept; top-p not at what min-p will keep.
  EXPECT_THAT(support(logs, {.top_p = 0.69, .min_p = 0.4}), ElementsAre(1, 2));
  EXPECT_THAT(support(logs, {.top_p = 0.72, .min_p = 0.6}), ElementsAre(1, 2));
}

TEST(Sampler, SupportsOfALargeVocabularyAreThoseOfFullSorting) {
  std::mt19937 random(4);
  for (int round = 0; round < 40; ++round) {
    std::vector<float> logits(5000);
    // Coarse values, so that there are many ties.
    for (float& x : logits) x = static_cast<float>(random() % 64) / 8.0F;
    const auto k = static_cast<int64_t>(random() % 6000);
    const double p = static_cast<double>(random() % 1000 + 1) / 1001;
    std::vector<int32_t> order(logits.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
    std::ranges::stable_sort(order, std::greater{},
                             [&](int32_t id) { return logits[static_cast<size_t>(id)]; });
    if (k > 0 && k < 5000) order.resize(static_cast<size_t>(k));
    const float largest = logits[static_cast<size_t>(order.front())];
    double total = 0, sum = 0;
    for (const int32_t id : order)
      total += static_cast<double>(sampling_weight(logits[static_cast<size_t>(id)], largest));
    std::vector<int32_t> want;
    for (const int32_t id : order) {
      if (sum >= p * total) break;
      want.push_back(id);
      sum += static_cast<double>(sampling_weight(logits[static_cast<size_t>(id)], largest));
    }
    std::ranges::sort(want);
    EXPECT_EQ(support(logits, {.top_k = k, .top_p = p}), want) << k << " " << p;
  }
}

TEST(Sampler, PenaltiesByHand) {
  const std::vector<float> logits = {2, -2, 1, 0.5F, 3};
  Sampler sampler({.presence_penalty = 0.25, .frequency_penalty = 0.5, .repetition_penalty = 2},
                  std::vector<int32_t>{0, 1});
  SamplerScratch scratch;
  EXPECT_TRUE(sampler.needs_logits());
  // The prompt counts for repetition alone: 2 / 2, -2 · 2.
  EXPECT_EQ(sampler.choose(logits, all_of(logits), scratch), 4);
  EXPECT_THAT(scratch.values, ElementsAre(1, -4, 1, 0.5F, 3));
  sampler.accept(4);
  sampler.accept(4);
  sampler.accept(1);
  // 4: 3 / 2 - 2 · 0.5 - 0.25; 1: -4 - 0.5 - 0.25.
  EXPECT_EQ(sampler.choose(logits, all_of(logits), scratch), 0);
  EXPECT_THAT(scratch.values, ElementsAre(1, -4.75F, 1, 0.5F, 0.25F));
  // Penalties come before the temperature.
  Sampler warm({.temperature = 2, .presence_penalty = 1}, {});
  warm.accept(4);
  EXPECT_TRUE(warm.choose(logits, all_of(logits), scratch));
  EXPECT_THAT(scratch.values, ElementsAre(1, -1, 0.5F, 0.25F, 1));
  // Negative ones make a token likelier.
  Sampler negative({.presence_penalty = -2, .frequency_penalty = -0.5}, {});
  negative.accept(2);
  EXPECT_EQ(negative.choose(logits, all_of(logits), scratch), 2);
  EXPECT_EQ(scratch.values[2], 3.5F);
}

TEST(Sampler, PenaltiesShiftWhatIsDrawn) {
  // Without a penalty an id comes half of the time; with a frequency penalty both come in turn.
  const std::vector<float> equal(2, 0.0F);
  const auto seen = counts(equal, {.temperature = 0.05, .frequency_penalty = 2}, 1000);
  EXPECT_EQ(seen[0], 500);
  const auto unpenalised = counts(equal, {.temperature = 0.05}, 1000);
  EXPECT_NE(unpenalised[0], 500);
}

TEST(Sampler, OnlyIdsOfTheRangesAreChosen) {
  // Ids 2 and 5 are nobody's: the largest, and no number.
  std::vector<float> logits = {0, 0.5F, 9, 0.25F, 0, std::numeric_limits<float>::quiet_NaN()};
  const IdRanges ranges = {{0, 2}, {3, 5}};
  SamplerScratch scratch;
  Sampler sampler({.temperature = 1.5}, {});
  std::vector<int64_t> seen(logits.size());
  for (int i = 0; i < 4000; ++i) {
    const auto id = sampler.choose(logits, ranges, scratch);
    ASSERT_TRUE(id);
    sampler.accept(*id);
    ++seen[static_cast<size_t>(*id)];
  }
  EXPECT_EQ(seen[2] + seen[5], 0);
  EXPECT_LT(chi_square(seen, softmax({0, 0.5F, 9, 0.25F, 0, 0}, 1.5, {0, 1, 3, 4})), 21.1);
  EXPECT_EQ(Sampler({.presence_penalty = 1}, {}).choose(logits, ranges, scratch), 1);
}

TEST(Sampler, RefusesWhatIsNoLogit) {
  SamplerScratch scratch;
  const auto choose = [&](std::vector<float> logits) {
    return Sampler({.temperature = 1}, {}).choose(logits, all_of(logits), scratch);
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(choose({0, std::numeric_limits<float>::quiet_NaN()}));
  EXPECT_FALSE(choose({0, kInfinity}));
  EXPECT_FALSE(choose({-kInfinity, -kInfinity}));
  EXPECT_EQ(choose({-kInfinity, -3}), 1);
  const std::vector<float> some = {1, 2};
  EXPECT_FALSE(Sampler({.temperature = 1}, {}).choose(some, {}, scratch));
}

TEST(Sampler, GreedyAndTopOneAreTheLowestOfTheLargest) {
  const std::vector<float> logits = {1, 4, 4, 0};
  SamplerScratch scratch;
  EXPECT_FALSE(Sampler({}, {}).needs_logits());
  EXPECT_EQ(Sampler({}, {}).choose(logits, all_of(logits), scratch), 1);
  EXPECT_THAT(counts(logits, {.temperature = 100, .top_k = 1}, 100), ElementsAre(0, 100, 0, 0));
}

}  // namespace
}  // namespace gm
