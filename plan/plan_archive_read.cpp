#include <zip.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/hash.h"
#include "plan/plan_archive.h"

namespace gm {
namespace {

constexpr size_t kCommentBytes = kPlanDigestPrefix.size() + kPlanDigestDigits;
constexpr size_t kEndRecordBytes = 22;  // without the comment
constexpr size_t kZip64LocatorBytes = 20;
constexpr size_t kDirectoryEntryBytes = 46;  // without its name
constexpr std::string_view kLocalHeader = "PK\x03\x04";
constexpr std::string_view kEndRecord = "PK\x05\x06";
constexpr std::string_view kZip64Locator = "PK\x06\x07";

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

uint64_t little_endian(std::string_view bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  }
  return value;
}

Error foreign(const std::string& file, std::string_view what) {
  return err(Code::plan_foreign, Location::of_file(file),
             "give a plan that `graphmill compile` has written", "{} is not a plan: it is {}", file,
             what);
}

Error damaged(const std::string& file, std::string_view what) {
  return err(Code::plan_damaged, Location::of_file(file), "copy the plan again, or recompile it",
             "{} is a damaged plan: {}", file, what);
}

Error malformed(const std::string& file, std::string what) {
  return err(Code::plan_archive, Location::of_file(file), "recompile the plan",
             "the archive of {} is not of the form that plans have: {}", file, what);
}

// The file does not end in a digest. It is a plan that lost or gained bytes, or something else.
Error without_digest(std::string_view text, const std::string& file) {
  if (text.empty()) return foreign(file, "empty");
  const bool zip = text.starts_with("PK");
  // A comment that is there but not last, or whose last bytes are gone.
  if (zip && text.find(kPlanDigestPrefix) != std::string_view::npos) {
    return damaged(file, "it does not end with its digest");
  }
  if (zip) {
    // Without the comment a plan cannot be told from another zip but by its first member's name.
    const size_t end =
        text.size() < kEndRecordBytes ? std::string_view::npos : text.rfind(kEndRecord);
    if (end != std::string_view::npos && end + kEndRecordBytes <= text.size() &&
        end + kEndRecordBytes + little_endian(text, end + 20, 2) == text.size()) {
      return foreign(file, "a zip archive without a plan's digest");
    }
    return damaged(file, "it is cut off, or a zip archive of another kind");
  }
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (text[first] == '{' || text[first] == '[')) {
    return foreign(file, "JSON text");
  }
  if (text.size() > 9 && text[8] == '{' && little_endian(text, 0, 8) < text.size()) {
    return foreign(file, "a safetensors file, which holds weights");
  }
  if (text.starts_with("\x7f"
                       "ELF")) {
    return foreign(file, "a program or shared object");
  }
  return foreign(file, "of another format");
}

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseFile {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};

// What must hold of the end of the archive before libzip sees it: it bounds what libzip allocates,
// and it leaves one meaning only of where the directory is.
Result<> check_end_record(std::string_view text, const std::string& file) {
  if (text.size() < kCommentBytes + kEndRecordBytes) return malformed(file, "it has no end record");
  const size_t end = text.size() - kCommentBytes - kEndRecordBytes;
  if (text.substr(end, 4) != kEndRecord) return malformed(file, "it has no end record");
  const uint64_t count = little_endian(text, end + 10, 2);
  const uint64_t directory_bytes = little_endian(text, end + 12, 4);
  const uint64_t directory_at = little_endian(text, end + 16, 4);
  if (little_endian(text, end + 4, 4) != 0 || little_endian(text, end + 8, 2) != count) {
    return malformed(file, "it is one of several volumes");
  }
  if (directory_at + directory_bytes != end) {
    return malformed(file, "its directory does not lie right before its end record");
  }
  if (count == 0xffff || count * kDirectoryEntryBytes > directory_bytes ||
      (end >= kZip64LocatorBytes && text.substr(end - kZip64LocatorBytes, 4) == kZip64Locator)) {
    return malformed(file, "its directory has another size than its end record says");
  }
  if (little_endian(text, end + 20, 2) != kCommentBytes) {
    return malformed(file, "its comment is not a digest alone");
  }
  return {};
}

Result<std::string> read_member(zip_t* archive, zip_uint64_t index, const std::string& name,
                                uint64_t size, const std::string& file) {
  std::unique_ptr<zip_file_t, CloseFile> member(zip_fopen_index(archive, index, 0));
  if (member == nullptr) {
    return malformed(file, fmt::format("member {}: {}", name, zip_strerror(archive)));
  }
  std::string contents(size, '\0');
  // The byte more than there should be makes libzip reach the end and compare the checksum.
  char extra = 0;
  if (zip_fread(member.get(), contents.data(), size) != static_cast<zip_int64_t>(size) ||
      zip_fread(member.get(), &extra, 1) != 0) {
    return malformed(
        file, fmt::format("member {} cannot be read: {}", name, zip_file_strerror(member.get())));
  }
  return contents;
}

// Members are named in messages, so their names must be printable.
bool printable(std::string_view name) {
  return !name.empty() && name.size() <= 1024 &&
         std::ranges::all_of(name, [](char c) { return c > 0x20 && c < 0x7f && c != '\\'; });
}

}  // namespace

Result<std::string> verify_archive_digest(std::span<const std::byte> bytes,
                                          const std::string& file) {
  const std::string_view text = text_of(bytes);
  if (text.size() < kCommentBytes ||
      text.substr(text.size() - kCommentBytes, kPlanDigestPrefix.size()) != kPlanDigestPrefix) {
    return without_digest(text, file);
  }
  const std::string_view stated = text.substr(text.size() - kPlanDigestDigits);
  const std::string found = digest(bytes.first(bytes.size() - kCommentBytes));
  if (stated != found) return damaged(file, "its bytes do not have the digest that it ends with");
  return found;
}

Result<ArchiveMembers> read_archive(std::span<const std::byte> bytes, const std::string& file) {
  GM_TRY(verify_archive_digest(bytes, file));
  const std::string_view text = text_of(bytes);
  if (!text.starts_with(kLocalHeader)) return malformed(file, "it does not begin with a member");
  GM_TRY(check_end_record(text, file));

  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (source == nullptr) return malformed(file, zip_error_strerror(&error));
  std::unique_ptr<zip_t, Discard> archive(
      zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
  if (archive == nullptr) {
    zip_source_free(source);
    return malformed(file, zip_error_strerror(&error));
  }
  int comment_bytes = 0;
  const char* comment = zip_get_archive_comment(archive.get(), &comment_bytes, ZIP_FL_ENC_RAW);
  if (comment == nullptr || std::string_view(comment, static_cast<size_t>(comment_bytes)) !=
                                text.substr(text.size() - kCommentBytes)) {
    return malformed(file, "it has more than one end record");
  }

  ArchiveMembers members;
  std::string last;
  uint64_t left = bytes.size();
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    zip_stat_t info;
    zip_stat_init(&info);
    constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                     ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (zip_stat_index(archive.get(), index, ZIP_FL_ENC_RAW, &info) != 0 ||
        (info.valid & kNeeded) != kNeeded) {
      return malformed(file, fmt::format("member {}: {}", i, zip_strerror(archive.get())));
    }
    const std::string name = info.name;
    if (!printable(name)) return malformed(file, fmt::format("member {} has an odd name", i));
    if (i > 0 && !(last < name)) {
      return malformed(file, fmt::format("member {} stands twice or not in order", name));
    }
    if (info.comp_method != ZIP_CM_STORE || info.encryption_method != ZIP_EM_NONE ||
        info.size != info.comp_size) {
      return malformed(file, fmt::format("member {} is compressed or encrypted", name));
    }
    // Over all members, since several could name the same bytes.
    if (info.size > left) {
      return malformed(file, fmt::format("member {} of {} bytes is larger than the file has room "
                                         "for",
                                         name, info.size));
    }
    left -= info.size;
    GM_ASSIGN(std::string contents, read_member(archive.get(), index, name, info.size, file));
    members.emplace(name, std::move(contents));
    last = name;
  }
  return members;
}

}  // namespace gm
