#include "base/diag.h"

#include <gtest/gtest.h>

#include <set>

namespace gm {
namespace {

TEST(Diag, CodesHaveNamesAndSummaries) {
  EXPECT_EQ(code_name(Code::file_open), "GM1001");
  EXPECT_EQ(code_summary(Code::file_open), "a file or folder cannot be opened or read");
  EXPECT_EQ(code_summary(static_cast<Code>(1)), "an unknown code");
}

TEST(Diag, CodesAreUniqueAndSorted) {
  const std::vector<int> numbers = {
#define GM_CODE(number, name, summary) number,
#include "base/codes.def"
#undef GM_CODE
  };
  for (size_t i = 1; i < numbers.size(); ++i) EXPECT_LT(numbers[i - 1], numbers[i]);
}

TEST(Diag, LocationsPrint) {
  EXPECT_EQ(Location::of_text("f.gm", 3, 14).to_string(), "f.gm:3:14");
  EXPECT_EQ(Location::of_text("f.gm", 3, 0).to_string(), "f.gm:3");
  EXPECT_EQ(Location::of_offset("plan.gmp", 64).to_string(), "plan.gmp@0x40");
  EXPECT_EQ(Location::of_path("config.json", "text_config.hidden_size").to_string(),
            "config.json: text_config.hidden_size");
  EXPECT_EQ(Location::of_path("", "a.b").to_string(), "a.b");
  EXPECT_EQ(Location{}.to_string(), "");
  EXPECT_TRUE(Location{}.empty());
}

TEST(Diag, PrintsEverythingItHas) {
  const Diag diag = Diag{Code::json_field, "field \"x\" is missing", {}, "add it", {}}
                        .at(Location::of_path("c.json", "x"))
                        .note("first", Location::of_file("d.json"))
                        .note("second");
  EXPECT_EQ(diag.to_string(),
            "error: field \"x\" is missing [GM1004]\n  at c.json: x\n  note: first, at d.json\n"
            "  note: second\n  fix: add it\n");
  EXPECT_EQ((Diag{Code::json_field, "m", {}, "", {}}.to_string()), "error: m [GM1004]\n");
}

TEST(Diag, WhatUsersGaveStaysOnItsLineAndIsShort) {
  const Diag diag =
      Diag{Code::json_field, "no layer 'a\nerror: b\x1b[1m\t\x7f\xc3\xa9'", {}, "not\r this", {}}
          .at(Location::of_path("c\n.json", "x\x01"))
          .note("n\n", Location::of_file("d\n"));
  EXPECT_EQ(
      diag.to_string(),
      "error: no layer 'a\\nerror: b\\x1b[1m\\t\\x7f\xc3\xa9' [GM1004]\n  at c\\n.json: x\\x01\n"
      "  note: n\\n, at d\\n\n  fix: not\\x0d this\n");

  std::string wide;
  for (int i = 0; i < 5000; ++i) wide += "\xc3\xa9";
  const std::string shown = Diag{Code::json_field, wide, {}, "", {}}.to_string();
  EXPECT_LT(shown.size(), 2100U);
  EXPECT_TRUE(shown.ends_with("\xc3\xa9 ... [GM1004]\n")) << shown;
}

TEST(Diag, ExitCodes) {
  EXPECT_EQ((Diag{Code::file_open, "", {}, "", {}}.exit_code()), Exit::user_error);
  EXPECT_EQ((Diag{static_cast<Code>(4001), "", {}, "", {}}.exit_code()), Exit::wrong_machine);
  EXPECT_EQ((Diag{static_cast<Code>(9001), "", {}, "", {}}.exit_code()), Exit::internal);
}

Result<int> fails() { return err(Code::file_open, {}, "", "number {}", 7); }
Result<> tries() {
  GM_TRY(fails());
  return {};
}
Result<int> assigns(Result<int> from) {
  GM_ASSIGN(const int x, std::move(from));
  return x + 1;
}

TEST(Diag, MacrosPassErrorsOn) {
  ASSERT_FALSE(tries());
  EXPECT_EQ(tries().error().message, "number 7");
  EXPECT_EQ(assigns(fails()).error().message, "number 7");
  EXPECT_EQ(*assigns(1), 2);
}

TEST(DiagDeathTest, CheckEndsTheProcessWithItsOwnCode) {
  const int index = 3;
  EXPECT_EXIT(
      GM_CHECK(index < 2, "value {} of {}", index, 2), ::testing::ExitedWithCode(70),
      "graphmill: internal error: value 3 of 2\n.*index < 2 does not hold, .*diag_test.cpp");
}

}  // namespace
}  // namespace gm
