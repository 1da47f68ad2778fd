// Small tokenizer files for tests: a vocabulary of the 256 bytes and a few merges, to be changed a
// field at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/json.h"
#include "runtime/byte_level.h"
#include "runtime/tokenizer.h"

namespace gm::test {

inline std::filesystem::path golden_folder(const std::string& name) {
  return std::filesystem::path(GRAPHMILL_SOURCE_DIR) / "tests" / "golden" / name;
}

// The id of a byte is its value; "ab" 256, "abc" 257, "bc" 258; added: <|end|> 300 (special),
// <tool> 301, "é!" 302 (normalized). Merges: a+b, b+c, ab+c.
inline Json small_tokenizer() {
  Json vocab = Json::object();
  for (int b = 0; b < 256; ++b) vocab[byte_level_text(std::string(1, static_cast<char>(b)))] = b;
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  vocab["bc"] = 258;
  const auto added = [](int id, const char* content, bool normalized, bool special) {
    return Json{{"id", id},          {"content", content}, {"single_word", false},
                {"lstrip", false},   {"rstrip", false},    {"normalized", normalized},
                {"special", special}};
  };
  Json json;
  json["version"] = "1.0";
  json["truncation"] = nullptr;
  json["padding"] = nullptr;
  json["added_tokens"] =
      Json::array({added(300, "<|end|>", false, true), added(301, "<tool>", false, false),
                   added(302, "\xC3\xA9!", true, false)});
  json["normalizer"] = Json{{"type", "NFC"}};
  json["pre_tokenizer"] = Json{
      {"type", "Sequence"},
      {"pretokenizers",
       Json::array({Json{{"type", "Split"},
                         {"pattern",
                          Json{{"Regex",
                                "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}"
                                "]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s"
                                "+(?!\\S)|\\s+"}}},
                         {"behavior", "Isolated"},
                         {"invert", false}},
                    Json{{"type", "ByteLevel"},
                         {"add_prefix_space", false},
                         {"trim_offsets", true},
                         {"use_regex", false}}})}};
  json["post_processor"] = nullptr;
  json["decoder"] = Json{{"type", "ByteLevel"},
                         {"add_prefix_space", true},
                         {"trim_offsets", true},
                         {"use_regex", true}};
  json["model"] = Json{{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", ""},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false}};
  json["model"]["vocab"] = vocab;
  json["model"]["merges"] =
      Json::array({Json::array({"a", "b"}), Json::array({"b", "c"}), Json::array({"ab", "c"})});
  return json;
}

inline Result<Tokenizer> parse_small(const Json& json) {
  return Tokenizer::parse(json.dump(), "tokenizer.json");
}

}  // namespace gm::test
