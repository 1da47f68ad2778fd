#include "runtime/stop_strings.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "runtime/byte_level.h"
#include "runtime/text_stream.h"
#include "tokenizer_fixture.h"

namespace gm {
namespace {

struct Outcome {
  std::string text;
  bool matched = false;
  bool operator==(const Outcome&) const = default;
};

// By the definition, with the whole text at hand.
Outcome expected(std::string_view text, const std::vector<std::string>& strings) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& s : strings) {
      if (text.substr(0, end).ends_with(s)) longest = std::max(longest, s.size());
    }
    if (longest > 0) return {std::string(text.substr(0, end - longest)), true};
  }
  return {std::string(text), false};
}

TEST(StopStrings, HoldsBackOnlyWhatCouldBecomeOne) {
  StopStrings stop({"\n\n", "END"});
  EXPECT_EQ(stop.push("one\n"), "one");
  EXPECT_EQ(stop.push("E"), "\n");
  EXPECT_EQ(stop.push("N"), "");
  EXPECT_EQ(stop.push("E"), "EN");
  EXPECT_EQ(stop.push("NDless"), "");
  EXPECT_TRUE(stop.matched());
  EXPECT_EQ(stop.push("more"), "");
  EXPECT_EQ(stop.finish(), "");
  StopStrings open({"abc"});
  EXPECT_EQ(open.push("xab"), "x");
  EXPECT_EQ(open.finish(), "ab");
  EXPECT_FALSE(open.matched());
  StopStrings none({});
  EXPECT_EQ(none.push("abc"), "abc");
}

TEST(StopStrings, TheLongestOfThoseThatEndFirst) {
  StopStrings stop({"b", "ab", "aab", "bcd"});
  EXPECT_EQ(stop.push("xaabcd"), "x");
  // "bc" ends before "abcd" does, though it begins later.
  StopStrings inner({"abcd", "bc"});
  EXPECT_EQ(inner.push("xabcd"), "xa");
}

TEST(StopStrings, BordersOfPiecesDoNotMatter) {
  std::mt19937 random(8);
  int matched = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto word = [&](size_t least, size_t most) {
      std::string s;
      const size_t size = least + random() % (most - least + 1);
      for (size_t i = 0; i < size; ++i) s += static_cast<char>('a' + random() % 2);
      return s;
    };
    std::vector<std::string> strings(1 + random() % 3);
    for (std::string& s : strings) s = word(1, 7);
    const std::string text = word(0, 24);
    StopStrings stop(strings);
    std::string got;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % 5;
      got += stop.push(std::string_view(text).substr(at, size));
      at += size;
    }
    got += stop.finish();
    EXPECT_EQ((Outcome{got, stop.matched()}), expected(text, strings)) << text;
    matched += stop.matched();
  }
  EXPECT_GT(matched, 500);
  EXPECT_LT(matched, 2900);
}

// A token a byte: characters come in pieces, and what is handed on is whole ones.
TEST(StopStrings, NeverSplitACharacter) {
  const auto tokenizer = test::parse_small(test::small_tokenizer());
  ASSERT_TRUE(tokenizer);
  const std::string text = "na\xC3\xAFve \xF0\x9F\x98\x80\xF0\x9F\x98\x81 \xC3\xA9t\xC3\xA9";
  // The first shares three bytes of four with the character in the text.
  for (const std::string stop_text : {"\xF0\x9F\x98\x82", "\xF0\x9F\x98\x81 ", "\xC3\xA9"}) {
    const std::vector<std::string> strings = {stop_text};
    TextStream stream(*tokenizer);
    StopStrings stop(strings);
    std::string got;
    const auto take = [&](const std::string& piece) {
      EXPECT_FALSE(utf8_error_offset(piece)) << stop_text;
      got += piece;
    };
    for (const char c : text) {
      const auto piece = stream.push(static_cast<uint8_t>(c));
      ASSERT_TRUE(piece);
      take(stop.push(*piece));
    }
    take(stop.push(stream.finish()));
    take(stop.finish());
    EXPECT_EQ((Outcome{got, stop.matched()}), expected(text, strings));
  }
}

}  // namespace
}  // namespace gm
