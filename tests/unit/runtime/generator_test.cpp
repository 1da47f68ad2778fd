#include "runtime/generator.h"

#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_model.h"
#include "run_requests.h"

namespace gm {
namespace {

using test::fake_instance;
using test::FakeLimits;
using test::run_requests;
using ::testing::HasSubstr;

// What the fake model generates, computed without any runtime.
Completion expected(const Request& request, int64_t context) {
  Completion result;
  std::vector<int32_t> ids = request.ids;
  result.finish = "length";
  const auto most =
      std::min<int64_t>(request.max_tokens, context - static_cast<int64_t>(ids.size()) + 1);
  for (int64_t i = 0; i < most; ++i) {
    const int32_t id = test::fake_next(test::fake_hidden(ids, ids.size()));
    result.ids.push_back(id);
    ids.push_back(id);
    if (!request.ignore_stop && (id == 5 || id == 6)) {
      result.finish = "stop";
      break;
    }
  }
  return result;
}

std::vector<Request> random_requests(uint32_t seed, size_t count, int64_t context) {
  std::mt19937 random(seed);
  std::vector<Request> requests(count);
  for (Request& request : requests) {
    const size_t length = 1 + random() % static_cast<uint32_t>(context - 4);
    for (size_t i = 0; i < length; ++i)
      request.ids.push_back(static_cast<int32_t>(random() % test::kVocab));
    request.max_tokens = static_cast<int64_t>(random() % 30);
    request.ignore_stop = random() % 2 == 0;
  }
  return requests;
}

TEST(Generator, TokensDoNotDependOnNeighboursPiecesOrThreads) {
  const FakeLimits limits;
  int stopped = 0;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    InstanceOptions options;
    options.sizes.threads = 1 + static_cast<int>(seed % 3);
    options.sizes.slots = 1 + seed % 4;
    // From just enough for the longest to enough for all.
    options.sizes.pages = 10 + seed % 3 * 7;
    options.executor.poison = seed % 2 == 0;
    options.sizes.move_arena = seed % 4 == 0;
    auto instance = fake_instance(options);
    ASSERT_TRUE(instance) << instance.error().to_string();
    const std::vector<Request> requests = random_requests(seed, 9, limits.context);
    GeneratorOptions generate;
    if (seed % 5 != 0) generate.prefill_chunk = {1 + seed % 7, 2, 1 + seed % 3};
    const auto completions = run_requests(**instance, requests, generate);
    ASSERT_EQ(completions.size(), requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      const Completion want = expected(requests[i], limits.context);
      EXPECT_EQ(completions[i].ids, want.ids) << "seed " << seed << " request " << i;
      EXPECT_EQ(completions[i].finish, want.finish);
      stopped += want.finish == "stop";
    }
  }
  EXPECT_GT(stopped, 5);  // both ends are tested
}

TEST(Generator, EverySplitOfAPromptInTwoAndInOnes) {
  auto instance = fake_instance();
  ASSERT_TRUE(instance);
  Request request{{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}, 6, true};
  const Completion want = expected(request, 40);
  for (int64_t first = 1; first <= 11; ++first) {
    for (const int64_t second : {int64_t{1}, int64_t{20}}) {
      EXPECT_EQ(run_requests(**instance, {request}, {.prefill_chunk = {first, second}})[0].ids,
                want.ids)
          << first;
    }
  }
}

TEST(Generator, DecodesTogetherAndMixesPiecesIn) {
  auto instance = fake_instance();
  ASSERT_TRUE(instance);
  auto generator = Generator::create(**instance, {});
  ASSERT_TRUE(generator);
  // 4 + 8 tokens in the first step; then both generate; the third has to wait for room, but not for
  // an end.
  const std::vector<Request> requests = {
      {{1, 2, 3, 4}, 6, true}, {{1, 2, 3, 4, 5, 6, 7, 8}, 6, true}, {{9, 9}, 6, true}};
  ASSERT_TRUE(generator->run(requests));
  EXPECT_EQ(generator->stats().mixed_steps, 2);
  EXPECT_EQ(generator->stats().decode_steps, 5);
  EXPECT_EQ(generator->stats().prompt_tokens, 14);
  EXPECT_EQ(generator->stats().generated_tokens, 18);
}

TEST(Generator, WaitsForPagesAndSlotsAndUsesThemAgain) {
  InstanceOptions options;
  options.sizes.pages = 5;  // 20 tokens: one request of 16 + 4 at a time
  auto instance = fake_instance(options);
  ASSERT_TRUE(instance);
  std::vector<Request> requests;
  for (int32_t i = 0; i < 6; ++i) requests.push_back({std::vector<int32_t>(16, i), 5, true});
  const auto completions = run_requests(**instance, requests);
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(completions[i].ids, expected(requests[i], 40).ids);
  // And again with all of them free.
  EXPECT_EQ(run_requests(**instance, requests)[5].ids, completions[5].ids);
}

TEST(Generator, EndsAtTheContextAndAtTheFirstStopId) {
  auto instance = fake_instance();
  ASSERT_TRUE(instance);
  Request request{std::vector<int32_t>(38, 7), 100, true};
  const auto completions =
      run_requests(**instance, {request, {std::vector<int32_t>(40, 7), 3, true}, {{8}, 0}});
  EXPECT_EQ(completions[0].ids.size(), 3u);
  EXPECT_EQ(completions[0].finish, "length");
  EXPECT_EQ(completions[1].ids.size(), 1u);
  EXPECT_EQ(completions[2].ids.size(), 0u);
  EXPECT_EQ(completions[2].finish, "length");
}

TEST(Generator, LogitsOfAllTokensOrOfThoseThatChose) {
  InstanceOptions options;
  options.sizes.rows = 12;
  auto instance = fake_instance(options);
  ASSERT_TRUE(instance);
  const Request request{{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9}, 4, true};
  std::vector<int32_t> ids = request.ids;
  const auto all = run_requests(**instance, {request, request},
                                {.prefill_chunk = {4, 1}, .capture = Capture::all})[1];
  const auto some = run_requests(**instance, {request}, {.capture = Capture::sampled})[0];
  ids.insert(ids.end(), all.ids.begin(), all.ids.end());
  ASSERT_EQ(all.logit_rows, 15 + 3);
  ASSERT_EQ(some.logit_rows, 4);
  ASSERT_EQ(all.logits.size(), 18u * test::kVocab);
  for (size_t row = 0; row < 18; ++row) {
    const int32_t hidden = test::fake_hidden(ids, row + 1);
    EXPECT_EQ(all.logits[row * test::kVocab + static_cast<size_t>(test::fake_next(hidden))],
              static_cast<float>(hidden % 1000))
        << row;
  }
  EXPECT_TRUE(
      std::equal(some.logits.begin(), some.logits.end(), all.logits.begin() + 14 * test::kVocab));
}

TEST(Generator, EveryTokenIsReportedAsItComes) {
  auto instance = fake_instance();
  ASSERT_TRUE(instance);
  std::map<size_t, std::vector<int32_t>> seen;
  std::map<size_t, int> ends;
  GeneratorOptions options;
  options.on_token = [&](size_t request, std::optional<int32_t> id, std::string_view) {
    EXPECT_EQ(ends[request], 0);
    if (id) seen[request].push_back(*id);
    if (!id) ++ends[request];
  };
  const auto requests = random_requests(3, 7, 40);
  const auto completions = run_requests(**instance, requests, options);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(seen[i], completions[i].ids);
    EXPECT_EQ(ends[i], 1);
  }
}

TEST(Generator, RequestsThatCannotRunAreRefusedBeforeTheFirstStep) {
  InstanceOptions options;
  options.sizes.pages = 3;
  auto instance = fake_instance(options);
  ASSERT_TRUE(instance);
  auto generator = Generator::create(**instance, {});
  ASSERT_TRUE(generator);
  const Request good{{1}, 1};
  const auto expect = [&](const Request& bad, Code code, const std::string& text,
                          const std::string& fix) {
    const auto result = generator->run(std::vector<Request>{good, bad});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, code);
    EXPECT_THAT(result.error().message, HasSubstr(text));
    EXPECT_THAT(result.error().location.to_string(), HasSubstr("requests[1]"));
    EXPECT_THAT(result.error().fix, HasSubstr(fix));
  };
  expect({{}, 1}, Code::request_prompt, "the prompt of request 1 is empty", "at least one token");
  expect({{1, 97}, 1}, Code::request_prompt,
         "token 1 of request 1 is 97, but the model has ids 0 to 96", "0 to 96");
  expect({{-1}, 1}, Code::request_prompt, "token 0 of request 1 is -1", "0 to 96");
  expect({std::vector<int32_t>(41, 1), 1}, Code::request_length,
         "has 41 tokens, but the plan was compiled for a context of 40", "--max-context");
  expect({{1}, -1}, Code::request_length, "asks for -1 tokens", "0 or more");
  expect({{1, 2, 3, 4, 5, 6, 7, 8}, 6}, Code::request_pages,
         "needs a cache of 13 tokens (4 pages), but there are 3 pages of 4 tokens",
         "--kv-tokens of at least 16");
  EXPECT_EQ(generator->stats().steps, 0);
  EXPECT_TRUE(generator->run(std::vector<Request>{good, {{1, 2, 3, 4, 5, 6, 7, 8}, 5}}));
  const auto bad = Generator::create(**instance, {.prefill_chunk = {3, 0}});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::run_size);
  EXPECT_THAT(bad.error().to_string(), HasSubstr("--prefill-chunk"));
}

TEST(Generator, TwentyInstancesOneAfterAnother) {
  const auto requests = random_requests(11, 5, 40);
  for (int round = 0; round < 20; ++round) {
    auto instance = fake_instance();
    ASSERT_TRUE(instance);
    const auto completions = run_requests(**instance, requests);
    for (size_t i = 0; i < requests.size(); ++i)
      EXPECT_EQ(completions[i].ids, expected(requests[i], 40).ids);
  }
}

}  // namespace
}  // namespace gm
