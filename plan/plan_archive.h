// The container of a plan: a zip of stored members with sorted names and one fixed time, closed by
// a comment that holds the digest of all bytes before the comment. Equal members give equal bytes.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/diag.h"

namespace gm {

inline constexpr std::string_view kPlanDigestPrefix = "graphmill-digest:";
inline constexpr size_t kPlanDigestDigits = 32;

using ArchiveMembers = std::map<std::string, std::string, std::less<>>;

Result<std::vector<std::byte>> write_archive(
    const std::map<std::string, std::span<const std::byte>, std::less<>>& members);

// The digest in the comment, after comparing it with the bytes. A file that is no plan gets an
// error that says what it seems to be.
Result<std::string> verify_archive_digest(std::span<const std::byte> bytes,
                                          const std::string& file);

// All members; the digest comes first. What is allocated is bounded by the size of the file.
Result<ArchiveMembers> read_archive(std::span<const std::byte> bytes, const std::string& file);

}  // namespace gm
