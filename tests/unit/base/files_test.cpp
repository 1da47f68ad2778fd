// Mapped files, text files, atomic writing and digests.
#include "base/hash.h"
#include "base/mapped_file.h"
#include "temp_folder.h"

namespace gm {
namespace {

class Files : public TempFolder {};

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(Files, MapsAFile) {
  const auto file = MappedFile::open(write("a", "hello"));
  ASSERT_TRUE(file);
  EXPECT_EQ(text_of(**file), "hello");
  const auto empty = MappedFile::open(write("b", ""));
  ASSERT_TRUE(empty);
  EXPECT_TRUE((*empty)->bytes().empty());
}

TEST_F(Files, MappingFaults) {
  const auto missing = MappedFile::open(folder / "none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::file_open);
  EXPECT_EQ(missing.error().location.file, (folder / "none").string());
  EXPECT_NE(missing.error().message.find("No such file"), std::string::npos);
  const auto directory = MappedFile::open(folder);
  ASSERT_FALSE(directory);
  EXPECT_NE(directory.error().message.find("it is a folder"), std::string::npos);
}

TEST_F(Files, ReadsTextUpToItsLimit) {
  const auto path = write("a", "12345");
  EXPECT_EQ(*read_text_file(path), "12345");
  EXPECT_EQ(*read_text_file(path, 5), "12345");
  const auto large = read_text_file(path, 4);
  ASSERT_FALSE(large);
  EXPECT_NE(large.error().message.find("is larger than 4 bytes"), std::string::npos);
  EXPECT_FALSE(read_text_file(folder));
  EXPECT_FALSE(read_text_file(folder / "none"));
}

TEST_F(Files, WritesAtomically) {
  const auto path = write("a", "old");
  ASSERT_TRUE(write_file_atomically(path, "new"));
  EXPECT_EQ(*read_text_file(path), "new");
  const auto fault = write_file_atomically(folder / "none" / "a", "x");
  ASSERT_FALSE(fault);
  EXPECT_EQ(fault.error().code, Code::file_write);
  EXPECT_EQ(fault.error().fix, "create its folder first");
  // A rename that fails leaves nothing behind.
  std::filesystem::create_directories(folder / "d" / "e");
  ASSERT_FALSE(write_file_atomically(folder / "d", "x"));
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  EXPECT_EQ(count, 2);
}

TEST(Hash, IsXxh3Of128Bits) {
  EXPECT_EQ(digest(""), "99aa06d3014798d86001c324468d497f");  // the published value
  EXPECT_NE(digest("a"), digest("b"));
}

TEST(Hash, PiecesGiveTheSameDigest) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  Digester digester;
  for (size_t at = 0, step = 1; at < text.size(); at += step, step = step * 3 % 101) {
    digester.add(std::string_view(text).substr(at, step));
  }
  EXPECT_EQ(digester.finish(), digest(text));
  Digester moved = std::move(digester);
  moved.add("x");
  EXPECT_EQ(moved.finish(), digest(text + "x"));
}

}  // namespace
}  // namespace gm
