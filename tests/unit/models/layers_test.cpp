// Single layers in bf16 against the published implementation's rows and states: here the roundings
// show, which the comparison in f64 cannot see.
#include "golden.h"
#include "models/qwen35/rotary.h"

namespace gm {
namespace {

class GoldenLayers : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenLayers, PrefillAndDecodeAgreeInBf16) {
  const Golden golden(GetParam());
  const GraphOptions options = {.activations = DType::bf16, .max_context = 128};
  const std::vector<int64_t> pages = {17, 3, 22, 0, 9};
  for (int64_t layer = 0; layer < golden.config.layers(); ++layer) {
    SCOPED_TRACE(layer);
    const auto stored = [&](const char* what) {
      return floats(golden.layer_value(fmt::format("layer{}.{}", layer, what)));
    };
    Runner<float> runner(golden, options, layer);
    const auto out =
        runner.step(StepClass::mixed,
                    {{.slot = 1, .ctx = 0, .pages = pages, .ids = {}, .x = stored("prefill.in")}});
    EXPECT_LT(relative_error(out.at("out").data, stored("prefill.out")), 2e-3);

    if (golden.config.layer_kinds[static_cast<size_t>(layer)] == LayerKind::linear_attention) {
      const int64_t channels = golden.config.conv_channels(), columns = golden.config.conv_taps - 1;
      const auto conv = stored("state.conv");  // [channels, columns]; ours is [columns, channels]
      const auto& ours = runner.state(fmt::format("layers.{}.conv", layer)).data;
      for (int64_t i = 0; i < channels * columns; ++i) {
        const auto at = static_cast<size_t>((columns + i % columns) * channels + i / columns);
        ASSERT_NEAR(ours[at], conv[static_cast<size_t>(i)],
                    0.01 * std::abs(conv[static_cast<size_t>(i)]) + 2e-3);
      }
      const auto recurrent = stored("state.recurrent");
      const auto& all = runner.state(fmt::format("layers.{}.recurrent", layer)).data;
      const auto size = static_cast<int64_t>(recurrent.size());
      const std::vector<float> slot(all.begin() + size, all.begin() + 2 * size);
      EXPECT_LT(relative_error(slot, recurrent), 5e-3);
    } else {
      for (const char* name : {"k", "v"}) {
        const auto want = stored(fmt::format("state.{}", name).c_str());  // [heads, tokens, width]
        const auto& ours = runner.state(fmt::format("layers.{}.{}", layer, name)).data;
        const int64_t heads = golden.config.kv_heads, width = golden.config.head_dim;
        std::vector<float> got;
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t t = 0; t < 67; ++t) {
            const int64_t row = pages[static_cast<size_t>(t / 16)] * 16 + t % 16;
            const auto begin = ours.begin() + (row * heads + h) * width;
            got.insert(got.end(), begin, begin + width);
          }
        }
        EXPECT_LT(relative_error(got, want), 1e-3) << name;
      }
    }

    const auto next =
        runner.step(StepClass::decode,
                    {{.slot = 1, .ctx = 67, .pages = pages, .ids = {}, .x = stored("decode.in")}});
    // One row: a value that falls on the other side of a tie weighs more than among 67.
    EXPECT_LT(relative_error(next.at("out").data, stored("decode.out")), 6e-3);
  }
}

// The gate of the delta net's output against its formula in f64: z sigmoid(z), or sigmoid(z) alone.
TEST(OutputGates, FollowTheConfig) {
  Golden golden("dense-odd");
  const int64_t layer = 0;
  const auto x = floats(golden.layer_value("layer0.prefill.in"));
  std::vector<double> outputs[2];
  for (const OutputGate gate : {OutputGate::silu, OutputGate::sigmoid}) {
    golden.config.output_gate = gate;
    Runner<double> runner(golden, {.activations = DType::f32, .max_context = 128}, layer);
    const auto out = runner.step(
        StepClass::mixed, {{.slot = 0, .ctx = 0, .pages = {0, 1, 2, 3, 4}, .ids = {}, .x = x}});
    outputs[static_cast<size_t>(gate)] = out.at("out").data;
    const std::string m = "layers.0.linear_attn.";
    const auto& norm = runner.value(m + "nw").data;
    const auto& z = runner.value(m + "z").data;
    const auto& y = runner.value(m + "y").data;
    ASSERT_EQ(norm.size(), z.size());
    ASSERT_EQ(y.size(), z.size());
    for (size_t i = 0; i < z.size(); ++i) {
      const double open = 1.0 / (1.0 + std::exp(-z[i]));
      const double want = norm[i] * (gate == OutputGate::silu ? z[i] * open : open);
      ASSERT_NEAR(y[i], want, 1e-12 * (1 + std::abs(want))) << i;
    }
  }
  EXPECT_NE(outputs[0], outputs[1]);
}

// YaRN's factor multiplies cos and sin before they are rounded.
TEST(Yarn, ScalesTheRotation) {
  Golden golden("dense-odd");
  golden.config.yarn =
      YarnScaling{.factor = 4, .original_context = 64, .attention_factor = 1.138629436111989};
  const auto frequencies = rotary_frequencies(golden.config);
  const auto x = floats(golden.layer_value("layer1.prefill.in"));
  Runner<float> runner(golden, {.activations = DType::bf16, .max_context = 128}, 1);
  runner.step(StepClass::mixed,
              {{.slot = 0, .ctx = 0, .pages = {0, 1, 2, 3, 4}, .ids = {}, .x = x}});
  const auto& cosine = runner.value("rope.cos").data;
  const auto& sine = runner.value("rope.sin").data;
  const size_t pairs = frequencies.size();
  ASSERT_EQ(cosine.size(), 67 * pairs);
  for (size_t t = 0; t < 67; ++t) {
    for (size_t i = 0; i < pairs; ++i) {
      const double angle =
          static_cast<float>(static_cast<float>(t) * static_cast<float>(frequencies[i]));
      const double factor = golden.config.yarn->attention_factor;
      // Half a step of bf16 at most.
      EXPECT_NEAR(cosine[t * pairs + i], factor * std::cos(angle), 1.0 / 256 + 1e-6);
      EXPECT_NEAR(sine[t * pairs + i], factor * std::sin(angle), 1.0 / 256 + 1e-6);
      EXPECT_EQ(cosine[t * pairs + i], bf16_to_f32(f32_to_bf16(cosine[t * pairs + i])));
    }
  }
  EXPECT_GT(*std::ranges::max_element(cosine), 1.13);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenLayers,
                         ::testing::Values("dense-tiny", "dense-odd", "moe-tiny"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace gm
