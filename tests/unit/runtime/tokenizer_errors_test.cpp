#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/runtime/tokenizer_fixture.h"

namespace gm {
namespace {

using test::parse_small;
using test::small_tokenizer;

struct Case {
  const char* name;
  std::function<void(Json&)> change;
  Code code;
  std::string path;
  std::string message;
};

void expect_error(const Case& c) {
  SCOPED_TRACE(c.name);
  Json json = small_tokenizer();
  c.change(json);
  const auto t = parse_small(json);
  ASSERT_FALSE(t);
  EXPECT_EQ(t.error().code, c.code) << t.error().to_string();
  EXPECT_EQ(t.error().location.file, "tokenizer.json");
  EXPECT_EQ(t.error().location.path, c.path);
  EXPECT_EQ(t.error().message, c.message);
  EXPECT_NE(t.error().fix, "");
}

TEST(TokenizerErrors, UnsupportedSettingsAreNamed) {
  const Code code = Code::tokenizer_unsupported;
  const std::string split = "pre_tokenizer.pretokenizers[0]";
  const std::string bytes = "pre_tokenizer.pretokenizers[1]";
  const auto pre = [](Json& j, int i) -> Json& { return j["pre_tokenizer"]["pretokenizers"][i]; };
  const std::vector<Case> cases = {
      {"model", [](Json& j) { j["model"]["type"] = "WordPiece"; }, code, "model.type",
       "the model \"WordPiece\" (only BPE is) is not supported"},
      {"unk", [](Json& j) { j["model"]["unk_token"] = "<unk>"; }, code, "model.unk_token",
       "the setting unk_token is not supported"},
      {"dropout", [](Json& j) { j["model"]["dropout"] = 0.1; }, code, "model.dropout",
       "a dropout is not supported"},
      {"fallback", [](Json& j) { j["model"]["byte_fallback"] = true; }, code, "model.byte_fallback",
       "byte_fallback = true is not supported"},
      {"prefix", [](Json& j) { j["model"]["continuing_subword_prefix"] = "##"; }, code,
       "model.continuing_subword_prefix", "the setting continuing_subword_prefix is not supported"},
      {"suffix", [](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }, code,
       "model.end_of_word_suffix", "the setting end_of_word_suffix is not supported"},
      {"unknown", [](Json& j) { j["model"]["novel"] = 1; }, code, "model.novel",
       "the setting \"novel\" is not supported"},
      {"top", [](Json& j) { j["novel"] = 1; }, code, "novel",
       "the setting \"novel\" is not supported"},
      {"version", [](Json& j) { j["version"] = "2.0"; }, code, "version",
       "version \"2.0\" is not supported"},
      {"truncation", [](Json& j) { j["truncation"] = Json::object(); }, code, "truncation",
       "the setting truncation is not supported"},
      {"normalizer", [](Json& j) { j["normalizer"]["type"] = "NFKC"; }, code, "normalizer.type",
       "the normalizer \"NFKC\" (only NFC is) is not supported"},
      {"pre", [](Json& j) { j["pre_tokenizer"]["type"] = "Whitespace"; }, code,
       "pre_tokenizer.type",
       "the pre-tokenizer \"Whitespace\" (only Sequence is) is not supported"},
      {"steps", [](Json& j) { j["pre_tokenizer"]["pretokenizers"].erase(1); }, code,
       "pre_tokenizer.pretokenizers",
       "a sequence of 1 pre-tokenizers (only Split and ByteLevel are) is not supported"},
      {"behavior", [&](Json& j) { pre(j, 0)["behavior"] = "Removed"; }, code, split + ".behavior",
       "the behavior \"Removed\" (only Isolated is) is not supported"},
      {"invert", [&](Json& j) { pre(j, 0)["invert"] = true; }, code, split + ".invert",
       "invert = true is not supported"},
      {"string", [&](Json& j) { pre(j, 0)["pattern"] = Json{{"String", " "}}; }, code,
       split + ".pattern.String", "the setting \"String\" is not supported"},
      {"prefix space", [&](Json& j) { pre(j, 1)["add_prefix_space"] = true; }, code,
       bytes + ".add_prefix_space", "add_prefix_space = true is not supported"},
      {"use_regex", [&](Json& j) { pre(j, 1).erase("use_regex"); }, code, bytes,
       "leaving out use_regex (which means true) is not supported"},
      {"post", [](Json& j) { j["post_processor"] = Json{{"type", "BertProcessing"}}; }, code,
       "post_processor.type", "the post-processor \"BertProcessing\" is not supported"},
      {"template",
       [](Json& j) {
         j["post_processor"] = Json{
             {"type", "TemplateProcessing"},
             {"single", Json::array({Json{{"SpecialToken", Json{{"id", "<s>"}, {"type_id", 0}}}}})},
             {"pair", Json::array()},
             {"special_tokens", Json::object()}};
       },
       code, "post_processor.single[0]", "a template that adds tokens is not supported"},
      {"decoder", [](Json& j) { j["decoder"]["type"] = "WordPiece"; }, code, "decoder.type",
       "the decoder \"WordPiece\" (only ByteLevel is) is not supported"},
      {"lstrip", [](Json& j) { j["added_tokens"][1]["lstrip"] = true; }, code,
       "added_tokens[1].lstrip", "lstrip = true is not supported"},
      {"single_word", [](Json& j) { j["added_tokens"][0]["single_word"] = true; }, code,
       "added_tokens[0].single_word", "single_word = true is not supported"},
  };
  for (const Case& c : cases) expect_error(c);
}

TEST(TokenizerErrors, AcceptsWhatChangesNothing) {
  Json json = small_tokenizer();
  json["normalizer"] = nullptr;
  json["post_processor"] = Json{{"type", "ByteLevel"},
                                {"add_prefix_space", true},
                                {"trim_offsets", false},
                                {"use_regex", true}};
  json["model"]["dropout"] = 0.0;
  EXPECT_TRUE(parse_small(json));
  json["post_processor"] =
      Json{{"type", "TemplateProcessing"},
           {"single", Json::array({Json{{"Sequence", Json{{"id", "A"}, {"type_id", 0}}}}})},
           {"pair", Json::array({Json{{"Sequence", Json{{"id", "A"}, {"type_id", 0}}}}})},
           {"special_tokens", Json::object()}};
  EXPECT_TRUE(parse_small(json));
}

TEST(TokenizerErrors, VocabularyMergesAndAddedTokens) {
  const auto merges = [](Json value) {
    return [value](Json& j) { j["model"]["merges"][1] = value; };
  };
  const std::vector<Case> cases = {
      {"duplicate id", [](Json& j) { j["model"]["vocab"]["bc"] = 'x'; }, Code::tokenizer_vocab,
       "model.vocab.bc", "id 120 is given to both \"x\" and \"bc\""},
      {"negative id", [](Json& j) { j["model"]["vocab"]["bc"] = -1; }, Code::json_field,
       "model.vocab.bc", "expected an integer from 0 to 16777215, found -1"},
      {"huge id", [](Json& j) { j["model"]["vocab"]["bc"] = 1 << 24; }, Code::json_field,
       "model.vocab.bc", "expected an integer from 0 to 16777215, found 16777216"},
      {"id is a text", [](Json& j) { j["model"]["vocab"]["bc"] = "7"; }, Code::json_field,
       "model.vocab.bc", "expected an integer from 0 to 16777215, found a string"},
      {"no vocab", [](Json& j) { j["model"].erase("vocab"); }, Code::json_field, "model.vocab",
       "field \"vocab\" is missing"},
      {"vocab a list", [](Json& j) { j["model"]["vocab"] = Json::array(); }, Code::json_field,
       "model.vocab", "expected an object, found an array"},
      {"no parts", merges("bc"), Code::tokenizer_merge, "model.merges[1]",
       "the merge \"bc\" is not two parts with one space between"},
      {"three parts", merges("b c d"), Code::tokenizer_merge, "model.merges[1]",
       "the merge \"b c d\" is not two parts with one space between"},
      {"number", merges(3), Code::tokenizer_merge, "model.merges[1]",
       "a merge must be a string or a pair of strings"},
      {"triple", merges(Json::array({"a", "b", "c"})), Code::tokenizer_merge, "model.merges[1]",
       "a merge must be a string or a pair of strings"},
      {"missing part", merges("b \xC3\xA9\xC3\xA9"), Code::tokenizer_merge, "model.merges[1]",
       "the merge of \"b\" and \"\xC3\xA9\xC3\xA9\" needs \"\xC3\xA9\xC3\xA9\", which the "
       "vocabulary does not have"},
      {"missing whole", merges(Json::array({"c", "a"})), Code::tokenizer_merge, "model.merges[1]",
       "the merge of \"c\" and \"a\" needs \"ca\", which the vocabulary does not have"},
      {"twice", merges("a b"), Code::tokenizer_merge, "model.merges[1]",
       "the merge of \"a\" and \"b\" is there twice"},
      {"added without id", [](Json& j) { j["added_tokens"][0].erase("id"); }, Code::json_field,
       "added_tokens[0].id", "field \"id\" is missing"},
      {"added id taken", [](Json& j) { j["added_tokens"][0]["id"] = 258; }, Code::tokenizer_added,
       "added_tokens[0].id", "the added token \"<|end|>\" has id 258, which another entry has"},
      {"added ids equal", [](Json& j) { j["added_tokens"][1]["id"] = 300; }, Code::tokenizer_added,
       "added_tokens[1].id", "the added token \"<tool>\" has id 300, which another entry has"},
      {"added twice", [](Json& j) { j["added_tokens"][1]["content"] = "<|end|>"; },
       Code::tokenizer_added, "added_tokens[1].content",
       "the added token \"<|end|>\" is there twice"},
      {"added empty", [](Json& j) { j["added_tokens"][1]["content"] = ""; }, Code::tokenizer_added,
       "added_tokens[1].content", "an added token must have 1 to 256 bytes; this has 0"},
      {"added in vocab", [](Json& j) { j["added_tokens"][1]["content"] = "abc"; },
       Code::tokenizer_added, "added_tokens[1].id",
       "the added token \"abc\" has id 301, and id 257 in the vocabulary"},
  };
  for (const Case& c : cases) expect_error(c);
}

TEST(TokenizerErrors, PatternsThatPcre2ReadsOtherwise) {
  const auto pattern = [](const char* text) {
    return [text](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = text; };
  };
  const std::string path = "pre_tokenizer.pretokenizers[0].pattern.Regex";
  for (const auto& [text, what] : std::vector<std::pair<const char*, std::string>>{
           {"a|\\w+", "\\w at byte 2"},
           {"\\bx", "\\b at byte 0"},
           {"\\h", "\\h at byte 0"},
           {"(a)\\1", "\\1 at byte 3"},
           {"\\p{Han}+", "\\p{Han} at byte 0"},
           {"\\pL", "\\p without {..} at byte 0"},
           {"(*LIMIT_MATCH=1)a", "(* at byte 0"},
           {"(?<n>a)", "(?< at byte 0"},
           {"(?m:a)", "(?m at byte 0"},
           {"^a", "^ at byte 0"},
           {"a$", "$ at byte 1"},
           {"[a&&b]", "&& in a class at byte 2"},
           {"[a[:alpha:]]", "a class inside a class at byte 2"},
           {"a{2}+", "}+ at byte 3"}}) {
    expect_error({text, pattern(text), Code::tokenizer_regex, path,
                  "the pattern uses " + what + ", which is not supported"});
  }
  expect_error({"invalid", pattern("a(b"), Code::tokenizer_regex, path,
                "the pattern is not valid: missing closing parenthesis (after \"a(b\")"});
  expect_error({"class", pattern("a[b"), Code::tokenizer_regex, path,
                "the pattern is not valid: missing terminating ] for character class (after "
                "\"a[b\")"});
  const std::string deep = std::string(5000, '(') + std::string(5000, ')');
  Json json = small_tokenizer();
  pattern(deep.c_str())(json);
  const auto t = parse_small(json);
  ASSERT_FALSE(t);
  EXPECT_EQ(t.error().code, Code::tokenizer_regex);
}

TEST(TokenizerErrors, CatastrophicPatternGivesUp) {
  Json json = small_tokenizer();
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(?:a+)+[bc]";
  const auto t = parse_small(json);
  ASSERT_TRUE(t) << t.error().to_string();
  EXPECT_TRUE(t->encode("aab"));
  const auto ids = t->encode(std::string(200, 'a'));
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code, Code::tokenizer_match);
  EXPECT_EQ(ids.error().message,
            "the pre-tokenizer's pattern gives up at byte 0 of a text of 200 bytes: match limit "
            "exceeded");
}

TEST(TokenizerErrors, PatternThatMatchesNothingOrEverywhere) {
  for (const char* text : {"", "x*", "(?=b)", "\\p{Zs}"}) {
    SCOPED_TRACE(text);
    Json json = small_tokenizer();
    json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = text;
    const auto t = parse_small(json);
    ASSERT_TRUE(t) << t.error().to_string();
    const auto ids = t->encode("ab\xC3\xA9xx");
    ASSERT_TRUE(ids);
    const auto back = t->decode(*ids);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, "ab\xC3\xA9xx");
  }
}

TEST(TokenizerErrors, HostileTexts) {
  EXPECT_EQ(Tokenizer::parse("", "t.json").error().code, Code::json_syntax);
  EXPECT_EQ(Tokenizer::parse("[]", "t.json").error().code, Code::json_field);
  EXPECT_EQ(Tokenizer::parse("null", "t.json").error().code, Code::json_field);
  EXPECT_EQ(Tokenizer::parse(std::string(100'000, '['), "t.json").error().code, Code::json_syntax);
  EXPECT_EQ(Tokenizer::parse("{\"version\": \"\xFF\"}", "t.json").error().code, Code::json_syntax);
  EXPECT_EQ(Tokenizer::open_folder("/nonexistent").error().code, Code::file_open);

  // A file cut anywhere, or with any field of any other type, is an error or sound; never a crash.
  const std::string whole = small_tokenizer().dump();
  for (size_t length = 0; length < whole.size(); length += 7)
    EXPECT_FALSE(Tokenizer::parse(std::string_view(whole).substr(0, length), "t.json"));
  const Json flat = small_tokenizer().flatten();
  for (const auto& [pointer, unused] : flat.items()) {
    if (pointer.starts_with("/model/vocab/")) continue;
    for (const Json& value :
         {Json(nullptr), Json(7), Json(-1.5), Json("x"), Json::array(), Json::object()}) {
      Json json = small_tokenizer();
      json[Json::json_pointer(pointer)] = value;
      const auto t = parse_small(json);
      EXPECT_TRUE(t || !t.error().location.file.empty()) << pointer;
    }
  }
}

}  // namespace
}  // namespace gm
