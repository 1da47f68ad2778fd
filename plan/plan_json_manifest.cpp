#include "plan/json_fields.h"
#include "plan/plan_json.h"

namespace gm {
namespace {

Result<> check_format(const JsonView& manifest) {
  GM_ASSIGN(const JsonView format, manifest.at("format"));
  GM_ASSIGN(const int64_t major, integer_field(format, "major", 0));
  GM_ASSIGN(const int64_t minor, integer_field(format, "minor", 0));
  if (major == kPlanFormatMajor && minor <= kPlanFormatMinor) {
    return known_keys(format, {"major", "minor"});
  }
  const bool newer =
      major > kPlanFormatMajor || (major == kPlanFormatMajor && minor > kPlanFormatMinor);
  return err(Code::plan_version, format.where(),
             newer ? "use the graphmill that wrote the plan, or recompile it with this one"
                   : "recompile the plan with this graphmill",
             "the plan has format {}.{}; this graphmill reads {}.0 to {}.{}", major, minor,
             kPlanFormatMajor, kPlanFormatMajor, kPlanFormatMinor);
}

Result<std::string> word_field(const JsonView& object, std::string_view key,
                               std::initializer_list<std::string_view> words) {
  GM_ASSIGN(const JsonView at, object.at(key));
  GM_ASSIGN(std::string text, at.string());
  for (const std::string_view word : words) {
    if (text == word) return text;
  }
  return field_error(at, "\"{}\" is none of {}", text, fmt::join(words, ", "));
}

Result<ModelFacts> read_model(const JsonView& at) {
  GM_TRY(known_keys(at, {"architecture", "vocab", "hidden", "layers", "max_position", "stop_ids",
                         "layer_types"}));
  ModelFacts model;
  GM_ASSIGN(model.architecture, string_field(at, "architecture"));
  GM_ASSIGN(model.vocab, integer_field(at, "vocab", 1));
  GM_ASSIGN(model.hidden, integer_field(at, "hidden", 1));
  GM_ASSIGN(model.layers, integer_field(at, "layers", 0));
  GM_ASSIGN(model.max_position, integer_field(at, "max_position", 1));
  GM_ASSIGN(model.stop_ids, integers_field(at, "stop_ids", 0));
  GM_ASSIGN(model.layer_types, strings_field(at, "layer_types"));
  return model;
}

Result<PlanLimits> read_limits(const JsonView& at) {
  GM_TRY(known_keys(at, {"max_context", "max_seqs", "max_tokens", "page_tokens"}));
  PlanLimits limits;
  GM_ASSIGN(limits.max_context, integer_field(at, "max_context", 1));
  GM_ASSIGN(limits.max_seqs, integer_field(at, "max_seqs", 1));
  GM_ASSIGN(limits.max_tokens, integer_field(at, "max_tokens", 1));
  GM_ASSIGN(limits.page_tokens, integer_field(at, "page_tokens", 1));
  return limits;
}

}  // namespace

Result<MemberDigests> read_manifest(const JsonView& manifest, Plan& plan) {
  GM_TRY(check_format(manifest));
  GM_TRY(known_keys(manifest,
                    {"format", "compiler", "stage", "target", "target_features", "llvm_version",
                     "dtype", "numerics", "fusion", "model", "limits", "members"}));
  GM_ASSIGN(plan.compiler, string_field(manifest, "compiler"));
  GM_ASSIGN(plan.stage, word_field(manifest, "stage", {"native", "kernels"}));
  GM_ASSIGN(plan.target, string_field(manifest, "target"));
  GM_ASSIGN(plan.target_features, string_field(manifest, "target_features"));
  GM_ASSIGN(plan.llvm_version, string_field(manifest, "llvm_version"));
  GM_ASSIGN(plan.dtype, word_field(manifest, "dtype", {"bf16", "f32"}));
  GM_ASSIGN(plan.numerics, string_field(manifest, "numerics"));
  GM_ASSIGN(plan.fusion, string_field(manifest, "fusion"));
  GM_ASSIGN(const JsonView model, manifest.at("model"));
  GM_ASSIGN(plan.model, read_model(model));
  GM_ASSIGN(const JsonView limits, manifest.at("limits"));
  GM_ASSIGN(plan.limits, read_limits(limits));

  MemberDigests digests;
  GM_ASSIGN(const JsonView list, manifest.at("members"));
  GM_ASSIGN(const auto members, list.members());
  for (const auto& [name, at] : members) {
    GM_ASSIGN(std::string hex, at.string());
    digests.emplace(name, std::move(hex));
  }
  return digests;
}

bool is_text_member(std::string_view name) {
  constexpr std::string_view kFolder = "kernels/";
  constexpr std::string_view kEnding = ".gm";
  std::string_view rest = name;
  if (rest.starts_with(kFolder)) {
    rest.remove_prefix(kFolder.size());
    if (rest.size() <= kEnding.size()) return false;
  } else if (!rest.starts_with("graph")) {
    return false;
  }
  if (!rest.ends_with(kEnding)) return false;
  for (const char c : rest) {
    if (c <= 0x20 || c >= 0x7f || c == '/' || c == '\\') return false;
  }
  return true;
}

}  // namespace gm
