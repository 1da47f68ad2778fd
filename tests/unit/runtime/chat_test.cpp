#include "runtime/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tokenizer_fixture.h"

namespace gm {
namespace {

using ::testing::HasSubstr;

TEST(Chat, FramesAsTheTemplateDoes) {
  EXPECT_EQ(chat_text({.system = {}, .user = "Hello", .think = true}),
            "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n");
  EXPECT_EQ(chat_text({.system = "Be brief.", .user = "Hello", .think = false}),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
            "<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

TEST(Chat, DropsWhiteSpaceAroundTexts) {
  EXPECT_THAT(
      chat_text({.system = " \n ", .user = "\n\t a b\xC2\xA0\xE3\x80\x80\n", .think = true}),
      HasSubstr("<|im_start|>system\n<|im_end|>\n<|im_start|>user\na b<|im_end|>\n"));
  // A zero-width space is none.
  EXPECT_THAT(chat_text({.system = {}, .user = "\xE2\x80\x8B", .think = true}),
              HasSubstr("user\n\xE2\x80\x8B<|im_end|>"));
}

TEST(Chat, NeedsTheTokensOfTheFrame) {
  Json json = test::small_tokenizer();
  int id = 310;
  for (const char* token : {"<|im_start|>", "<|im_end|>", "<think>", "</think>"}) {
    const auto without = test::parse_small(json);
    ASSERT_TRUE(without);
    const auto refused =
        encode_chat(*without, {.system = {}, .user = "x"}, Location::of_path("", "--prompt"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::request_chat);
    EXPECT_THAT(refused.error().message, HasSubstr(token));
    EXPECT_THAT(refused.error().to_string(), HasSubstr("--prompt"));
    Json entry = json["added_tokens"][0];
    entry["id"] = id++;
    entry["content"] = token;
    json["added_tokens"].push_back(entry);
  }
  const auto tokenizer = test::parse_small(json);
  ASSERT_TRUE(tokenizer);
  const auto ids = encode_chat(*tokenizer, {.system = {}, .user = "x", .think = false}, {});
  ASSERT_TRUE(ids);
  EXPECT_EQ(*ids, (std::vector<int32_t>{310, 'u',  's', 'e',  'r',  '\n', 'x',  311, '\n',
                                        310, 'a',  's', 's',  'i',  's',  't',  'a', 'n',
                                        't', '\n', 312, '\n', '\n', 313,  '\n', '\n'}));
}

}  // namespace
}  // namespace gm
