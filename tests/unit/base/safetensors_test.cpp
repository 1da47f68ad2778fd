#include "base/safetensors.h"

#include <cstring>

#include "temp_folder.h"

namespace gm {
namespace {

std::string with_length(uint64_t length, const std::string& rest) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
  return bytes + rest;
}

std::string file_of(const std::string& header, const std::string& data) {
  return with_length(header.size(), header + data);
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& begin, const std::string& end) {
  return fmt::format(R"("{}": {{"dtype": "{}", "shape": [{}], "data_offsets": [{}, {}]}})", name,
                     dtype, shape, begin, end);
}

class SafeTensorsTest : public TempFolder {
 protected:
  // Expects the fault of a file with these bytes; returns its text.
  void expect_fault(const std::string& bytes, Code code, const std::string& location,
                    const std::string& message) {
    const auto path = write("x.safetensors", bytes);
    const auto result = SafeTensors::open_file(path);
    ASSERT_FALSE(result) << message;
    EXPECT_EQ(result.error().code, code) << result.error().to_string();
    EXPECT_EQ(result.error().location.to_string(), path.string() + location)
        << result.error().to_string();
    EXPECT_NE(result.error().message.find(message), std::string::npos)
        << result.error().to_string();
    EXPECT_FALSE(result.error().fix.empty());
  }
  void expect_folder_fault(Code code, const std::string& location, const std::string& message) {
    const auto result = SafeTensors::open_folder(folder);
    ASSERT_FALSE(result) << message;
    EXPECT_EQ(result.error().code, code) << result.error().to_string();
    EXPECT_EQ(result.error().location.to_string(), folder.string() + location)
        << result.error().to_string();
    EXPECT_NE(result.error().message.find(message), std::string::npos)
        << result.error().to_string();
  }
  void write_index(const std::string& map) {
    write("model.safetensors.index.json",
          R"({"metadata": {"total_size": 3}, "weight_map": )" + map + "}");
  }
};

TEST_F(SafeTensorsTest, ReadsAFile) {
  // "b" comes first in the data, and the odd length of it leaves "a" at an odd offset.
  const auto path = write("m.safetensors", file_of("{\"__metadata__\": {\"format\": \"pt\"}, " +
                                                       entry("a", "F32", "1, 2", "3", "11") + "," +
                                                       entry("b", "I8", "3", "0", "3") + "," +
                                                       entry("e", "BF16", "0, 7", "3", "3") + "," +
                                                       entry("s", "U8", "", "11", "12") + "}   ",
                                                   "xyz01234567!"));
  const auto file = SafeTensors::open_file(path);
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->tensors().size(), 4u);
  const StoredTensor* a = file->find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, "F32");
  EXPECT_EQ(a->shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(a->file, path.string());
  EXPECT_EQ(std::memcmp(a->data.data(), "01234567", 8), 0);
  EXPECT_EQ(a->data.size(), 8u);
  EXPECT_EQ(file->find("s")->shape.size(), 0u);
  EXPECT_EQ(file->find("e")->data.size(), 0u);
  EXPECT_EQ(file->find("__metadata__"), nullptr);
  EXPECT_EQ(file->find("none"), nullptr);
}

TEST_F(SafeTensorsTest, EmptyFileOfTensors) {
  const auto file = SafeTensors::open_file(write("m.safetensors", file_of("{}", "")));
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->tensors().empty());
}

TEST_F(SafeTensorsTest, HeaderFaults) {
  expect_fault("", Code::safetensors_header, "@0x0", "at least 8 bytes, this one has 0");
  expect_fault("1234567", Code::safetensors_header, "@0x0", "this one has 7");
  expect_fault(with_length(3, "{}"), Code::safetensors_header, "@0x0",
               "would take 3 bytes, but only 2 follow");
  expect_fault(with_length(104857601, "{}"), Code::safetensors_header, "@0x0",
               "more than the format's limit of 104857600");
  expect_fault(with_length(UINT64_MAX, "{}"), Code::safetensors_header, "@0x0",
               "18446744073709551615 bytes");
  expect_fault(file_of("{\"a\"", ""), Code::json_syntax, ":1:5", "not well-formed JSON");
  expect_fault(file_of("", ""), Code::json_syntax, ":1:1", "not well-formed JSON");
  expect_fault(file_of("[]", ""), Code::safetensors_header, "@0x8", "must be a JSON object");
  expect_fault(
      file_of("{" + entry("a", "I8", "1", "0", "1") + "," + entry("a", "I8", "1", "0", "1") + "}",
              "x"),
      Code::safetensors_duplicate, ":1:61", "key \"a\" is there twice");
  expect_fault(file_of("{\"__metadata__\": 3}", ""), Code::safetensors_metadata, ": __metadata__",
               "expected an object");
  expect_fault(file_of("{\"__metadata__\": {\"k\": 3}}", ""), Code::safetensors_metadata,
               ": __metadata__.k", "expected a string, found an integer");
}

TEST_F(SafeTensorsTest, EntryFaults) {
  const auto one = [](const std::string& text) { return file_of("{" + text + "}", "1234"); };
  expect_fault(one("\"a\": 3"), Code::safetensors_entry, ": a", "must be an object");
  expect_fault(one("\"a\": {}"), Code::safetensors_entry, ": a.dtype",
               "field \"dtype\" is missing");
  expect_fault(one(R"("a": {"dtype": 3})"), Code::safetensors_entry, ": a.dtype",
               "expected a string");
  expect_fault(one(R"("a": {"dtype": "F32"})"), Code::safetensors_entry, ": a.shape",
               "field \"shape\" is missing");
  expect_fault(one(R"("a": {"dtype": "F32", "shape": 1})"), Code::safetensors_entry, ": a.shape",
               "expected an array");
  expect_fault(one(R"("a": {"dtype": "F32", "shape": [1]})"), Code::safetensors_entry,
               ": a.data_offsets", "missing");
  expect_fault(one(R"("a": {"dtype": "F32", "shape": [1], "data_offsets": [0]})"),
               Code::safetensors_entry, ": a.data_offsets", "expected two offsets, found 1");
  expect_fault(one(entry("a", "F4", "1", "0", "4")), Code::safetensors_dtype, ": a.dtype",
               "unknown dtype \"F4\"");
  expect_fault(one(entry("a", "f32", "1", "0", "4")), Code::safetensors_dtype, ": a.dtype",
               "unknown dtype \"f32\"");
  expect_fault(one(entry("a", "F32", "1, -1", "0", "4")), Code::safetensors_shape, ": a.shape[1]",
               "found -1");
  expect_fault(one(entry("a", "F32", "1.0", "0", "4")), Code::safetensors_shape, ": a.shape[0]",
               "found a fraction");
  expect_fault(one(entry("a", "F32", "4294967296, 4294967296", "0", "4")), Code::safetensors_shape,
               ": a.shape", "2^63");
  expect_fault(one(entry("a", "F32", "4294967296, 4294967296, 0", "0", "0")),
               Code::safetensors_shape, ": a.shape", "2^63");
  expect_fault(one(entry("a", "F32", "18446744073709551615", "0", "4")), Code::safetensors_shape,
               ": a.shape[0]", "expected");
  expect_fault(one(entry("a", "F32", "1", "0", "5")), Code::safetensors_offsets, ": a.data_offsets",
               "ends at 5, but the file has 4");
  expect_fault(one(entry("a", "F32", "1", "4", "0")), Code::safetensors_offsets, ": a.data_offsets",
               "begins at 4, behind its end 0");
  expect_fault(one(entry("a", "F32", "1", "-4", "0")), Code::safetensors_offsets,
               ": a.data_offsets[0]", "found -4");
  expect_fault(one(entry("a", "F32", "1", "0", "18446744073709551615")), Code::safetensors_offsets,
               ": a.data_offsets[1]", "expected");
  expect_fault(one(entry("a", "F16", "1", "0", "4")), Code::safetensors_offsets, ": a.data_offsets",
               "span 4 bytes, but dtype and shape need 2");
}

TEST_F(SafeTensorsTest, ExtentFaults) {
  const auto two = [](const char* b0, const char* e0, const char* n0, const char* b1,
                      const char* e1, const char* n1) {
    return file_of("{" + entry("a", "I8", n0, b0, e0) + "," + entry("b", "I8", n1, b1, e1) + "}",
                   "12345678");
  };
  expect_fault(two("0", "5", "5", "4", "8", "4"), Code::safetensors_overlap, ": b",
               "tensors \"a\" and \"b\" overlap");
  expect_fault(two("0", "8", "8", "0", "8", "8"), Code::safetensors_overlap, ": b", "overlap");
  expect_fault(two("0", "8", "8", "3", "3", "0"), Code::safetensors_overlap, ": b", "overlap");
  const std::string hole = two("0", "3", "3", "5", "8", "3");
  expect_fault(hole, Code::safetensors_hole, fmt::format("@{:#x}", hole.size() - 5),
               "2 bytes before tensor \"b\"");
  expect_fault(two("1", "4", "3", "4", "8", "4"), Code::safetensors_hole,
               fmt::format("@{:#x}", hole.size() - 8), "1 bytes before tensor \"a\"");
  expect_fault(two("0", "3", "3", "3", "6", "3"), Code::safetensors_hole,
               fmt::format("@{:#x}", hole.size() - 2), "2 bytes at the end");
  const std::string nothing = file_of("{}", "1");
  expect_fault(nothing, Code::safetensors_hole, "@0xa", "1 bytes at the end belong to no tensor");
}

TEST_F(SafeTensorsTest, FolderWithOneFile) {
  expect_folder_fault(Code::file_open, "", "holds neither model.safetensors nor");
  write("model.safetensors", file_of("{" + entry("a", "I8", "1", "0", "1") + "}", "x"));
  const auto result = SafeTensors::open_folder(folder);
  ASSERT_TRUE(result);
  EXPECT_NE(result->find("a"), nullptr);
}

TEST_F(SafeTensorsTest, FolderWithShards) {
  write("1.safetensors",
        file_of("{" + entry("a", "I8", "1", "0", "1") + "," + entry("b", "I8", "1", "1", "2") + "}",
                "xy"));
  write("2.safetensors", file_of("{" + entry("c", "I8", "1", "0", "1") + "}", "z"));
  write_index(R"({"c": "2.safetensors", "a": "1.safetensors", "b": "1.safetensors"})");
  auto result = SafeTensors::open_folder(folder);
  ASSERT_TRUE(result) << result.error().to_string();
  const SafeTensors moved = *std::move(result);
  EXPECT_EQ(moved.tensors().size(), 3u);
  EXPECT_EQ(static_cast<char>(moved.find("c")->data[0]), 'z');
  EXPECT_EQ(moved.find("c")->file, (folder / "2.safetensors").string());

  const std::string index = "/model.safetensors.index.json";
  write_index(
      R"({"c": "2.safetensors", "a": "1.safetensors", "b": "1.safetensors", "d": "2.safetensors"})");
  expect_folder_fault(Code::safetensors_shard_contents, index + ": weight_map.d",
                      "tensor \"d\" is not in shard 2.safetensors");
  write_index(R"({"c": "2.safetensors", "a": "1.safetensors"})");
  expect_folder_fault(Code::safetensors_shard_contents, "/1.safetensors: b",
                      "tensor \"b\" of shard 1.safetensors is not in");
  write_index(R"({"c": "2.safetensors", "a": "1.safetensors", "b": "2.safetensors"})");
  expect_folder_fault(Code::safetensors_shard_contents, "/1.safetensors: b", "says 2.safetensors");
  write_index(R"({"c": "3.safetensors", "a": "1.safetensors", "b": "1.safetensors"})");
  expect_folder_fault(Code::safetensors_shard, index + ": weight_map.c",
                      "/3.safetensors is missing");
  write("2.safetensors",
        file_of("{" + entry("a", "I8", "1", "0", "1") + "," + entry("c", "I8", "1", "1", "2") + "}",
                "zz"));
  write_index(R"({"c": "2.safetensors", "a": "1.safetensors", "b": "1.safetensors"})");
  expect_folder_fault(Code::safetensors_duplicate, "/2.safetensors: a",
                      "tensor \"a\" is also in " + (folder / "1.safetensors").string());
  write("2.safetensors", "zz");
  expect_folder_fault(Code::safetensors_header, "/2.safetensors@0x0", "at least 8 bytes");
}

TEST_F(SafeTensorsTest, IndexFaults) {
  const std::string index = "/model.safetensors.index.json";
  for (const char* name : {"../x", "a/b", "..", ".", "", "a\\\\b", "a\\u0000"}) {
    write_index(fmt::format(R"({{"c": "{}"}})", name));
    expect_folder_fault(Code::safetensors_index, index + ": weight_map.c",
                        "is not a plain file name");
  }
  write_index("[]");
  expect_folder_fault(Code::safetensors_index, index + ": weight_map",
                      "expected an object, found an array");
  write_index(R"({"c": 1})");
  expect_folder_fault(Code::safetensors_index, index + ": weight_map.c", "expected a string");
  write("model.safetensors.index.json", "{}");
  expect_folder_fault(Code::safetensors_index, index + ": weight_map",
                      "field \"weight_map\" is missing");
  write("model.safetensors.index.json", "{");
  expect_folder_fault(Code::json_syntax, index + ":1:2", "not well-formed JSON");
}

TEST_F(SafeTensorsTest, NoPrefixAndNoFlippedBitCrashesIt) {
  const std::string bytes = file_of(
      "{" + entry("a", "F32", "1, 2", "0", "8") + "," + entry("b", "I8", "3", "8", "11") + "}",
      "0123456789a");
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(SafeTensors::open_file(write("t", bytes.substr(0, n)))) << n;
  for (size_t i = 0; i < bytes.size() - 11; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      const auto result = SafeTensors::open_file(write("t", damaged));
      if (!result) continue;
      for (const auto& [name, tensor] : result->tensors()) {
        for (const std::byte byte : tensor.data)
          EXPECT_NE(byte, std::byte{0});  // reads stay in the file
      }
    }
  }
}

TEST(SafeTensorsGolden, ReadsTheGoldenModels) {
  const std::filesystem::path golden =
      std::filesystem::path(GRAPHMILL_SOURCE_DIR) / "tests" / "golden";
  for (const char* model : {"dense-tiny", "dense-odd", "moe-tiny"}) {
    const auto result = SafeTensors::open_folder(golden / model);
    ASSERT_TRUE(result) << result.error().to_string();
    EXPECT_GT(result->tensors().size(), 10u);
  }
}

TEST(SafeTensors, DTypeSizes) {
  EXPECT_EQ(stored_dtype_bytes("BOOL"), 1);
  EXPECT_EQ(stored_dtype_bytes("F8_E5M2"), 1);
  EXPECT_EQ(stored_dtype_bytes("BF16"), 2);
  EXPECT_EQ(stored_dtype_bytes("F64"), 8);
  EXPECT_EQ(stored_dtype_bytes("F4"), std::nullopt);
}

}  // namespace
}  // namespace gm
