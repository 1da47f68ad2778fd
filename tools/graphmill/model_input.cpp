#include "tools/graphmill/model_input.h"

#include <algorithm>
#include <filesystem>

#include "base/mapped_file.h"
#include "codegen/cpu/cpu_codegen.h"
#include "ir/nearest.h"
#include "models/qwen35/checkpoint.h"
#include "runtime/tokenizer.h"

namespace gm {
namespace {

constexpr size_t kTokenizerLimit = 256u << 20;

Result<> import_tokenizer(ImportedModel& model, const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "tokenizer.json";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};  // the config's end id is used
  GM_ASSIGN(model.tokenizer, read_text_file(file, kTokenizerLimit));
  GM_ASSIGN(const Tokenizer tokenizer, Tokenizer::parse(model.tokenizer, file.string()));
  if (tokenizer.id_limit() > model.config.vocab) {
    return err(Code::tokenizer_vocab, Location::of_path(file.string(), "model.vocab"),
               "put the tokenizer.json of this model beside its config.json",
               "the tokenizer has an entry of id {}, but the model's vocabulary ends at {}",
               tokenizer.id_limit() - 1, model.config.vocab - 1);
  }
  for (const auto& [low, high] : tokenizer.entry_ranges()) {
    model.valid_ids.push_back(low);
    model.valid_ids.push_back(high);
  }
  for (std::string_view name : {"<|endoftext|>", "<|im_end|>"}) {
    if (const auto id = tokenizer.token_id(name)) model.stop_ids.push_back(*id);
  }
  std::ranges::sort(model.stop_ids);
  const auto [first, last] = std::ranges::unique(model.stop_ids);
  model.stop_ids.erase(first, last);
  return {};
}

bool is_published(std::string_view size) {
  const auto sizes = published_sizes();
  return std::ranges::find(sizes, size) != sizes.end();
}

}  // namespace

void TargetFlags::add(CLI::App& command) {
  command.add_option("--target", target, "the machine: cpu[:v3|v4|native]")->capture_default_str();
  command.add_option("--dtype", dtype, "of activations: bf16 or f32")->capture_default_str();
  command.add_option("--fusion", fusion, "off or full")->capture_default_str();
}

Result<> TargetFlags::apply(CompileOptions& options) const {
  const std::vector<std::string> dtypes = {"bf16", "f32"}, fusions = {"off", "full"};
  GM_TRY(one_of("--dtype", dtype, dtypes));
  GM_TRY(one_of("--fusion", fusion, fusions));
  GM_TRY(parse_cpu_target(target));
  options.target = target == "cpu" ? "cpu:v3" : target;
  options.dtype = *parse_dtype(dtype);
  options.fusion = fusion == "full";
  return {};
}

Result<ImportedModel> import_model(const std::string& model, bool splat) {
  std::error_code ignored;
  const bool exists = std::filesystem::exists(model, ignored);
  if (!exists && is_published(model)) {
    if (splat) return import_published(model);
    return err(
        Code::command_line, {},
        fmt::format("add --splat to compile '{}' without weights, or give a checkpoint's folder",
                    model),
        "'{}' is a published size, which has no weights here", model);
  }
  if (!exists && splat && model.find('/') == std::string::npos) {
    std::vector<std::string> sizes;
    for (std::string_view size : published_sizes()) sizes.emplace_back(size);
    GM_TRY(one_of("MODEL", model, sizes));
  }
  if (splat) {
    ImportedModel result;
    GM_ASSIGN(result.config, read_config(model));
    result.dtypes = published_dtypes(result.config);
    GM_TRY(import_tokenizer(result, model));
    return result;
  }
  GM_ASSIGN(ImportedModel result, import_checkpoint(model));
  GM_TRY(import_tokenizer(result, model));
  return result;
}

}  // namespace gm
