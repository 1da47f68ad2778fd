// The plan file: an uncompressed zip with sorted names and fixed times, so that equal plans are
// equal bytes. Members: manifest.json, program.json, weights.json, graph*.gm, kernels/*.gm,
// kernels/cpu.so, tokenizer.json, report.json. The archive comment holds a digest of all bytes
// before it. A reader trusts nothing: digest, format version, every JSON field, every reference
// between members, then the checker (plan/check.h).
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace gm {

Result<std::vector<std::byte>> serialize_plan(const Plan& plan);
Result<> write_plan(const Plan& plan, const std::filesystem::path& path);

// Reads, parses and checks. Errors are 30xx for the file and 23xx for its contents, at the member
// and JSON path.
Result<Plan> read_plan(const std::filesystem::path& path);
Result<Plan> parse_plan(std::span<const std::byte> bytes, const std::string& file);

// The digest in the archive comment.
Result<std::string> plan_digest(const std::filesystem::path& path);

}  // namespace gm
