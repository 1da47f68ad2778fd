#include "ir/lexer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gm {
namespace {

std::vector<Token> all(std::string_view text) {
  auto stream = TokenStream::of(text, "f.gm");
  EXPECT_TRUE(stream) << (stream ? "" : stream.error().to_string());
  std::vector<Token> tokens;
  while (stream && !stream->at_end()) tokens.push_back(stream->next());
  return tokens;
}

std::string error_of(std::string_view text) {
  const auto stream = TokenStream::of(text, "f.gm");
  return stream ? "no error" : stream.error().to_string();
}

TEST(Lexer, KindsAndPlaces) {
  const auto t = all("tile %layers.0.x @main // all\n  \"a\\n\\x41\" -> 4*tb");
  ASSERT_EQ(t.size(), 8u);
  EXPECT_EQ(t[0].kind, TokenKind::identifier);
  EXPECT_EQ(t[1].kind, TokenKind::value_name);
  EXPECT_EQ(t[1].value, "layers.0.x");
  EXPECT_EQ(t[2].kind, TokenKind::at_name);
  EXPECT_EQ(t[3].value, "a\nA");
  EXPECT_EQ(t[3].line, 2);
  EXPECT_EQ(t[3].column, 3);
  EXPECT_TRUE(t[4].is("->"));
  EXPECT_EQ(t[5].integer, 4);
  EXPECT_TRUE(t[6].is("*"));
  EXPECT_EQ(t[7].text, "tb");
}

TEST(Lexer, SignsBelongToNumbersWhereNoValueStandsBefore) {
  const auto t = all("[-1, a -2) -inf nan - -3");
  EXPECT_EQ(t[1].integer, -1);
  EXPECT_TRUE(t[4].is("-"));
  EXPECT_EQ(t[5].integer, 2);
  EXPECT_TRUE(t[7].is("-"));
  EXPECT_TRUE(std::isinf(t[8].real));
  EXPECT_TRUE(std::isnan(t[9].real));
  EXPECT_TRUE(t[10].is("-"));
  EXPECT_EQ(t[11].integer, -3);
}

TEST(Lexer, Numbers) {
  const auto t = all("0x1F 1e-06 2.5 -1 9223372036854775807");
  EXPECT_EQ(t[0].integer, 31);
  EXPECT_EQ(t[1].real, 1e-06);
  EXPECT_EQ(t[2].kind, TokenKind::real);
  ASSERT_EQ(t.size(), 6u);
  EXPECT_EQ(t[3].kind, TokenKind::punctuation);  // after a value: a subtraction
  EXPECT_EQ(all("[-9223372036854775808")[1].integer, std::numeric_limits<int64_t>::min());
}

TEST(Lexer, Errors) {
  EXPECT_EQ(error_of("a\n  $"),
            "error: the character '$' has no meaning here [GM1501]\n  at f.gm:2:3\n"
            "  fix: remove it, or put it into a string\n");
  EXPECT_NE(error_of("\"abc\n\"").find("a string does not end [GM1501]\n  at f.gm:1:1"),
            std::string::npos);
  EXPECT_NE(error_of("\"\\q\"").find("unknown escape"), std::string::npos);
  EXPECT_NE(error_of("% x").find("'%' without a name"), std::string::npos);
  EXPECT_NE(error_of("12ab").find("a number runs into a name"), std::string::npos);
  EXPECT_NE(error_of("0x").find("a number runs into a name"), std::string::npos);
  EXPECT_NE(error_of("9223372036854775808").find("out of range"), std::string::npos);
  EXPECT_NE(error_of("1e999").find("out of range"), std::string::npos);
  EXPECT_NE(error_of(std::string_view("\0", 1)).find("the byte 0x00"), std::string::npos);
}

TEST(Lexer, ExpectNamesWhatIsMissing) {
  auto stream = TokenStream::of("kernel 3", "f.gm");
  ASSERT_TRUE(stream);
  EXPECT_TRUE(stream->expect("kernel"));
  EXPECT_EQ(stream->expect_at_name("a kernel's name").error().to_string(),
            "error: expected a kernel's name but found '3' [GM1502]\n  at f.gm:1:8\n"
            "  fix: write a kernel's name here\n");
  EXPECT_EQ(*stream->expect_integer("a number"), 3);
  EXPECT_NE(stream->expect("}").error().to_string().find("found the end of the text"),
            std::string::npos);
}

TEST(Lexer, TextOfValuesReadsBack) {
  for (const std::string text : {"", "a\"b\\c", "\n\t\r\x01", "\xc3\xa4"})
    EXPECT_EQ(all(quote(text))[0].value, text);
  for (const float value : {0.0f, -0.0f, 1.0f, 1e-6f, 3.4028235e38f, 1e-45f, 0.1f}) {
    const std::string text = real_text(value);
    EXPECT_EQ(static_cast<float>(all("[" + text)[1].real), value) << text;
  }
  EXPECT_EQ(real_text(1.0f), "1.0");
  EXPECT_EQ(real_text(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_TRUE(is_name("layers.0"));
  EXPECT_TRUE(is_name("0", false));
  EXPECT_FALSE(is_name("0", true));
  EXPECT_FALSE(is_name("nan", true));
  EXPECT_FALSE(is_name("a b"));
}

}  // namespace
}  // namespace gm
