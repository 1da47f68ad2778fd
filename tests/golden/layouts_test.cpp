// Every layout of the family holds the same numbers. A golden checkpoint is written in it, with
// other names, experts one by one or rows in another order, and must compile to the same kernels
// over the same bytes.
#include <cstring>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checkpoint_names.h"
#include "models.h"
#include "plan/plan_file.h"
#include "runtime/weights.h"
#include "tests/unit/base/temp_folder.h"
#include "tools/common/interpreter_library.h"

namespace gm::golden {
namespace {

struct Tensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;

  // Rows of axis 0.
  int64_t row_bytes() const { return static_cast<int64_t>(bytes.size()) / shape[0]; }
  std::string rows(int64_t begin, int64_t end) const {
    return bytes.substr(static_cast<size_t>(begin * row_bytes()),
                        static_cast<size_t>((end - begin) * row_bytes()));
  }
};

// A checkpoint in memory, by canonical names, to be written under a prefix.
struct Checkpoint {
  Json config;
  std::map<std::string, Tensor> tensors;

  explicit Checkpoint(const std::string& model)
      : config(need(read_json(folder(model) + "/config.json"))) {
    const SafeTensors stored = need(SafeTensors::open_folder(folder(model)));
    for (const auto& [name, t] : stored.tensors()) {
      if (is_skipped_tensor(name)) continue;
      tensors[canonical_tensor_name(name)] = {
          t.dtype, t.shape, {reinterpret_cast<const char*>(t.data.data()), t.data.size()}};
    }
  }

  int64_t number(const char* key) const {
    return (config.contains("text_config") ? config["text_config"] : config)[key].get<int64_t>();
  }
  Tensor take(const std::string& name) {
    auto node = tensors.extract(name);
    if (node.empty()) throw std::runtime_error("no tensor " + name);
    return std::move(node.mapped());
  }
  std::vector<std::string> ending(std::string_view suffix) const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors) {
      if (name.ends_with(suffix)) names.push_back(name);
    }
    if (names.empty()) throw std::runtime_error(fmt::format("no tensor {}", suffix));
    return names;
  }

  void write(const std::filesystem::path& to, const std::string& prefix,
             const std::string& head = "lm_head.weight") const {
    Json header = Json::object();
    std::string data;
    for (const auto& [name, t] : tensors) {
      header[name == "lm_head.weight" ? head : prefix + name] = {
          {"dtype", t.dtype},
          {"shape", t.shape},
          {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
      data += t.bytes;
    }
    const std::string text = header.dump();
    std::string length;
    for (int i = 0; i < 8; ++i) length += static_cast<char>(text.size() >> (8 * i));
    std::ofstream(to / "model.safetensors", std::ios::binary) << length << text << data;
    std::ofstream(to / "config.json") << config.dump();
  }
};

// experts.gate_up_proj and experts.down_proj as one tensor an expert and projection.
void take_experts_apart(Checkpoint& c) {
  const int64_t experts = c.number("num_experts"), width = c.number("moe_intermediate_size");
  const int64_t hidden = c.number("hidden_size");
  for (const std::string& name : c.ending(".mlp.experts.gate_up_proj")) {
    const std::string mlp = name.substr(0, name.size() - std::strlen("gate_up_proj"));
    const Tensor gate_up = c.take(name), down = c.take(mlp + "down_proj");
    for (int64_t e = 0; e < experts; ++e) {
      const std::string both = gate_up.rows(e, e + 1);
      const std::string expert = fmt::format("{}{}.", mlp, e);
      const std::vector<int64_t> shape = {width, hidden};
      c.tensors[expert + "gate_proj.weight"] = {gate_up.dtype, shape,
                                                both.substr(0, both.size() / 2)};
      c.tensors[expert + "up_proj.weight"] = {gate_up.dtype, shape, both.substr(both.size() / 2)};
      c.tensors[expert + "down_proj.weight"] = {down.dtype, {hidden, width}, down.rows(e, e + 1)};
    }
  }
}

// What Qwen3-Next does: of each key head its q, k, v and z rows, and its b and a rows.
void fuse_projections(Checkpoint& c) {
  const int64_t heads = c.number("linear_num_key_heads"), key = c.number("linear_key_head_dim");
  const int64_t ratio = c.number("linear_num_value_heads") / heads;
  const int64_t values = ratio * c.number("linear_value_head_dim");
  for (const std::string& name : c.ending(".linear_attn.in_proj_qkv.weight")) {
    const std::string gdn = name.substr(0, name.size() - std::strlen("in_proj_qkv.weight"));
    const Tensor qkv = c.take(name), z = c.take(gdn + "in_proj_z.weight");
    const Tensor b = c.take(gdn + "in_proj_b.weight"), a = c.take(gdn + "in_proj_a.weight");
    Tensor qkvz{qkv.dtype, {qkv.shape[0] + z.shape[0], qkv.shape[1]}, {}};
    Tensor ba{b.dtype, {2 * b.shape[0], b.shape[1]}, {}};
    for (int64_t g = 0; g < heads; ++g) {
      const int64_t k0 = heads * key, v0 = 2 * heads * key;
      qkvz.bytes += qkv.rows(g * key, (g + 1) * key) + qkv.rows(k0 + g * key, k0 + (g + 1) * key) +
                    qkv.rows(v0 + g * values, v0 + (g + 1) * values) +
                    z.rows(g * values, (g + 1) * values);
      ba.bytes += b.rows(g * ratio, (g + 1) * ratio) + a.rows(g * ratio, (g + 1) * ratio);
    }
    c.tensors[gdn + "in_proj_qkvz.weight"] = std::move(qkvz);
    c.tensors[gdn + "in_proj_ba.weight"] = std::move(ba);
  }
}

// config.json as Qwen3-Next writes it: flat, rotary numbers side by side, no dense layers of its
// own unless there are no experts.
void make_next(Checkpoint& c) {
  const Json root = c.config;
  if (root.contains("text_config")) {
    c.config = root["text_config"];
    c.config["tie_word_embeddings"] = root["tie_word_embeddings"];
  }
  const Json rope = c.config["rope_parameters"];
  c.config.erase("rope_parameters");
  c.config.erase("mamba_ssm_dtype");
  c.config.erase("attn_output_gate");
  c.config["rope_theta"] = rope["rope_theta"];
  c.config["partial_rotary_factor"] = rope["partial_rotary_factor"];
  c.config["rope_scaling"] = nullptr;
  c.config["model_type"] = "qwen3_next";
  c.config["architectures"] = {"Qwen3NextForCausalLM"};
  c.config["norm_topk_prob"] = true;
  c.config["decoder_sparse_step"] = 1;
  c.config["mlp_only_layers"] = Json::array();
  if (!c.config.contains("num_experts")) c.config["num_experts"] = 0;
  fuse_projections(c);
  if (c.config["num_experts"] != 0) take_experts_apart(c);
}

std::shared_ptr<const Plan> compiled(const std::string& from) {
  CompileOptions options;
  options.native = false;
  options.max_tokens = 64;
  options.max_context = 128;
  return std::make_shared<const Plan>(
      *need(compile_model(need(import_checkpoint(from)), options)).plan);
}

// Everything that runs must be equal, and the bytes it runs on.
void expect_same(const std::string& folder_a, const std::string& folder_b,
                 bool same_recipes = false) {
  const auto a = compiled(folder_a), b = compiled(folder_b);
  EXPECT_EQ(a->programs, b->programs);
  EXPECT_EQ(a->kernels, b->kernels);
  EXPECT_EQ(a->states, b->states);
  for (const PlanKernel& kernel : a->kernels) {
    EXPECT_EQ(a->texts.at(kernel.text_member), b->texts.at(kernel.text_member));
  }
  HostMemory memory;
  ThreadPool threads(2);
  const auto store_a =
      need(bind_weights(*a, need(SafeTensors::open_folder(folder_a)), memory, threads));
  const auto store_b =
      need(bind_weights(*b, need(SafeTensors::open_folder(folder_b)), memory, threads));
  ASSERT_EQ(a->weights.size(), b->weights.size());
  bool recipes = true;
  for (size_t i = 0; i < a->weights.size(); ++i) {
    const WeightBuffer& weight = a->weights[i];
    ASSERT_EQ(weight.name, b->weights[i].name);
    ASSERT_EQ(weight.shape, b->weights[i].shape);
    ASSERT_EQ(weight.dtype, b->weights[i].dtype);
    recipes = recipes && weight == b->weights[i];
    int64_t bytes = size_bytes(weight.dtype);
    for (const int64_t extent : weight.shape) bytes *= extent;
    EXPECT_EQ(std::memcmp(store_a.find(weight.name), store_b.find(weight.name),
                          static_cast<size_t>(bytes)),
              0)
        << weight.name;
  }
  EXPECT_EQ(recipes, same_recipes);
  // The recipes of b survive being written and read.
  EXPECT_EQ(need(parse_plan(need(serialize_plan(*b)), "b.gmp")), *b);
}

std::vector<float> logits(const std::string& from, const std::vector<int32_t>& prompt) {
  const auto plan = compiled(from);
  InstanceOptions options;
  options.sizes.threads = 2;
  options.sizes.rows = 64;
  const auto instance = need(Instance::create(plan, interpreter_library(plan, "plan"),
                                              need(SafeTensors::open_folder(from)), options));
  GeneratorOptions generator_options;
  generator_options.capture = Capture::all;
  Generator generator = need(Generator::create(*instance, generator_options));
  const Request request{.ids = prompt, .max_tokens = 3, .ignore_stop = true};
  return need(generator.run({&request, 1})).front().logits;
}

class Layouts : public TempFolder {};

TEST_F(Layouts, Prefixes) {
  for (const char* model : {"dense-tiny", "dense-odd", "moe-tiny"}) {
    for (const auto& [prefix, head] :
         {std::pair<std::string, std::string>{"model.", "lm_head.weight"},
          {"model.language_model.", "lm_head.weight"},
          {"language_model.model.", "language_model.lm_head.weight"}}) {
      SCOPED_TRACE(fmt::format("{} at {}", model, prefix));
      Checkpoint(model).write(folder, prefix, head);
      expect_same(golden::folder(model), folder, true);
    }
  }
}

TEST_F(Layouts, ExpertsOneByOne) {
  Checkpoint c("moe-tiny");
  take_experts_apart(c);
  c.write(folder, "model.language_model.");
  expect_same(golden::folder("moe-tiny"), folder);
  // Only one of the two packed tensors taken apart, in one layer.
  Checkpoint mixed("moe-tiny");
  for (const char* half : {"gate_proj", "up_proj"}) {
    for (int64_t e = 0; e < c.number("num_experts"); ++e) {
      const std::string name = fmt::format("layers.2.mlp.experts.{}.{}.weight", e, half);
      mixed.tensors[name] = c.tensors.at(name);
    }
  }
  mixed.take("layers.2.mlp.experts.gate_up_proj");
  mixed.write(folder, "model.");
  expect_same(golden::folder("moe-tiny"), folder);
}

TEST_F(Layouts, FlatTextOnlyMixtureOfExperts) {
  Checkpoint c("moe-tiny");
  const Json root = c.config;
  c.config = root["text_config"];
  c.config["architectures"] = {"Qwen3_5MoeForCausalLM"};
  c.config["tie_word_embeddings"] = root["tie_word_embeddings"];
  c.write(folder, "model.");
  expect_same(golden::folder("moe-tiny"), folder, true);
}

TEST_F(Layouts, RowsOfQwen3Next) {
  for (const char* model : {"dense-tiny", "dense-odd", "moe-tiny"}) {
    SCOPED_TRACE(model);
    Checkpoint c(model);
    make_next(c);
    c.write(folder, "model.");
    expect_same(golden::folder(model), folder);
    EXPECT_EQ(need(import_checkpoint(folder)).config.architecture, "qwen3_next");
  }
}

TEST_F(Layouts, LogitsOfQwen3Next) {
  const auto prompt = prompts("dense-odd")[1];
  Checkpoint c("dense-odd");
  make_next(c);
  c.write(folder, "model.");
  const auto want = logits(golden::folder("dense-odd"), prompt), got = logits(folder, prompt);
  ASSERT_FALSE(want.empty());
  EXPECT_EQ(want, got);
  // Rows that are one head off give other logits, so the comparison can see them.
  for (const std::string& name : c.ending("in_proj_qkvz.weight")) {
    Tensor& t = c.tensors.at(name);
    t.bytes = t.rows(1, t.shape[0]) + t.rows(0, 1);
  }
  c.write(folder, "model.");
  EXPECT_NE(want, logits(folder, prompt));
}

// Qwen3.5 stores A_log in f32, its successors in bf16. Where the numbers are the same, so is what
// comes out.
TEST_F(Layouts, DecayRatesInBf16) {
  const auto prompt = prompts("dense-tiny")[0];
  Checkpoint wide("dense-tiny");
  Checkpoint narrow("dense-tiny");
  for (const std::string& name : wide.ending(".linear_attn.A_log")) {
    Tensor& f32 = wide.tensors.at(name);
    ASSERT_EQ(f32.dtype, "F32");
    Tensor bf16{"BF16", f32.shape, {}};
    for (size_t i = 0; i < f32.bytes.size(); i += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, f32.bytes.data() + i, sizeof value);
      const uint16_t bits = f32_to_bf16(value);
      value = bf16_to_f32(bits);
      std::memcpy(f32.bytes.data() + i, &value, sizeof value);
      bf16.bytes.append(reinterpret_cast<const char*>(&bits), sizeof bits);
    }
    narrow.tensors[name] = std::move(bf16);
  }
  std::filesystem::create_directories(folder / "wide");
  std::filesystem::create_directories(folder / "narrow");
  wide.write(folder / "wide", "model.");
  narrow.write(folder / "narrow", "model.");
  EXPECT_EQ(need(import_checkpoint(folder / "narrow")).dtypes.at("layers.0.linear_attn.A_log"),
            DType::bf16);
  const auto want = logits(folder / "wide", prompt), got = logits(folder / "narrow", prompt);
  ASSERT_FALSE(want.empty());
  EXPECT_EQ(want, got);
}

}  // namespace
}  // namespace gm::golden
