#include "tools/common/goldens.h"

#include <cstring>
#include <filesystem>

#include "base/dtype.h"
#include "base/json.h"

namespace gm {
namespace {

constexpr const char* kFix = "give a folder as tests/golden has them";

Result<std::vector<GoldenCase>> read_cases(const std::filesystem::path& file) {
  GM_ASSIGN(const Json json, read_json(file));
  GM_ASSIGN(const JsonView list, JsonView(json, file.string()).at("cases"));
  GM_ASSIGN(const std::vector<JsonView> items, list.items());
  std::vector<GoldenCase> cases;
  for (const JsonView& item : items) {
    GoldenCase golden;
    GM_ASSIGN(const JsonView name, item.at("case"));
    GM_ASSIGN(golden.name, name.string());
    GM_ASSIGN(const JsonView error, item.at("reference_bf16_rel_err"));
    GM_ASSIGN(golden.reference_bf16_error, error.number());
    cases.push_back(std::move(golden));
  }
  if (cases.empty()) return err(Code::goldens, list.where(), kFix, "there is no case");
  return cases;
}

Result<std::vector<GoldenLayer>> read_layers(const std::filesystem::path& file) {
  GM_ASSIGN(const Json json, read_json(file));
  GM_ASSIGN(const JsonView list, JsonView(json, file.string()).at("layers"));
  GM_ASSIGN(const std::vector<JsonView> items, list.items());
  std::vector<GoldenLayer> layers;
  for (const JsonView& item : items) {
    GoldenLayer golden;
    GM_ASSIGN(const JsonView layer, item.at("layer"));
    GM_ASSIGN(golden.layer, layer.integer(0, 1'000'000));
    GM_ASSIGN(const JsonView pair, item.at("reference_cpu_vs_gpu"));
    GM_ASSIGN(const JsonView fraction, pair.at("differing_fraction"));
    GM_ASSIGN(golden.reference_differing, fraction.number());
    layers.push_back(golden);
  }
  return layers;
}

}  // namespace

Result<Goldens> Goldens::open(const std::string& folder) {
  const std::filesystem::path path(folder);
  GM_ASSIGN(SafeTensors values, SafeTensors::open_file(path / "golden.safetensors"));
  std::optional<SafeTensors> layer_values;
  std::error_code ignored;
  const bool has_layers = std::filesystem::exists(path / "layers.json", ignored);
  if (has_layers) {
    GM_ASSIGN(layer_values, SafeTensors::open_file(path / "layers.safetensors"));
  }
  Goldens goldens(std::move(values), std::move(layer_values));
  goldens.folder_ = folder;
  GM_ASSIGN(goldens.cases_, read_cases(path / "golden.json"));
  if (has_layers) {
    GM_ASSIGN(goldens.layers_, read_layers(path / "layers.json"));
  }
  return goldens;
}

Result<const StoredTensor*> Goldens::find(const std::string& name,
                                          const std::vector<int64_t>& shape) const {
  const StoredTensor* tensor = values_.find(name);
  if (tensor == nullptr && layer_values_) tensor = layer_values_->find(name);
  if (tensor == nullptr)
    return err(Code::goldens, Location::of_path(folder_, name), kFix,
               "the goldens have no tensor of this name");
  bool fits = tensor->shape.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = shape[i] < 0 || shape[i] == tensor->shape[i];
  if (!fits) {
    return err(Code::goldens, Location::of_path(tensor->file, name),
               "check a plan against the goldens of its own model",
               "the tensor is [{}], but the plan's model has [{}]", fmt::join(tensor->shape, ", "),
               fmt::join(shape, ", "));
  }
  return tensor;
}

Result<std::vector<float>> Goldens::floats(const std::string& name,
                                           std::vector<int64_t> shape) const {
  GM_ASSIGN(const StoredTensor* tensor, find(name, shape));
  std::vector<float> values;
  const std::byte* data = tensor->data.data();
  if (tensor->dtype == "F32") {
    values.resize(tensor->data.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), data, values.size() * sizeof(float));
    return values;
  }
  GM_ASSIGN(const std::vector<uint16_t> bits, bf16_bits(name, std::move(shape)));
  for (const uint16_t b : bits) values.push_back(bf16_to_f32(b));
  return values;
}

Result<std::vector<uint16_t>> Goldens::bf16_bits(const std::string& name,
                                                 std::vector<int64_t> shape) const {
  GM_ASSIGN(const StoredTensor* tensor, find(name, shape));
  if (tensor->dtype != "BF16")
    return err(Code::goldens, Location::of_path(tensor->file, name), kFix,
               "the tensor is {}, not BF16", tensor->dtype);
  std::vector<uint16_t> bits(tensor->data.size() / sizeof(uint16_t));
  if (!bits.empty()) std::memcpy(bits.data(), tensor->data.data(), bits.size() * sizeof(uint16_t));
  return bits;
}

Result<std::vector<int32_t>> Goldens::integers(const std::string& name) const {
  GM_ASSIGN(const StoredTensor* tensor, find(name, {-1}));
  if (tensor->dtype != "I32")
    return err(Code::goldens, Location::of_path(tensor->file, name), kFix,
               "the tensor is {}, not I32", tensor->dtype);
  std::vector<int32_t> values(tensor->data.size() / sizeof(int32_t));
  if (!values.empty())
    std::memcpy(values.data(), tensor->data.data(), values.size() * sizeof(int32_t));
  return values;
}

}  // namespace gm
