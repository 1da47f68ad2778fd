#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_model.h"
#include "run_requests.h"
#include "runtime/generator.h"
#include "runtime/sampler.h"
#include "tokenizer_fixture.h"

namespace gm {
namespace {

using test::fake_instance;
using test::run_requests;
using ::testing::HasSubstr;

std::vector<float> fake_logits(const std::vector<int32_t>& ids) {
  const int32_t hidden = test::fake_hidden(ids, ids.size()), chosen = test::fake_next(hidden);
  std::vector<float> logits;
  for (int64_t v = 0; v < test::kVocab; ++v) {
    logits.push_back(static_cast<float>(hidden % 1000) -
                     static_cast<float>(v == chosen ? 0 : v + 1));
  }
  return logits;
}

// What the fake model generates with a sampler and without any runtime.
std::vector<int32_t> expected(const Request& request) {
  Sampler sampler(request.sampling, request.ids);
  SamplerScratch scratch;
  std::vector<int32_t> ids = request.ids, result;
  for (int64_t i = 0; i < request.max_tokens; ++i) {
    const auto id = sampler.choose(fake_logits(ids), {{0, test::kVocab}}, scratch);
    sampler.accept(*id);
    ids.push_back(*id);
    result.push_back(*id);
  }
  return result;
}

std::vector<Request> mixed_requests() {
  std::vector<Request> requests;
  for (int64_t i = 0; i < 8; ++i) {
    Request request{
        .ids = {3, static_cast<int32_t>(i % 3), 4}, .max_tokens = 20, .ignore_stop = true};
    for (int64_t j = 0; j < i; ++j) request.ids.push_back(static_cast<int32_t>(j * 7));
    request.sampling.seed = i;
    if (i % 4 != 0) request.sampling.temperature = 0.5 + 0.5 * static_cast<double>(i % 4);
    if (i % 3 == 1) request.sampling.top_k = 5;
    if (i % 3 == 2) request.sampling.top_p = 0.9;
    if (i >= 4) {
      request.sampling.frequency_penalty = 0.75;
      request.sampling.repetition_penalty = 1.001;
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

TEST(GeneratorSampling, TokensDoNotDependOnNeighboursPiecesOrThreads) {
  const std::vector<Request> requests = mixed_requests();
  std::set<std::vector<int32_t>> different;
  for (int round = 0; round < 12; ++round) {
    InstanceOptions options;
    options.sizes.threads = 1 + round % 3;
    options.sizes.slots = 1 + round % 4;
    options.executor.poison = round % 2 == 0;
    auto instance = fake_instance(options);
    ASSERT_TRUE(instance) << instance.error().to_string();
    GeneratorOptions generate;
    if (round % 3 != 0) generate.prefill_chunk = {1 + round % 5, 2};
    const auto completions = run_requests(**instance, requests, generate);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(completions[i].ids, expected(requests[i])) << round << " request " << i;
      different.insert(completions[i].ids);
    }
  }
  EXPECT_EQ(different.size(), requests.size());
}

TEST(GeneratorSampling, ARequestGoesOnFromItsOwnTextAsItWouldHave) {
  auto instance = fake_instance();
  ASSERT_TRUE(instance);
  Request request{.ids = {1, 2}, .max_tokens = 20, .ignore_stop = true};
  request.sampling = {.temperature = 1.5, .seed = 9};
  const auto whole = run_requests(**instance, {request})[0].ids;
  Request rest = request;
  rest.ids.insert(rest.ids.end(), whole.begin(), whole.begin() + 8);
  rest.max_tokens = 12;
  EXPECT_EQ(run_requests(**instance, {rest})[0].ids,
            std::vector<int32_t>(whole.begin() + 8, whole.end()));
  Request other = request;
  other.sampling.seed = 10;
  EXPECT_NE(run_requests(**instance, {other})[0].ids, whole);
}

TEST(GeneratorSampling, LogprobsOfTheModelWhateverWasSampled) {
  auto instance = fake_instance();
  ASSERT_TRUE(instance);
  Request request{.ids = {1, 2}, .max_tokens = 10, .ignore_stop = true};
  request.logprobs = 3;
  Request sampled = request;
  sampled.sampling = {.temperature = 3, .presence_penalty = 2, .seed = 1};
  Request none = request;
  none.logprobs = 0;
  const auto completions = run_requests(**instance, {request, sampled, none});
  int unlikely = 0;
  for (const Completion& c : completions) {
    ASSERT_EQ(c.logprobs.size(), c.ids.size());
    std::vector<int32_t> ids = request.ids;
    for (size_t i = 0; i < c.ids.size(); ++i) {
      const std::vector<float> logits = fake_logits(ids);
      std::vector<int32_t> order(logits.size());
      const double offset = static_cast<double>(*std::ranges::max_element(logits));
      double sum = 0;
      for (size_t v = 0; v < logits.size(); ++v) {
        order[v] = static_cast<int32_t>(v);
        sum += std::exp(static_cast<double>(logits[v]) - offset);
      }
      std::ranges::stable_sort(order, std::greater{},
                               [&](int32_t id) { return logits[static_cast<size_t>(id)]; });
      const auto logprob = [&](int32_t id) {
        return static_cast<double>(logits[static_cast<size_t>(id)]) - offset - std::log(sum);
      };
      EXPECT_EQ(c.logprobs[i].chosen.id, c.ids[i]);
      EXPECT_NEAR(c.logprobs[i].chosen.logprob, logprob(c.ids[i]), 1e-9);
      ASSERT_EQ(c.logprobs[i].top.size(), &c == &completions[2] ? 0u : 3u);
      for (size_t t = 0; t < c.logprobs[i].top.size(); ++t) {
        EXPECT_EQ(c.logprobs[i].top[t].id, order[t]);
        EXPECT_NEAR(c.logprobs[i].top[t].logprob, logprob(order[t]), 1e-9);
      }
      unlikely += c.ids[i] != order[0];
      ids.push_back(c.ids[i]);
    }
  }
  EXPECT_GT(unlikely, 3);
}

TEST(Logprobs, LowerIdsFirstAndOnlyThoseThatMayBeChosen) {
  const std::vector<float> logits = {1, 2, 9, 2, -std::numeric_limits<float>::infinity(), 1};
  const TokenLogprobs found = token_logprobs(logits, 3, 5, {{0, 2}, {3, 6}});
  std::vector<int32_t> ids;
  for (const TokenLogprob& t : found.top) ids.push_back(t.id);
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 3, 0, 5}));  // not 4, which is impossible
  // The sum is over all of the vocabulary.
  const double sum = 2 * std::exp(1.0) + 2 * std::exp(2.0) + std::exp(9.0);
  EXPECT_NEAR(found.chosen.logprob, 2 - std::log(sum), 1e-12);
  std::vector<float> broken = logits;
  broken[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(token_logprobs(broken, 3, 1, {{0, 6}}).chosen.logprob));
}

// A byte a token: a stop string of two characters always lies across a border.
TEST(GeneratorSampling, StopStringsEndTheTextAndTheStream) {
  auto instance = fake_instance();
  ASSERT_TRUE(instance);
  const auto tokenizer = test::parse_small(test::small_tokenizer());
  ASSERT_TRUE(tokenizer);
  Request request{.ids = {7, 8, 9}, .max_tokens = 30, .ignore_stop = true};
  request.sampling = {.temperature = 30, .seed = 2};
  const Completion whole = run_requests(**instance, {request}, {.tokenizer = &*tokenizer})[0];
  ASSERT_EQ(whole.text.size(), 30u);
  EXPECT_EQ(whole.finish, "length");
  for (size_t at = 0; at + 3 <= 30; ++at) {
    const std::string stop = whole.text.substr(at, 3);
    const size_t first = whole.text.find(stop);
    request.stop = {"never there", stop};
    std::string streamed;
    const Completion c =
        run_requests(**instance, {request, request},
                     {.tokenizer = &*tokenizer,
                      .on_token = [&](size_t i, std::optional<int32_t>, std::string_view text) {
                        if (i == 1) streamed += text;
                      }})[1];
    EXPECT_EQ(c.text, whole.text.substr(0, first));
    EXPECT_EQ(streamed, c.text);
    EXPECT_EQ(c.finish, "stop");
    EXPECT_EQ(c.ids,
              std::vector<int32_t>(whole.ids.begin(),
                                   whole.ids.begin() + static_cast<std::ptrdiff_t>(first + 3)));
  }
  // One that is begun but not complete when the text ends is a part of the text.
  request.stop = {whole.text.substr(28) + "more"};
  const Completion open = run_requests(**instance, {request}, {.tokenizer = &*tokenizer})[0];
  EXPECT_EQ(open.text, whole.text);
  EXPECT_EQ(open.finish, "length");
}

TEST(GeneratorSampling, IdsWithoutAnEntryAreNeverSampled) {
  auto instance = fake_instance();
  ASSERT_TRUE(instance);
  Json json = test::small_tokenizer();
  // The likeliest ids behind the first, and some more.
  for (const int byte : {0, 1, 3, 70, 71})
    json["model"]["vocab"].erase(byte_level_text(std::string(1, static_cast<char>(byte))));
  const auto tokenizer = test::parse_small(json);
  ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  Request request{.ids = {7, 8, 9}, .max_tokens = 30, .ignore_stop = true};
  request.sampling.temperature = 20;
  request.logprobs = 20;
  std::map<int32_t, int> seen;
  for (int64_t seed = 0; seed < 30; ++seed) {
    request.sampling.seed = seed;
    const auto completions = run_requests(**instance, {request}, {.tokenizer = &*tokenizer});
    for (const int32_t id : completions[0].ids) ++seen[id];
  }
  for (const int32_t id : {0, 1, 3, 70, 71}) EXPECT_EQ(seen[id], 0) << id;
  EXPECT_GT(seen[2], 20);
}

TEST(GeneratorSampling, WhatIsOutOfRangeIsRefusedBeforeTheFirstStep) {
  auto instance = fake_instance();
  ASSERT_TRUE(instance);
  auto generator = Generator::create(**instance, {});
  ASSERT_TRUE(generator);
  const auto expect = [&](const char* field, auto&& change, const char* fix) {
    Request bad{.ids = {1}, .max_tokens = 1};
    change(bad);
    const auto result = generator->run(std::vector<Request>{{{1}, 1}, bad});
    ASSERT_FALSE(result) << field;
    EXPECT_EQ(result.error().code, Code::request_sampling);
    EXPECT_THAT(result.error().location.to_string(),
                HasSubstr(fmt::format("requests[1].{}", field)));
    EXPECT_THAT(result.error().fix, HasSubstr(fix)) << field;
  };
  const double nan = std::nan("");
  for (const double bad : {-1.0, 0.001, 101.0, nan})
    expect("temperature", [&](Request& r) { r.sampling.temperature = bad; }, "0.01 to 100");
  expect("top_k", [](Request& r) { r.sampling.top_k = -2; }, "0 for all");
  for (const double bad : {0.0, 1.01, nan})
    expect("top_p", [&](Request& r) { r.sampling.top_p = bad; }, "above 0, up to 1");
  for (const double bad : {-0.1, 1.01, nan})
    expect("min_p", [&](Request& r) { r.sampling.min_p = bad; }, "from 0 to 1");
  expect("presence_penalty", [](Request& r) { r.sampling.presence_penalty = 2.1; }, "-2 to 2");
  expect("frequency_penalty", [](Request& r) { r.sampling.frequency_penalty = -2.1; }, "-2 to 2");
  for (const double bad : {0.0, -1.0, nan})
    expect("repetition_penalty", [&](Request& r) { r.sampling.repetition_penalty = bad; }, "0.01");
  expect("seed", [](Request& r) { r.sampling.seed = -1; }, "from 0");
  expect("logprobs", [](Request& r) { r.logprobs = 21; }, "to 20");
  expect("logprobs", [](Request& r) { r.logprobs = -1; }, "to 20");
  expect("stop", [](Request& r) { r.stop = {""}; }, "1 to 1024 bytes");
  expect("stop", [](Request& r) { r.stop = {"\xFF"}; }, "UTF-8");
  expect("stop", [](Request& r) { r.stop = std::vector<std::string>(17, "x"); }, "16 at most");
  expect("stop", [](Request& r) { r.stop = {"x"}; }, "tokenizer.json");
  EXPECT_EQ(generator->stats().steps, 0);
}

}  // namespace
}  // namespace gm
