// Whole models against the numbers of the published implementation: what the graphs compute, not
// how they look.
#include "golden.h"

namespace gm {
namespace {

constexpr GraphOptions kF32 = {.activations = DType::f32, .max_context = 256};
const std::vector<int64_t> kShuffled = {17, 3, 22, 0, 9, 5, 14, 1};

class GoldenModel : public ::testing::TestWithParam<std::string> {
 protected:
  Golden golden{GetParam()};
  int64_t vocab = golden.config.vocab;

  std::vector<int64_t> prompt(int number) const {
    return ints(golden.value(fmt::format("case{}.prompt", number)));
  }
  std::vector<double> logits(int number) const {
    return floats(golden.value(fmt::format("case{}.logits_f32", number)));
  }
};

template <class T>
std::vector<T> rows(const RefTensor<T>& logits, int64_t begin, int64_t end) {
  const int64_t width = logits.shape[1];
  return {logits.data.begin() + begin * width, logits.data.begin() + end * width};
}

// The first two cases, of 1 to 7 tokens, in one ragged step on unclean slots and shuffled pages.
TEST_P(GoldenModel, AgreesInF64) {
  Runner<double> runner(golden, kF32);
  const auto first = prompt(0), second = prompt(1);
  const auto out = runner.step(StepClass::mixed,
                               {{.slot = 2, .ctx = 0, .pages = {kShuffled[3]}, .ids = first},
                                {.slot = 0, .ctx = 0, .pages = {kShuffled[0]}, .ids = second}});
  const auto& all = out.at("logits");
  const auto split = static_cast<int64_t>(first.size());
  EXPECT_LT(relative_error(rows(all, 0, split), logits(0)), 1e-5);
  EXPECT_LT(relative_error(rows(all, split, all.shape[0]), logits(1)), 1e-5);
  EXPECT_EQ(out.at("next").ints[0], ints(golden.value("case0.greedy"))[0]);
  EXPECT_EQ(out.at("next").ints.back(), ints(golden.value("case1.greedy"))[0]);
}

// The states carry a prompt from one step to the next, and the decode graph continues a mixed one.
TEST_P(GoldenModel, PiecesAgreeWithTheWhole) {
  const auto ids = prompt(1);
  for (size_t cut = 1; cut < ids.size(); ++cut) {
    Runner<double> runner(golden, kF32);
    const std::vector<int64_t> head(ids.begin(), ids.begin() + static_cast<int64_t>(cut));
    const std::vector<int64_t> tail(ids.begin() + static_cast<int64_t>(cut), ids.end());
    const Piece fresh = {.slot = 1, .ctx = 0, .pages = {kShuffled[1]}, .ids = head};
    auto all = runner.step(StepClass::mixed, {fresh}).at("logits").data;
    const Piece rest = {
        .slot = 1, .ctx = static_cast<int64_t>(cut), .pages = {kShuffled[1]}, .ids = tail};
    const auto more = runner.step(tail.size() == 1 ? StepClass::decode : StepClass::mixed, {rest})
                          .at("logits")
                          .data;
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_LT(relative_error(all, logits(1)), 1e-5) << "cut after " << cut;
  }
}

// A prompt of several pages, of which only the last rows' logits are stored; cut inside of a page.
TEST_P(GoldenModel, LongPromptAcrossPages) {
  const auto ids = prompt(3);
  const auto want = logits(3);
  const auto tokens = static_cast<int64_t>(ids.size());
  const int64_t cut = tokens - static_cast<int64_t>(want.size()) / vocab;
  Runner<double> runner(golden, kF32);
  const std::vector<int64_t> pages = {17, 3, 22, 0, 9, 5, 14, 1, 20};
  Piece piece = {.slot = 0, .ctx = 0, .pages = pages, .ids = {ids.begin(), ids.begin() + cut}};
  if (cut > 0) runner.step(StepClass::mixed, {piece});
  piece.ctx = cut;
  piece.ids.assign(ids.begin() + cut, ids.end());
  const auto out = runner.step(StepClass::mixed, {piece});
  EXPECT_LT(relative_error(out.at("logits").data, want), 1e-5);
  EXPECT_EQ(out.at("next").ints.back(), ints(golden.value("case3.greedy"))[0]);
}

// Greedy decoding through the decode graph, beside another sequence; a padded row changes nothing.
TEST_P(GoldenModel, GreedyTokens) {
  Runner<double> runner(golden, kF32);
  auto next = runner
                  .step(StepClass::mixed, {{.slot = 2, .ctx = 0, .pages = {4}, .ids = prompt(0)},
                                           {.slot = 1, .ctx = 0, .pages = {11}, .ids = prompt(1)}})
                  .at("next")
                  .ints;
  const auto want0 = ints(golden.value("case0.greedy")), want1 = ints(golden.value("case1.greedy"));
  int64_t token0 = next[prompt(0).size() - 1], token1 = next.back();
  auto at0 = static_cast<int64_t>(prompt(0).size()), at1 = static_cast<int64_t>(prompt(1).size());
  const auto logits0 = floats(golden.value("case0.greedy_logits_f32"));
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(token0, want0[i]);
    ASSERT_EQ(token1, want1[i]);
    const auto out =
        runner.step(StepClass::decode, {{.slot = 1, .ctx = at1++, .pages = {11}, .ids = {token1}},
                                        {.slot = -1, .ctx = 0, .pages = {}, .ids = {0}},
                                        {.slot = 2, .ctx = at0++, .pages = {4}, .ids = {token0}}});
    token1 = out.at("next").ints[0];
    token0 = out.at("next").ints[2];
  }
  EXPECT_EQ(token0, want0[3]);
  EXPECT_EQ(token1, want1[3]);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenModel, ::testing::Values("dense-tiny", "dense-odd", "moe-tiny"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace gm
