#include <zip.h>

#include <cstring>
#include <memory>

#include "base/hash.h"
#include "plan/plan_archive.h"

namespace gm {
namespace {

// 1980-01-01 00:00:00, the first time that a zip can express.
constexpr zip_uint16_t kDosTime = 0;
constexpr zip_uint16_t kDosDate = (0 << 9) | (1 << 5) | 1;
constexpr zip_uint32_t kUnixFileMode = 0100644u << 16;

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct Free {
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};

Error cannot_write(std::string_view what, std::string why) {
  return err(Code::plan_archive, {}, "", "cannot write the plan's archive ({}): {}", what, why);
}

std::string text_of(zip_t* archive) { return zip_strerror(archive); }

Result<> add_member(zip_t* archive, const std::string& name, std::span<const std::byte> bytes) {
  zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
  if (source == nullptr) return cannot_write(name, text_of(archive));
  const zip_int64_t index = zip_file_add(archive, name.c_str(), source, 0);
  if (index < 0) {
    zip_source_free(source);
    return cannot_write(name, text_of(archive));
  }
  const auto at = static_cast<zip_uint64_t>(index);
  if (zip_set_file_compression(archive, at, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive, at, kDosTime, kDosDate, 0) != 0 ||
      zip_file_set_external_attributes(archive, at, 0, ZIP_OPSYS_UNIX, kUnixFileMode) != 0) {
    return cannot_write(name, text_of(archive));
  }
  return {};
}

Result<std::vector<std::byte>> contents(zip_source_t* source) {
  const auto failed = [&] {
    return cannot_write("reading it back", zip_error_strerror(zip_source_error(source)));
  };
  if (zip_source_open(source) != 0) return failed();
  std::vector<std::byte> bytes;
  bool good = zip_source_seek(source, 0, SEEK_END) == 0;
  const zip_int64_t size = good ? zip_source_tell(source) : -1;
  good = size > 0 && zip_source_seek(source, 0, SEEK_SET) == 0;
  if (good) {
    bytes.resize(static_cast<size_t>(size));
    good = zip_source_read(source, bytes.data(), bytes.size()) == size;
  }
  if (!good) {
    Error error = failed();
    zip_source_close(source);
    return error;
  }
  zip_source_close(source);
  return bytes;
}

}  // namespace

Result<std::vector<std::byte>> write_archive(
    const std::map<std::string, std::span<const std::byte>, std::less<>>& members) {
  zip_error_t error;
  zip_error_init(&error);
  std::unique_ptr<zip_source_t, Free> target(zip_source_buffer_create(nullptr, 0, 0, &error));
  if (target == nullptr) return cannot_write("start", zip_error_strerror(&error));
  // The archive takes one reference when it opens; ours keeps the buffer after it has closed.
  zip_source_keep(target.get());
  std::unique_ptr<zip_t, Discard> archive(
      zip_open_from_source(target.get(), ZIP_CREATE | ZIP_TRUNCATE, &error));
  if (archive == nullptr) {
    zip_source_free(target.get());
    return cannot_write("start", zip_error_strerror(&error));
  }
  for (const auto& [name, bytes] : members) {
    GM_TRY(add_member(archive.get(), name, bytes));
  }
  const std::string comment = std::string(kPlanDigestPrefix) + std::string(kPlanDigestDigits, '0');
  if (zip_set_archive_comment(archive.get(), comment.data(),
                              static_cast<zip_uint16_t>(comment.size())) != 0 ||
      zip_close(archive.get()) != 0) {
    return cannot_write("end", text_of(archive.get()));
  }
  archive.release();

  GM_ASSIGN(std::vector<std::byte> file, contents(target.get()));
  GM_CHECK(file.size() > comment.size() && std::memcmp(file.data() + file.size() - comment.size(),
                                                       comment.data(), comment.size()) == 0,
           "libzip did not end the archive with its comment");
  const std::string hex = digest(std::span(file).first(file.size() - comment.size()));
  GM_CHECK(hex.size() == kPlanDigestDigits, "a digest of {} digits", hex.size());
  std::memcpy(file.data() + file.size() - hex.size(), hex.data(), hex.size());
  return file;
}

}  // namespace gm
