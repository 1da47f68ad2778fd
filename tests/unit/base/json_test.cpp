#include "base/json.h"

#include <limits>

#include "temp_folder.h"

namespace gm {
namespace {

struct BadText {
  std::string text;
  Code code;
  int line, column;
  std::string message;  // a part of it
};

TEST(Json, FaultsAreLocated) {
  const std::string deep(101, '[');
  const BadText cases[] = {
      {"", Code::json_syntax, 1, 1, "unexpected end of input"},
      {"{\"a\": 1", Code::json_syntax, 1, 8, "unexpected end of input"},
      {"{\n  \"a\": nul }", Code::json_syntax, 2, 11, "invalid literal"},
      {"[1,]", Code::json_syntax, 1, 4, "unexpected ']'"},
      {"{} x", Code::json_syntax, 1, 4, "invalid literal"},
      {"[1] [2]", Code::json_syntax, 1, 5, "expected end of input"},
      {"{\"a\": 1, \"b\": {\"a\": 2},\n \"a\": 3}", Code::json_duplicate, 2, 2,
       "key \"a\" is there twice"},
      {"{\"q\\\"\": 1, \"q\\\"\": 1}", Code::json_duplicate, 1, 12, "is there twice"},
      {"{\"a\": \"\xff\"}", Code::json_syntax, 1, 8, "ill-formed UTF-8"},
      {"{\"\xc0\xaf\": 1}", Code::json_syntax, 1, 3, "ill-formed UTF-8"},
      {deep, Code::json_syntax, 1, 101, "nested deeper than 100 levels"},
      {"[1e999]", Code::json_syntax, 1, 6, "number overflow"},
      {"[NaN]", Code::json_syntax, 1, 2, "invalid literal"},
  };
  for (const BadText& bad : cases) {
    const auto result = parse_json(bad.text, "f.json");
    ASSERT_FALSE(result) << bad.text;
    EXPECT_EQ(result.error().code, bad.code) << bad.text;
    EXPECT_EQ(result.error().location, Location::of_text("f.json", bad.line, bad.column))
        << bad.text << "\n"
        << result.error().to_string();
    EXPECT_NE(result.error().message.find(bad.message), std::string::npos)
        << result.error().message;
    for (const char c : result.error().message) EXPECT_GE(c, 0x20);
  }
}

TEST(Json, ParsesAndWritesTheSameValue) {
  const std::string text =
      "{\n  \"z\": [\n    1,\n    -2,\n    0.1,\n    true,\n    null\n  ],\n  \"a\": {\n    "
      "\"\\u00e9\": \"\"\n  }\n}";
  const auto value = parse_json(text, "f");
  ASSERT_TRUE(value) << value.error().to_string();
  EXPECT_EQ(*value, Json::parse(text));
  const std::string written = write_json(*value);
  EXPECT_TRUE(written.ends_with("}\n"));
  EXPECT_LT(written.find("\"z\""), written.find("\"a\""));  // order is kept
  EXPECT_EQ(*parse_json(written, "f"), *value);
  EXPECT_TRUE(parse_json(std::string(100, '[') + std::string(100, ']'), "f"));
}

TEST(Json, LargeObjectsTakeLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += fmt::format("{}\"key{}\": {}", i ? "," : "", i, i);
  const auto value = parse_json(text + "}", "f");
  ASSERT_TRUE(value);
  EXPECT_EQ(JsonView(*value, "f").members()->size(), 300'000u);
}

TEST(JsonDeathTest, WritesNoValueThatJsonLacks) {
  EXPECT_EXIT(write_json(Json{{"a", std::numeric_limits<double>::quiet_NaN()}}),
              ::testing::ExitedWithCode(70), "not finite");
  EXPECT_EXIT(write_json(Json("\xff")), ::testing::ExitedWithCode(70), "UTF-8");
}

class JsonViews : public ::testing::Test {
 protected:
  Json document = Json::parse(
      R"({"o": {"i": 5, "s": "x", "b": true, "n": null, "f": 1.5, "big": 18446744073709551615}, "a": [1, [2]]})");
  JsonView root{document, "f.json"};

  template <class T>
  static void expect_fault(const Result<T>& result, std::string_view path,
                           std::string_view message) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::json_field);
    EXPECT_EQ(result.error().location, Location::of_path("f.json", std::string(path)));
    EXPECT_EQ(result.error().message, message);
  }
};

TEST_F(JsonViews, ReadFields) {
  const JsonView o = *root.at("o");
  EXPECT_EQ(*o.at("i")->integer(), 5);
  EXPECT_EQ(*o.at("i")->number(), 5.0);
  EXPECT_EQ(*o.at("s")->string(), "x");
  EXPECT_EQ(*o.at("b")->boolean(), true);
  EXPECT_EQ(*o.at("f")->number(), 1.5);
  EXPECT_TRUE(o.has("n"));
  EXPECT_FALSE(o.find("n"));
  EXPECT_FALSE(o.find("missing"));
  EXPECT_TRUE(o.find("i"));
  const auto items = *root.at("a")->items();
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[1].items()->front().where().to_string(), "f.json: a[1][0]");
  const auto members = *root.members();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].first, "o");
  EXPECT_EQ(members[1].second.where().path, "a");
}

TEST_F(JsonViews, FaultsNameTheField) {
  const JsonView o = *root.at("o");
  expect_fault(o.at("missing"), "o.missing", "field \"missing\" is missing");
  expect_fault(root.at("a")->at("x"), "a", "expected an object, found an array");
  expect_fault(o.at("i")->string(), "o.i", "expected a string, found an integer");
  expect_fault(o.at("s")->integer(), "o.s", "expected an integer, found a string");
  expect_fault(o.at("f")->integer(), "o.f", "expected an integer, found a fraction");
  expect_fault(o.at("i")->integer(6, 9), "o.i", "expected an integer from 6 to 9, found 5");
  expect_fault(o.at("i")->integer(6), "o.i", "expected an integer of at least 6, found 5");
  expect_fault(o.at("big")->integer(), "o.big", "expected an integer, found 18446744073709551615");
  expect_fault(o.at("i")->boolean(), "o.i", "expected true or false, found an integer");
  expect_fault(o.at("n")->number(), "o.n", "expected a number, found null");
  expect_fault(o.items(), "o", "expected an array, found an object");
  expect_fault(root.at("a")->members(), "a", "expected an object, found an array");
}

class JsonFiles : public TempFolder {};

TEST_F(JsonFiles, Read) {
  EXPECT_EQ(*read_json(write("a.json", "[1]")), Json::parse("[1]"));
  const auto path = write("b.json", "[1");
  EXPECT_EQ(read_json(path).error().location, Location::of_text(path.string(), 1, 3));
  EXPECT_EQ(read_json(folder / "none").error().code, Code::file_open);
}

}  // namespace
}  // namespace gm
