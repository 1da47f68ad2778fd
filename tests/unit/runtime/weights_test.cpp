// Every layout against its index formula, with odd sizes and data at an odd offset.
#include "runtime/weights.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint_file.h"

namespace gm {
namespace {

using test::FileTensor;
using ::testing::HasSubstr;

class Weights : public ::testing::Test {
 protected:
  FileTensor tensor(const std::string& name, const std::string& dtype, std::vector<int64_t> shape) {
    int64_t bytes = dtype == "F32" || dtype == "I32" ? 4 : dtype == "I8" ? 1 : 2;
    for (const int64_t extent : shape) bytes *= extent;
    FileTensor t{name, dtype, std::move(shape), {}};
    for (int64_t i = 0; i < bytes; ++i)
      t.bytes += static_cast<char>(random_() | 1);  // never the zero of a tail
    return t;
  }

  Result<WeightStore> bind(const std::vector<FileTensor>& tensors) {
    auto file =
        SafeTensors::open_file(test::write_checkpoint(folder_.path() / "m.safetensors", tensors));
    EXPECT_TRUE(file) << file.error().to_string();
    HostMemory memory;
    ThreadPool threads(2);
    return bind_weights(plan_, *file, memory, threads);
  }

  // The code, and the message with its place and fix.
  void expect_fault(const std::vector<FileTensor>& tensors, Code code, const std::string& text) {
    const auto store = bind(tensors);
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code, code);
    EXPECT_THAT(store.error().to_string(), HasSubstr(text));
    EXPECT_THAT(store.error().to_string(), HasSubstr("m.safetensors"));
    EXPECT_FALSE(store.error().fix.empty());
  }

  std::mt19937 random_{7};
  test::TempDir folder_;
  Plan plan_;
};

std::string element(const FileTensor& t, int64_t index, int64_t size) {
  return t.bytes.substr(static_cast<size_t>(index * size), static_cast<size_t>(size));
}
std::string element(const std::byte* data, int64_t index, int64_t size) {
  return std::string(reinterpret_cast<const char*>(data) + index * size, static_cast<size_t>(size));
}

TEST_F(Weights, DenseAsStoredAndSliced) {
  const FileTensor whole = tensor("model.a", "BF16", {3, 5, 7}),
                   sliced = tensor("b", "F32", {4, 9, 3});
  plan_.weights = {
      {"a", DType::bf16, {3, 5, 7}, "dense", {{.tensor = "a", .stored_shape = {3, 5, 7}}}},
      {"b",
       DType::f32,
       {4, 4, 3},
       "dense",
       {{.tensor = "b",
         .stored_shape = {4, 9, 3},
         .slice_axis = 1,
         .slice_begin = 2,
         .slice_end = 6}}}};
  const auto store = bind({whole, sliced});
  ASSERT_TRUE(store) << store.error().to_string();
  EXPECT_EQ(element(store->find("a"), 0, 3 * 5 * 7 * 2), whole.bytes);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      for (int64_t k = 0; k < 3; ++k) {
        EXPECT_EQ(element(store->find("b"), (i * 4 + j) * 3 + k, 4),
                  element(sliced, (i * 9 + j + 2) * 3 + k, 4));
      }
    }
  }
  EXPECT_EQ(store->bytes(), 3 * 5 * 7 * 2 + 4 * 4 * 3 * 4);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(store->find("b")) % 64, 0u);
  EXPECT_EQ(store->find("c"), nullptr);
}

TEST_F(Weights, TransposedWithoutUnitAxes) {
  const FileTensor conv = tensor("conv", "BF16", {101, 1, 4});
  plan_.weights = {{"conv",
                    DType::bf16,
                    {4, 101},
                    "transposed",
                    {{.tensor = "conv", .stored_shape = {101, 1, 4}}}}};
  const auto store = bind({conv});
  ASSERT_TRUE(store) << store.error().to_string();
  for (int64_t c = 0; c < 101; ++c) {
    for (int64_t j = 0; j < 4; ++j)
      EXPECT_EQ(element(store->find("conv"), j * 101 + c, 2), element(conv, c * 4 + j, 2));
  }
}

TEST_F(Weights, PanelsOfStackedPartsWithZeroTails) {
  for (const auto& [word, dtype] : {std::pair<std::string, DType>{"BF16", DType::bf16},
                                    {"F32", DType::f32},
                                    {"I8", DType::i8}}) {
    const int64_t size = size_bytes(dtype), k_size = 13;
    const std::vector<int64_t> rows = {40, 1, 33, 64};
    std::vector<FileTensor> tensors;
    WeightBuffer buffer{"w", dtype, {2 + 1 + 2 + 2, k_size, 32}, "panels", {}};
    int64_t panel = 0;
    for (size_t p = 0; p < rows.size(); ++p) {
      tensors.push_back(tensor("p" + std::to_string(p), word, {rows[p], k_size}));
      buffer.parts.push_back(
          {.tensor = tensors[p].name, .stored_shape = tensors[p].shape, .panel_offset = panel});
      panel += (rows[p] + 31) / 32;
    }
    plan_.weights = {buffer};
    const auto store = bind(tensors);
    ASSERT_TRUE(store) << store.error().to_string();
    for (size_t p = 0; p < rows.size(); ++p) {
      for (int64_t n = 0; n < (rows[p] + 31) / 32 * 32; ++n) {
        for (int64_t k = 0; k < k_size; ++k) {
          const int64_t at = ((buffer.parts[p].panel_offset + n / 32) * k_size + k) * 32 + n % 32;
          const std::string expected = n < rows[p] ? element(tensors[p], n * k_size + k, size)
                                                   : std::string(static_cast<size_t>(size), '\0');
          ASSERT_EQ(element(store->find("w"), at, size), expected)
              << word << " part " << p << " n " << n << " k " << k;
        }
      }
    }
  }
}

TEST_F(Weights, PanelsOfExpertsSlicedInRowsAndInColumns) {
  const int64_t experts = 3, n_all = 75, k_all = 9;
  const FileTensor packed = tensor("e", "BF16", {experts, n_all, k_all});
  const int64_t begin = 35, end = 75, first = 2, last = 7;
  plan_.weights = {{"columns",
                    DType::bf16,
                    {experts, 3, last - first, 32},
                    "panels",
                    {{.tensor = "e",
                      .stored_shape = {experts, n_all, k_all},
                      .slice_axis = 2,
                      .slice_begin = first,
                      .slice_end = last}}},
                   {"rows",
                    DType::bf16,
                    {experts, 2, k_all, 32},
                    "panels",
                    {{.tensor = "e",
                      .stored_shape = {experts, n_all, k_all},
                      .slice_axis = 1,
                      .slice_begin = begin,
                      .slice_end = end}}}};
  const auto store = bind({packed});
  ASSERT_TRUE(store) << store.error().to_string();
  for (int64_t e = 0; e < experts; ++e) {
    for (int64_t n = 0; n < 64; ++n) {
      for (int64_t k = 0; k < k_all; ++k) {
        const int64_t at = ((e * 2 + n / 32) * k_all + k) * 32 + n % 32;
        const std::string expected = n < end - begin
                                         ? element(packed, (e * n_all + begin + n) * k_all + k, 2)
                                         : std::string(2, '\0');
        ASSERT_EQ(element(store->find("rows"), at, 2), expected);
      }
    }
    for (int64_t n = 0; n < 96; ++n) {
      for (int64_t k = 0; k < last - first; ++k) {
        const int64_t at = ((e * 3 + n / 32) * (last - first) + k) * 32 + n % 32;
        const std::string expected = n < n_all
                                         ? element(packed, (e * n_all + n) * k_all + first + k, 2)
                                         : std::string(2, '\0');
        ASSERT_EQ(element(store->find("columns"), at, 2), expected);
      }
    }
  }
}

// Experts that are stored one by one fill what packed ones would, in each layout.
TEST_F(Weights, SeriesOfTensorsAreStacked) {
  const int64_t experts = 11, n_all = 37, k_all = 9;
  std::vector<FileTensor> tensors;
  FileTensor packed = tensor("packed", "BF16", {experts, n_all, k_all});
  for (int64_t e = 0; e < experts; ++e) {
    tensors.push_back({fmt::format("model.layers.0.e.{}.w", e),
                       "BF16",
                       {n_all, k_all},
                       packed.bytes.substr(static_cast<size_t>(e * n_all * k_all * 2),
                                           static_cast<size_t>(n_all * k_all * 2))});
  }
  std::vector<FileTensor> both = tensors;
  both.push_back(packed);
  const WeightPart one = {.tensor = "packed", .stored_shape = packed.shape};
  const WeightPart series = {
      .tensor = "layers.0.e.*.w", .stored_shape = {n_all, k_all}, .series = experts};
  plan_.weights = {{"a", DType::bf16, packed.shape, "dense", {one}},
                   {"b", DType::bf16, packed.shape, "dense", {series}},
                   {"c", DType::bf16, {experts, 2, k_all, 32}, "panels", {one}},
                   {"d", DType::bf16, {experts, 2, k_all, 32}, "panels", {series}}};
  const auto store = bind(both);
  ASSERT_TRUE(store) << store.error().to_string();
  EXPECT_EQ(element(store->find("b"), 0, experts * n_all * k_all * 2), packed.bytes);
  EXPECT_EQ(std::memcmp(store->find("c"), store->find("d"),
                        static_cast<size_t>(experts * 2 * k_all * 32 * 2)),
            0);
  plan_.weights = {plan_.weights[3]};
  plan_.model.layers = 1;
  EXPECT_TRUE(bind(tensors));
  tensors[10].shape = {k_all, n_all};
  expect_fault(tensors, Code::weights_shape, "tensor layers.0.e.10.w has shape [9, 37]");
  tensors.pop_back();
  expect_fault(tensors, Code::weights_missing, "the weights have no tensor layers.0.e.10.w");
}

// Rows that are interleaved by group come out side by side.
TEST_F(Weights, RowsOfGroups) {
  const int64_t groups = 3, each = 14, k_all = 5;
  const FileTensor fused = tensor("fused", "BF16", {groups * each, k_all});
  const std::vector<std::pair<int64_t, int64_t>> ranges = {{0, 2}, {2, 13}};
  const WeightPart part = {
      .tensor = "fused", .stored_shape = fused.shape, .groups = groups, .ranges = ranges};
  const int64_t rows = groups * 13;
  plan_.weights = {{"dense", DType::bf16, {rows, k_all}, "dense", {part}},
                   {"panels", DType::bf16, {2, k_all, 32}, "panels", {part}},
                   {"transposed", DType::bf16, {k_all, rows}, "transposed", {part}}};
  const auto store = bind({fused});
  ASSERT_TRUE(store) << store.error().to_string();
  int64_t row = 0;
  for (const auto& [begin, end] : ranges) {
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t r = begin; r < end; ++r, ++row) {
        for (int64_t k = 0; k < k_all; ++k) {
          const std::string want = element(fused, (g * each + r) * k_all + k, 2);
          ASSERT_EQ(element(store->find("dense"), row * k_all + k, 2), want) << row;
          ASSERT_EQ(element(store->find("transposed"), k * rows + row, 2), want) << row;
          ASSERT_EQ(element(store->find("panels"), (row / 32 * k_all + k) * 32 + row % 32, 2), want)
              << row;
        }
      }
    }
  }
  EXPECT_EQ(row, rows);
}

TEST_F(Weights, ValuesInEachDtype) {
  plan_.weights = {
      {"f", DType::f32, {3}, "dense", {{.stored_shape = {3}, .values = {1.0, 0.5, -2.25}}}},
      {"h", DType::bf16, {2}, "dense", {{.stored_shape = {2}, .values = {1.0, -0.5}}}}};
  const auto store = bind({tensor("unused", "F32", {1})});
  ASSERT_TRUE(store) << store.error().to_string();
  const float expected[] = {1.0f, 0.5f, -2.25f};
  EXPECT_EQ(std::memcmp(store->find("f"), expected, sizeof expected), 0);
  const uint16_t half[] = {0x3f80, 0xbf00};
  EXPECT_EQ(std::memcmp(store->find("h"), half, sizeof half), 0);
}

TEST_F(Weights, WrongCheckpointsAreNamed) {
  plan_.weights = {
      {"a", DType::bf16, {3, 5}, "dense", {{.tensor = "layers.0.a", .stored_shape = {3, 5}}}}};
  plan_.model.layers = 1;
  expect_fault({tensor("other", "BF16", {3, 5})}, Code::weights_missing,
               "the weights have no tensor layers.0.a, which the plan needs for a");
  expect_fault({tensor("model.layers.0.a", "BF16", {5, 3})}, Code::weights_shape,
               "tensor layers.0.a has shape [5, 3], but the plan was compiled for [3, 5]");
  expect_fault({tensor("model.layers.0.a", "F16", {3, 5})}, Code::weights_dtype,
               "tensor layers.0.a is stored as F16, but the plan was compiled for bf16");
  expect_fault(
      {tensor("model.layers.0.a", "BF16", {3, 5}), tensor("model.layers.1.a", "BF16", {3, 5})},
      Code::weights_foreign,
      "a tensor layers.1.a, which the plan's model of 1 layers does not have");
  expect_fault({tensor("model.layers.0.a", "BF16", {3, 5}), tensor("layers.0.a", "BF16", {3, 5})},
               Code::weights_foreign, "are both the model's layers.0.a");
}

}  // namespace
}  // namespace gm
