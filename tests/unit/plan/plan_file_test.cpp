#include "plan/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <unistd.h>

#include <cstring>
#include <functional>

#include "base/hash.h"
#include "plan/plan_archive.h"
#include "plan/plan_json.h"
#include "sample_plan.h"

namespace gm {
namespace {

using test::sample_plan;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::byte> sample_bytes() {
  Result<std::vector<std::byte>> bytes = serialize_plan(sample_plan());
  GM_CHECK(bytes.has_value(), "{}", bytes.error().to_string());
  return *bytes;
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The error of reading these bytes; a test failure if there is none.
Diag error_of(std::span<const std::byte> bytes) {
  const Result<Plan> plan = parse_plan(bytes, "m.gmp");
  if (plan) return {Code{}, "no error", {}, "", {}};
  return plan.error();
}

ArchiveMembers sample_members() {
  Result<ArchiveMembers> members = read_archive(sample_bytes(), "m.gmp");
  GM_CHECK(members.has_value(), "{}", members.error().to_string());
  return *members;
}

// An archive with a right digest over these members as they are.
std::vector<std::byte> archive_of(const ArchiveMembers& members) {
  std::map<std::string, std::span<const std::byte>, std::less<>> spans;
  for (const auto& [name, text] : members) spans.emplace(name, as_bytes(text));
  Result<std::vector<std::byte>> bytes = write_archive(spans);
  GM_CHECK(bytes.has_value(), "{}", bytes.error().to_string());
  return *bytes;
}

// The same, and the manifest lists them.
std::vector<std::byte> listed_archive_of(ArchiveMembers members) {
  Json manifest = *parse_json(members["manifest.json"], "manifest.json");
  manifest["members"] = Json::object();
  for (const auto& [name, text] : members) {
    if (name != "manifest.json") manifest["members"][name] = digest(text);
  }
  members["manifest.json"] = write_json(manifest);
  return archive_of(members);
}

// Makes the digest at the end right again.
void seal(std::vector<std::byte>& bytes) {
  const std::string hex =
      digest(std::span(bytes).first(bytes.size() - kPlanDigestPrefix.size() - kPlanDigestDigits));
  std::memcpy(bytes.data() + bytes.size() - hex.size(), hex.data(), hex.size());
}

TEST(PlanFile, RoundTripGivesAnEqualPlan) {
  const Plan plan = sample_plan();
  const Result<Plan> again = parse_plan(sample_bytes(), "m.gmp");
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_TRUE(plan == *again);
  EXPECT_EQ(plan.programs, again->programs);
  EXPECT_EQ(plan.weights, again->weights);
  const Result<std::vector<std::byte>> bytes = serialize_plan(*again);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, sample_bytes());
}

TEST(PlanFile, OptionalMembersMayBeMissing) {
  Plan plan = sample_plan();
  plan.stage = "kernels";
  plan.shared_object.clear();
  for (PlanKernel& kernel : plan.kernels) kernel.symbol.clear();
  plan.tokenizer.clear();
  plan.report = Json();
  const Result<std::vector<std::byte>> bytes = serialize_plan(plan);
  ASSERT_TRUE(bytes);
  const Result<Plan> again = parse_plan(*bytes, "m.gmp");
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_TRUE(plan == *again);
}

// Equal plans are equal bytes in any process, wherever it runs.
TEST(PlanFile, BytesDependOnThePlanAlone) {
  const std::vector<std::byte> bytes = sample_bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(text.substr(text.size() - 49, 17), kPlanDigestPrefix);
  if (std::string_view(zip_libzip_version()) == "1.7.3") {
    // What other processes got. Another libzip may fill other fields of the headers.
    EXPECT_EQ(text.substr(text.size() - 32), "b958c4f0eb95945beafa8edcc4a6dae0");
  }
  // libzip converts a member's time to the local one and back.
  const char* zone = std::getenv("TZ");
  const std::string before = zone == nullptr ? "" : zone;
  for (const char* other : {"UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati"}) {
    ::setenv("TZ", other, 1);
    ::tzset();
    EXPECT_EQ(sample_bytes(), bytes) << other;
  }
  if (zone == nullptr) {
    ::unsetenv("TZ");
  } else {
    ::setenv("TZ", before.c_str(), 1);
  }
  ::tzset();
}

TEST(PlanFile, WritesAndReadsAFile) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / fmt::format("plan_file_{}.gmp", ::getpid());
  ASSERT_TRUE(write_plan(sample_plan(), path));
  const Result<Plan> plan = read_plan(path);
  ASSERT_TRUE(plan) << plan.error().to_string();
  EXPECT_TRUE(*plan == sample_plan());
  const Result<std::string> hex = plan_digest(path);
  ASSERT_TRUE(hex);
  const std::vector<std::byte> bytes = sample_bytes();
  EXPECT_EQ(std::memcmp(bytes.data() + bytes.size() - 32, hex->data(), 32), 0);
  std::filesystem::remove(path);
  const Result<Plan> gone = read_plan(path);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::file_open);
}

TEST(PlanFile, MembersAreStoredSortedWithOneTime) {
  const std::vector<std::byte> bytes = sample_bytes();
  zip_error_t error;
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t* archive = zip_open_from_source(source, ZIP_RDONLY, &error);
  ASSERT_NE(archive, nullptr);
  std::vector<std::string> names;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); ++i) {
    zip_stat_t info;
    ASSERT_EQ(zip_stat_index(archive, static_cast<zip_uint64_t>(i), 0, &info), 0);
    names.emplace_back(info.name);
    EXPECT_EQ(info.comp_method, ZIP_CM_STORE);
    std::tm time{};
    ASSERT_NE(localtime_r(&info.mtime, &time), nullptr);
    EXPECT_EQ(time.tm_year, 80) << info.name;
    EXPECT_EQ(time.tm_yday, 0) << info.name;
  }
  zip_discard(archive);
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_THAT(names, testing::IsSupersetOf({"manifest.json", "program.json", "weights.json",
                                            "graph.decode.gm", "kernels/decode.step.gm",
                                            "kernels/cpu.so", "tokenizer.json", "report.json"}));
}

TEST(PlanFile, EveryFlippedBitIsAnError) {
  std::vector<std::byte> bytes = sample_bytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] ^= std::byte{1} << bit;
      const Result<Plan> plan = parse_plan(bytes, "m.gmp");
      ASSERT_FALSE(plan) << "byte " << i << " bit " << bit;
      const Code code = plan.error().code;
      ASSERT_TRUE(code == Code::plan_damaged || code == Code::plan_foreign)
          << plan.error().to_string();
      bytes[i] ^= std::byte{1} << bit;
    }
  }
}

TEST(PlanFile, EveryTruncationIsAnError) {
  const std::vector<std::byte> bytes = sample_bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    const Result<Plan> plan = parse_plan(cut, "m.gmp");
    ASSERT_FALSE(plan) << size;
    const Code code = plan.error().code;
    ASSERT_TRUE(code == Code::plan_damaged || (size < 2 && code == Code::plan_foreign))
        << size << " " << plan.error().to_string();
  }
}

TEST(PlanFile, AppendedBytesAreAnError) {
  std::vector<std::byte> bytes = sample_bytes();
  bytes.push_back(std::byte{0});
  EXPECT_EQ(error_of(bytes).code, Code::plan_damaged);
  bytes = sample_bytes();
  const std::vector<std::byte> twice = sample_bytes();
  bytes.insert(bytes.end(), twice.begin(), twice.end());
  EXPECT_EQ(error_of(bytes).code, Code::plan_damaged);
}

// Whoever changes a byte and makes the digest right again gets an error or a plan, never a crash,
// and most bytes matter.
TEST(PlanFile, EveryChangedByteUnderARightDigestIsRefusedOrHarmless) {
  const std::vector<std::byte> bytes = sample_bytes();
  const Plan sample = sample_plan();
  for (size_t i = 0; i + 49 < bytes.size(); ++i) {
    for (const std::byte flip : {std::byte{0x01}, std::byte{0x80}, std::byte{0xff}}) {
      std::vector<std::byte> changed = bytes;
      changed[i] ^= flip;
      seal(changed);
      const Result<Plan> plan = parse_plan(changed, "m.gmp");
      // What may differ without a trace are times and attributes of members, which mean nothing.
      ASSERT_TRUE(!plan || *plan == sample) << "byte " << i;
    }
  }
}

TEST(PlanFile, ForeignFilesAreNamed) {
  const auto message = [](std::string_view text) {
    const Diag d = error_of(as_bytes(text));
    EXPECT_EQ(d.code, Code::plan_foreign) << d.to_string();
    return d.message;
  };
  EXPECT_THAT(message(""), HasSubstr("empty"));
  EXPECT_THAT(message("  {\"a\": 1}"), HasSubstr("JSON"));
  EXPECT_THAT(message(std::string_view("\x02\0\0\0\0\0\0\0{}", 10)), HasSubstr("safetensors"));
  EXPECT_THAT(message("\x7f"
                      "ELF\x02\x01\x01"),
              HasSubstr("shared object"));
  EXPECT_THAT(message("hello"), HasSubstr("another format"));
  EXPECT_THAT(message(std::string_view("PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22)),
              HasSubstr("zip archive without a plan's digest"));
}

TEST(PlanFile, ArchivesWithAPlansDigestThatAreNoPlansAreRefused) {
  EXPECT_EQ(error_of(archive_of({{"a.txt", "hello"}})).code, Code::plan_member);
  EXPECT_THAT(error_of(archive_of({{"a.txt", "hello"}})).message, HasSubstr("manifest.json"));
  // No zip at all before the digest.
  std::string text = "hello" + std::string(kPlanDigestPrefix) + digest("hello");
  EXPECT_EQ(error_of(as_bytes(text)).code, Code::plan_archive);
}

void put(std::vector<std::byte>& bytes, size_t at, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

// Offset of the first central directory entry.
size_t directory_of(const std::vector<std::byte>& bytes) {
  const size_t end = bytes.size() - 49 - 22;
  size_t at = 0;
  for (size_t i = 4; i > 0; --i) at = at << 8 | static_cast<size_t>(bytes[end + 16 + i - 1]);
  return at;
}

TEST(PlanFile, HostileArchivesAreRefused) {
  struct Change {
    size_t at;  // in the first directory entry
    uint64_t value;
    size_t width;
  };
  for (const Change& change :
       {Change{20, 0xfffffff0u, 4}, Change{24, 0xfffffff0u, 4}, Change{24, 0xffffffffu, 4},
        Change{10, 8, 2}, Change{42, 0x7fffffff, 4}, Change{28, 0xffff, 2}, Change{30, 0xffff, 2},
        Change{32, 0xffff, 2}, Change{8, 1, 2}}) {
    std::vector<std::byte> bytes = sample_bytes();
    put(bytes, directory_of(bytes) + change.at, change.value, change.width);
    seal(bytes);
    EXPECT_EQ(error_of(bytes).code, Code::plan_archive) << change.at << " " << change.value;
  }
  for (const Change& change :
       {Change{8, 0xffff, 2}, Change{10, 0xffff, 2}, Change{12, 0xffffffffu, 4},
        Change{16, 0xffffffffu, 4}, Change{20, 48, 2}, Change{4, 1, 2}}) {
    std::vector<std::byte> bytes = sample_bytes();
    put(bytes, bytes.size() - 49 - 22 + change.at, change.value, change.width);
    seal(bytes);
    EXPECT_EQ(error_of(bytes).code, Code::plan_archive) << change.at << " " << change.value;
  }
}

TEST(PlanFile, UnsortedOrRepeatedMembersAreRefused) {
  // The first two names have the same length after this; swapping letters in both places breaks the
  // order.
  std::vector<std::byte> bytes = archive_of({{"a.gm", "1"}, {"b.gm", "2"}});
  for (const auto& [from, to] : {std::pair('b', 'a'), std::pair('a', 'c')}) {
    std::vector<std::byte> changed = bytes;
    for (size_t i = 0; i + 4 < changed.size(); ++i) {
      if (std::memcmp(&changed[i], std::string{from, '.', 'g', 'm'}.data(), 4) == 0) {
        changed[i] = static_cast<std::byte>(to);
      }
    }
    seal(changed);
    const Result<ArchiveMembers> members = read_archive(changed, "m.gmp");
    ASSERT_FALSE(members);
    EXPECT_EQ(members.error().code, Code::plan_archive);
  }
}

TEST(PlanFile, OtherFormatsAreRefusedWithWhatToDo) {
  const auto with_format = [](int64_t major, int64_t minor) {
    ArchiveMembers members = sample_members();
    Json manifest = *parse_json(members["manifest.json"], "");
    manifest["format"] = {{"major", major}, {"minor", minor}};
    manifest["new_field"] = 1;  // the format is looked at before anything else
    members["manifest.json"] = write_json(manifest);
    return error_of(archive_of(members));
  };
  const Diag newer = with_format(2, 0);
  EXPECT_EQ(newer.code, Code::plan_version);
  EXPECT_EQ(newer.location.to_string(), "m.gmp: manifest.json: format");
  EXPECT_EQ(newer.message, "the plan has format 2.0; this graphmill reads 1.0 to 1.1");
  EXPECT_THAT(newer.fix, HasSubstr("use the graphmill that wrote the plan"));
  EXPECT_EQ(with_format(1, 2).code, Code::plan_version);
  const Diag older = with_format(0, 9);
  EXPECT_EQ(older.code, Code::plan_version);
  EXPECT_THAT(older.fix, StartsWith("recompile"));
}

TEST(PlanFile, MembersMustBeThoseOfTheManifest) {
  ArchiveMembers members = sample_members();
  members["kernels/decode.step.gm"] += " ";
  Diag d = error_of(archive_of(members));
  EXPECT_EQ(d.code, Code::plan_member_digest);
  EXPECT_EQ(d.location.to_string(), "m.gmp: manifest.json: members.kernels/decode.step.gm");

  members = sample_members();
  members.erase("weights.json");
  d = error_of(archive_of(members));
  EXPECT_EQ(d.code, Code::plan_member);
  EXPECT_THAT(d.message, HasSubstr("weights.json, which is not there"));

  members = sample_members();
  members["kernels/extra.gm"] = "";
  d = error_of(archive_of(members));
  EXPECT_EQ(d.code, Code::plan_member);
  EXPECT_THAT(d.message, HasSubstr("not listed"));

  members = sample_members();
  members["extra.txt"] = "";
  d = error_of(listed_archive_of(members));
  EXPECT_EQ(d.code, Code::plan_member);
  EXPECT_THAT(d.message, HasSubstr("no member of the name extra.txt"));
}

TEST(PlanFile, ErrorsNameTheMemberAndThePath) {
  const auto edited = [](const char* member, const std::function<void(Json&)>& edit) {
    ArchiveMembers members = sample_members();
    Json json = *parse_json(members[member], member);
    edit(json);
    members[member] = write_json(json);
    return error_of(listed_archive_of(members));
  };
  Diag d =
      edited("program.json", [](Json& j) { j["programs"][0]["nodes"][3]["args"][1]["slot"] = 9; });
  EXPECT_EQ(d.code, Code::plan_reference);
  EXPECT_EQ(d.location.to_string(), "m.gmp: program.json: programs[0].nodes[3].args[1].slot");
  d = edited("program.json",
             [](Json& j) { j["programs"][0]["nodes"][3]["args"][1]["slot"] = "x"; });
  EXPECT_EQ(d.code, Code::json_field);
  EXPECT_EQ(d.location.to_string(), "m.gmp: program.json: programs[0].nodes[3].args[1].slot");
  d = edited("program.json",
             [](Json& j) { j["programs"][1]["slots"][2]["shape"][0] = "tokens +"; });
  EXPECT_EQ(d.code, Code::plan_field);
  EXPECT_EQ(d.location.to_string(), "m.gmp: program.json: programs[1].slots[2].shape[0]");
  d = edited("program.json", [](Json& j) { j["programs"][1]["slots"][2]["kind"] = "scratch"; });
  EXPECT_EQ(d.code, Code::plan_field);
  EXPECT_EQ(d.message, "\"scratch\" is none of weight, activation, state, input, output");
  d = edited("program.json", [](Json& j) { j["programs"][0]["symbols"][1]["name"] = "seqs"; });
  EXPECT_EQ(d.code, Code::plan_field);
  EXPECT_THAT(d.message, HasSubstr("declared twice"));
  d = edited("weights.json", [](Json& j) { j["weights"][2]["parts"][0]["slice"].erase("end"); });
  EXPECT_EQ(d.code, Code::json_field);
  EXPECT_EQ(d.location.to_string(), "m.gmp: weights.json: weights[2].parts[0].slice.end");
  d = edited("manifest.json", [](Json& j) { j["stage"] = "half"; });
  EXPECT_EQ(d.code, Code::plan_field);
  EXPECT_EQ(d.location.to_string(), "m.gmp: manifest.json: stage");
  // Faults that only the checker sees.
  d = edited("program.json",
             [](Json& j) { j["programs"][0]["nodes"][1]["after"] = Json::array(); });
  EXPECT_EQ(d.code, Code::plan_dependence);
  EXPECT_EQ(d.location.to_string(), "m.gmp: program.json: programs[0].nodes[1].after");
}

TEST(PlanFile, TextsOfOtherNamesAreNotWritten) {
  for (const char* name : {"notes.gm", "kernels/.gm", "kernels/a/b.gm", "kernels/../x.gm",
                           "graph.txt", "kernels/a b.gm"}) {
    Plan plan = sample_plan();
    plan.texts[name] = "";
    const Result<std::vector<std::byte>> bytes = serialize_plan(plan);
    ASSERT_FALSE(bytes) << name;
    EXPECT_EQ(bytes.error().code, Code::plan_member);
  }
}

// Calls `visit` with every value below this one.
void for_each_value(Json& json, const std::string& path,
                    const std::function<void(Json& parent, const std::string& key, size_t index,
                                             const std::string& path)>& visit) {
  if (json.is_object()) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : json.items()) keys.push_back(key);
    for (const std::string& key : keys) {
      visit(json, key, 0, path + "." + key);
      for_each_value(json[key], path + "." + key, visit);
    }
  } else if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) {
      visit(json, "", i, fmt::format("{}[{}]", path, i));
      for_each_value(json[i], fmt::format("{}[{}]", path, i), visit);
    }
  }
}

class PlanMember : public testing::TestWithParam<const char*> {};

// Every field of every JSON member: removed, of another type, of an extreme value.
TEST_P(PlanMember, EveryFieldIsChecked) {
  const std::string member = GetParam();
  const ArchiveMembers members = sample_members();
  Json document = *parse_json(members.at(member), member);
  const auto error_with_document = [&] {
    ArchiveMembers changed = members;
    changed[member] = write_json(document);
    // manifest.json keeps its own list of members, which then is one of the fields under test.
    return error_of(member == "manifest.json" ? archive_of(changed) : listed_archive_of(changed));
  };
  size_t count = 0;
  for_each_value(
      document, "",
      [&](Json& parent, const std::string& key, size_t index, const std::string& path) {
        ++count;
        const Json saved = parent;
        const auto value = [&]() -> Json& { return key.empty() ? parent[index] : parent[key]; };

        // Of an object that no field has, and of other types: an error always.
        for (const Json& wrong : {Json{{"no such field", 1}}, Json(true), Json(1.5), Json()}) {
          if (value().is_boolean() && wrong.is_boolean()) continue;
          if (value().is_number_float() && wrong.is_number_float()) continue;
          value() = wrong;
          const Diag d = error_with_document();
          EXPECT_NE(d.code, Code{}) << path << " = " << wrong.dump();
          EXPECT_THAT(d.location.file, StartsWith("m.gmp")) << path;
          parent = saved;
        }
        // Extreme values of the same type may be sound; they must not crash.
        for (const Json& odd : {Json(-1), Json(INT64_MAX), Json(UINT64_MAX), Json("x"), Json(""),
                                Json(Json::array()), Json(Json::object()), Json(0)}) {
          value() = odd;
          error_with_document();
          parent = saved;
        }
        if (key.empty()) {
          parent.erase(index);
          error_with_document();
        } else {
          parent.erase(key);
          const Diag d = error_with_document();
          const bool optional = key == "contract" || path.ends_with("contract.hi");
          EXPECT_EQ(d.code == Code{}, optional) << path << " removed: " << d.to_string();
        }
        parent = saved;
      });
  EXPECT_GT(count, 20u);
}

INSTANTIATE_TEST_SUITE_P(All, PlanMember,
                         testing::Values("manifest.json", "program.json", "weights.json"),
                         [](const auto& member) {
                           const std::string name = member.param;
                           return name.substr(0, name.find('.'));
                         });

}  // namespace
}  // namespace gm
