#include "tools/graphmill/synth_tokenizer.h"

#include <array>

#include "base/json.h"
#include "runtime/byte_level.h"

namespace gm {
namespace {

constexpr int64_t kBytes = 256;
constexpr int64_t kPublishedFirst = 248044;

struct Added {
  std::string_view text;
  bool special;
};

// In the order of their ids.
constexpr std::array<Added, 26> kAdded = {{
    {"<|endoftext|>", true},      {"<|im_start|>", true},
    {"<|im_end|>", true},         {"<|object_ref_start|>", true},
    {"<|object_ref_end|>", true}, {"<|box_start|>", true},
    {"<|box_end|>", true},        {"<|quad_start|>", true},
    {"<|quad_end|>", true},       {"<|vision_start|>", true},
    {"<|vision_end|>", true},     {"<|vision_pad|>", true},
    {"<|image_pad|>", true},      {"<|video_pad|>", true},
    {"<tool_call>", false},       {"</tool_call>", false},
    {"<|fim_prefix|>", false},    {"<|fim_middle|>", false},
    {"<|fim_suffix|>", false},    {"<|fim_pad|>", false},
    {"<|repo_name|>", false},     {"<|file_sep|>", false},
    {"<tool_response>", false},   {"</tool_response>", false},
    {"<think>", false},           {"</think>", false},
}};

// The published pattern. Without merges it changes no id; it keeps the pieces of a text short.
constexpr std::string_view kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace

Result<SynthTokenizer> synth_tokenizer(int64_t vocab, const Location& where) {
  constexpr auto kCount = static_cast<int64_t>(kAdded.size());
  if (vocab < kBytes + kCount) {
    return err(Code::config_field, where,
               fmt::format("give a config with vocab_size {} or more", kBytes + kCount),
               "a vocabulary of {} has no room for 256 bytes and {} added tokens", vocab, kCount);
  }
  SynthTokenizer result;
  result.first_added = vocab >= kPublishedFirst + kCount ? kPublishedFirst : kBytes;
  Json vocabulary = Json::object(), added = Json::array();
  for (int64_t byte = 0; byte < kBytes; ++byte) {
    const char c = static_cast<char>(byte);
    vocabulary[byte_level_text({&c, 1})] = byte;
  }
  for (int64_t i = 0; i < kCount; ++i) {
    const Added& token = kAdded[static_cast<size_t>(i)];
    added.push_back({{"id", result.first_added + i},
                     {"content", token.text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", token.special}});
  }
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", false},
                           {"use_regex", false}};
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", kPattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  Json steps = Json::array();
  steps.push_back(split);
  steps.push_back(byte_level);
  result.json = write_json({{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", std::move(added)},
                            {"normalizer", {{"type", "NFC"}}},
                            {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
                            {"post_processor", nullptr},
                            {"decoder", byte_level},
                            {"model",
                             {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"ignore_merges", false},
                              {"vocab", std::move(vocabulary)},
                              {"merges", Json::array()}}}});
  return result;
}

}  // namespace gm
