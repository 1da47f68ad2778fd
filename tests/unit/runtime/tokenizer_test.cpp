#include "runtime/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "runtime/byte_level.h"
#include "runtime/text_stream.h"
#include "tests/unit/runtime/tokenizer_fixture.h"

namespace gm {
namespace {

using test::golden_folder;
using test::parse_small;
using test::small_tokenizer;
using ::testing::ElementsAre;

using Ids = std::vector<int32_t>;

Tokenizer small() {
  auto tokenizer = parse_small(small_tokenizer());
  if (!tokenizer) ADD_FAILURE() << tokenizer.error().to_string();
  return *std::move(tokenizer);
}

Ids encoded(const Tokenizer& tokenizer, std::string_view text) {
  auto ids = tokenizer.encode(text);
  if (!ids) {
    ADD_FAILURE() << ids.error().to_string();
    return {};
  }
  return *ids;
}

class TokenizerGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, EncodesAndDecodesAsTheReference) {
  auto tokenizer = Tokenizer::open_folder(golden_folder(GetParam()));
  ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  auto golden = read_json(golden_folder(GetParam()) / "tokenizer_golden.json");
  ASSERT_TRUE(golden) << golden.error().to_string();
  ASSERT_GE(golden->size(), 20u);
  int changed_by_nfc = 0;
  for (const Json& entry : *golden) {
    const auto text = entry["text"].get<std::string>();
    const auto ids = entry["ids"].get<Ids>();
    const auto decoded = entry["decoded"].get<std::string>();
    SCOPED_TRACE(text);
    EXPECT_EQ(encoded(*tokenizer, text), ids);
    auto back = tokenizer->decode(ids);
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(*back, decoded);
    changed_by_nfc += text != decoded;

    TextStream stream(*tokenizer);
    std::string streamed;
    for (const int32_t id : ids) {
      auto part = stream.push(id);
      ASSERT_TRUE(part);
      EXPECT_FALSE(utf8_error_offset(*part));
      streamed += *part;
    }
    EXPECT_EQ(streamed + stream.finish(), decoded);
  }
  EXPECT_EQ(changed_by_nfc, 1);
  EXPECT_THAT(tokenizer->entry_ranges(), ElementsAre(std::pair(0, 1024)));
  EXPECT_EQ(tokenizer->id_limit(), 1024);
  EXPECT_EQ(tokenizer->token_id("<|im_end|>"), 2);
}

INSTANTIATE_TEST_SUITE_P(Models, TokenizerGolden, ::testing::Values("dense-tiny", "moe-tiny"));

TEST(Tokenizer, MergesByRankThenFromTheLeft) {
  const Tokenizer t = small();
  EXPECT_THAT(encoded(t, "abc"), ElementsAre(257));
  EXPECT_THAT(encoded(t, "bcab"), ElementsAre(258, 256));
  EXPECT_THAT(encoded(t, "aabcc"), ElementsAre('a', 257, 'c'));
  EXPECT_THAT(encoded(t, "ababc"), ElementsAre(256, 257));

  // Equal ranks overlap: the leftmost pair goes first.
  Json json = small_tokenizer();
  json["model"]["vocab"]["aa"] = 259;
  json["model"]["merges"] = Json::array({"a a"});
  auto aa = parse_small(json);
  ASSERT_TRUE(aa) << aa.error().to_string();
  EXPECT_THAT(encoded(*aa, "aaaaa"), ElementsAre(259, 259, 'a'));
}

TEST(Tokenizer, ReadsBothFormsOfMerges) {
  Json json = small_tokenizer();
  json["model"]["merges"] = Json::array({"#version: 0.2", "a b", "b c", "ab c"});
  auto t = parse_small(json);
  ASSERT_TRUE(t) << t.error().to_string();
  EXPECT_THAT(encoded(*t, "abc bc"), ElementsAre(257, ' ', 258));
}

TEST(Tokenizer, IgnoreMergesTakesWholeWordsOfTheVocabulary) {
  Json json = small_tokenizer();
  json["model"]["vocab"]["cab"] = 259;
  auto with_merges = parse_small(json);
  ASSERT_TRUE(with_merges);
  EXPECT_THAT(encoded(*with_merges, "cab"), ElementsAre('c', 256));
  json["model"]["ignore_merges"] = true;
  auto without = parse_small(json);
  ASSERT_TRUE(without);
  EXPECT_THAT(encoded(*without, "cab"), ElementsAre(259));
  EXPECT_THAT(encoded(*without, "cabc"), ElementsAre('c', 257));
}

TEST(Tokenizer, EmptyTextAndNul) {
  const Tokenizer t = small();
  EXPECT_THAT(encoded(t, ""), ElementsAre());
  EXPECT_THAT(encoded(t, std::string_view("a\0b", 3)), ElementsAre('a', 0, 'b'));
  auto back = t.decode(Ids{'a', 0, 'b'});
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, std::string("a\0b", 3));
  back = t.decode(Ids{});
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, "");
}

TEST(Tokenizer, FindsAddedTokensInText) {
  const Tokenizer t = small();
  EXPECT_THAT(encoded(t, "ab<|end|>c<tool><|end|><|end"),
              ElementsAre(256, 300, 'c', 301, 300, '<', '|', 'e', 'n', 'd'));
  // normalized: found after NFC, here of "e" and U+0301
  EXPECT_THAT(encoded(t, "e\xCC\x81!"), ElementsAre(302));
  EXPECT_THAT(encoded(t, "\xC3\xA9!"), ElementsAre(302));
  // An added token separates "e" from its mark, which then stays alone.
  EXPECT_THAT(encoded(t, "e<tool>\xCC\x81"), ElementsAre('e', 301, 0xCC, 0x81));

  Json json = small_tokenizer();
  json["added_tokens"][1]["content"] = "<|end|>>";
  auto longest = parse_small(json);
  ASSERT_TRUE(longest) << longest.error().to_string();
  EXPECT_THAT(encoded(*longest, "<|end|>>"), ElementsAre(301));
}

TEST(Tokenizer, ContractionsIgnoreCaseAndMarksBelongToWords) {
  Json json = small_tokenizer();
  json["model"]["ignore_merges"] = true;
  json["model"]["vocab"]["'T"] = 270;
  json["model"]["vocab"]["don"] = 271;
  const std::string ki = "\xE0\xA4\x95\xE0\xA4\xBF";  // DEVANAGARI KA, VOWEL SIGN I (Mc)
  json["model"]["vocab"][byte_level_text(ki)] = 272;
  json["model"]["vocab"][byte_level_text("\xC5\xBF")] = 273;
  json["model"]["vocab"][byte_level_text("'\xC5\xBF")] = 274;  // 's with LATIN SMALL LETTER LONG S
  json["model"]["vocab"]["12"] = 275;
  auto t = parse_small(json);
  ASSERT_TRUE(t) << t.error().to_string();
  EXPECT_THAT(encoded(*t, "don'T"), ElementsAre(271, 270));
  EXPECT_THAT(encoded(*t, ki), ElementsAre(272));
  EXPECT_THAT(encoded(*t, "don'\xC5\xBF"), ElementsAre(271, 274));
  EXPECT_THAT(encoded(*t, "12"), ElementsAre('1', '2'));
}

// U+180E is space for PCRE2's \s and none for Oniguruma's; U+0085 is space for both.
TEST(Tokenizer, SpaceIsWhiteSpaceOfUnicode) {
  Json json = small_tokenizer();
  json["model"]["ignore_merges"] = true;
  json["model"]["vocab"][byte_level_text("  ")] = 270;
  json["model"]["vocab"][byte_level_text(" \xE1\xA0\x8E")] = 271;
  json["model"]["vocab"][byte_level_text(" \xC2\x85")] = 272;
  auto t = parse_small(json);
  ASSERT_TRUE(t) << t.error().to_string();
  EXPECT_THAT(encoded(*t, "   \xE1\xA0\x8E"), ElementsAre(270, 271));
  EXPECT_THAT(encoded(*t, " \xC2\x85"), ElementsAre(272));
}

// Each would take minutes if some stage were quadratic.
TEST(Tokenizer, LongRunsCostNoMoreThanTheirLength) {
  const Tokenizer t = small();
  EXPECT_EQ(encoded(t, std::string(1'000'000, 'a')).size(), 1'000'000u);
  std::string abc;
  for (int i = 0; i < 300'000; ++i) abc += "abc";
  EXPECT_EQ(encoded(t, abc), Ids(300'000, 257));
  EXPECT_EQ(encoded(t, std::string(300'000, ' ') + "x").size(), 300'001u);
  EXPECT_EQ(encoded(t, std::string(300'000, '\n')).size(), 300'000u);
  EXPECT_EQ(encoded(t, std::string(300'000, '-')).size(), 300'000u);
  std::string marks = "x";  // classes 230 and 220 by turns: all of one sort before all of the other
  for (int i = 0; i < 200'000; ++i) marks += i % 2 ? "\xCC\x96" : "\xCC\x8D";
  const Ids ids = encoded(t, marks);
  ASSERT_EQ(ids.size(), 400'001u);
  EXPECT_EQ(ids[2], 0x96);
  EXPECT_EQ(ids[400'000], 0x8D);
}

TEST(Tokenizer, InvalidUtf8IsLocated) {
  const Tokenizer t = small();
  for (const auto& [text, offset] : std::vector<std::pair<std::string, int64_t>>{
           {"ab\xFF", 2}, {"\xC3\xA9\xE2\x82", 2}, {"\xED\xA0\x80", 0}, {"a\xC0\x80", 1}}) {
    const auto ids = t.encode(text);
    ASSERT_FALSE(ids);
    EXPECT_EQ(ids.error().code, Code::tokenizer_text);
    EXPECT_EQ(ids.error().location.offset, offset);
  }
  EXPECT_EQ(t.encode("ab\xFF").error().message, "the text is not valid UTF-8 at byte 2 (0xFF)");
}

TEST(Tokenizer, ByteThatTheVocabularyLacks) {
  Json json = small_tokenizer();
  json["model"]["vocab"].erase("z");
  auto t = parse_small(json);
  ASSERT_TRUE(t);
  EXPECT_THAT(encoded(*t, "y"), ElementsAre('y'));
  const auto ids = t->encode("yz");
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code, Code::tokenizer_text);
  EXPECT_EQ(ids.error().message,
            "the vocabulary has no entry for the byte 0x7A, which the text needs");
}

TEST(Tokenizer, EntriesAndIds) {
  Json json = small_tokenizer();
  json["model"]["vocab"]["a b"] =
      400;  // a space is not of the alphabet: the entry stands for itself
  auto t = parse_small(json);
  ASSERT_TRUE(t) << t.error().to_string();
  EXPECT_THAT(t->entry_ranges(),
              ElementsAre(std::pair(0, 259), std::pair(300, 303), std::pair(400, 401)));
  EXPECT_EQ(t->id_limit(), 401);
  for (const int32_t id : {0, 258, 300, 302, 400}) EXPECT_TRUE(t->has_entry(id)) << id;
  for (const int32_t id : {-1, INT32_MIN, 259, 299, 303, 399, 401, INT32_MAX}) {
    EXPECT_FALSE(t->has_entry(id)) << id;
    EXPECT_EQ(t->token_bytes(id), "");
  }
  EXPECT_EQ(t->token_bytes(0xE9), "\xE9");
  EXPECT_EQ(t->token_bytes(400), "a b");
  EXPECT_EQ(t->token_bytes(300), "<|end|>");
  // The reference's decoder reads added tokens in the byte-level alphabet as well.
  EXPECT_EQ(t->token_bytes(302), "\xE9!");
  EXPECT_EQ(t->token_id("<tool>"), 301);
  EXPECT_EQ(t->token_id("abc"), 257);
  EXPECT_EQ(t->token_id("\xC4\xA0"), ' ');
  EXPECT_EQ(t->token_id("a b"), 400);
  EXPECT_EQ(t->token_id(" "), std::nullopt);
  EXPECT_EQ(t->token_id("\xFF"), std::nullopt);
  EXPECT_TRUE(t->is_special(300));
  EXPECT_FALSE(t->is_special(301));

  auto text = t->decode(Ids{'x', 300, 301});
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "x<|end|><tool>");
  text = t->decode(Ids{'x', 300, 301}, true);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "x<tool>");
  text = t->decode(Ids{1, 259}, true);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Code::tokenizer_id);
  EXPECT_EQ(text.error().message, "token id 259 has no entry in the tokenizer");
}

// The expected texts are Python's bytes.decode(errors="replace").
TEST(Utf8, LossyReplacesMaximalPrefixes) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(utf8_lossy("a\xFF\xFE"), "a" + r + r);
  EXPECT_EQ(utf8_lossy("\xE2\x82"), r);
  EXPECT_EQ(utf8_lossy("\xE2\x82z"), r + "z");
  EXPECT_EQ(utf8_lossy("\xF0\x9F\x98\xF0\x9F\x98\x80"), r + "\xF0\x9F\x98\x80");
  EXPECT_EQ(utf8_lossy("\xE0\x80\x80"), r + r + r);
  EXPECT_EQ(utf8_lossy("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(utf8_lossy("\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(utf8_lossy("\xC0\xAF"), r + r);
}

TEST(TextStream, HoldsBackUnfinishedCharacters) {
  const Tokenizer t = small();
  TextStream stream(t);
  const auto push = [&](int32_t id) { return stream.push(id).value_or("an error"); };
  EXPECT_EQ(push(0xF0), "");
  EXPECT_EQ(push(0x9F), "");
  EXPECT_EQ(push(0x98), "");
  EXPECT_EQ(push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(push(0xE2), "");
  const auto bad = stream.push(259);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message, "token id 259 has no entry in the tokenizer");
  EXPECT_EQ(push('a'),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(push(0xE2), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(push(300), "<|end|>");
  TextStream skipping(t, true);
  EXPECT_EQ(skipping.push(300).value_or("an error"), "");
}

TEST(TextStream, JoinsToWhatDecodeGives) {
  const Tokenizer t = small();
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    // Half of the ids from the bytes that lead and follow in UTF-8, where the cuts are.
    Ids ids(random() % 24);
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(random() % 2 ? 0x80 + random() % 0x80 : random() % 259);
      if (random() % 16 == 0) id = 300 + static_cast<int32_t>(random() % 3);
    }
    for (const bool skip : {false, true}) {
      TextStream stream(t, skip);
      std::string joined;
      for (const int32_t id : ids) {
        const auto part = stream.push(id);
        ASSERT_TRUE(part);
        ASSERT_FALSE(utf8_error_offset(*part));
        joined += *part;
      }
      joined += stream.finish();
      const auto whole = t.decode(ids, skip);
      ASSERT_TRUE(whole);
      ASSERT_EQ(joined, *whole);
    }
  }
}

}  // namespace
}  // namespace gm
