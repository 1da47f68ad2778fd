#include "plan/plan_file.h"

#include <algorithm>

#include "base/hash.h"
#include "base/mapped_file.h"
#include "plan/check.h"
#include "plan/json_fields.h"
#include "plan/plan_archive.h"
#include "plan/plan_json.h"

namespace gm {
namespace {

constexpr std::string_view kManifest = "manifest.json";
constexpr std::string_view kProgram = "program.json";
constexpr std::string_view kWeights = "weights.json";
constexpr std::string_view kReport = "report.json";
constexpr std::string_view kTokenizer = "tokenizer.json";
constexpr std::string_view kSharedObject = "kernels/cpu.so";

std::string inside(const std::string& file, std::string_view member) {
  return fmt::format("{}: {}", file, member);
}

Result<Json> parse_member(const ArchiveMembers& members, std::string_view name,
                          const std::string& file) {
  const auto at = members.find(name);
  if (at == members.end()) {
    return err(Code::plan_member, Location::of_file(file), std::string(kRecompile),
               "{} has no member {}", file, name);
  }
  return parse_json(at->second, inside(file, name));
}

// The manifest lists exactly the other members, and each is what was listed.
Result<> check_members(const ArchiveMembers& members, const MemberDigests& digests,
                       const std::string& file) {
  const std::string manifest = inside(file, kManifest);
  for (const auto& [name, hex] : digests) {
    const Location at = Location::of_path(manifest, "members." + name);
    const auto found = members.find(name);
    if (found == members.end() || name == kManifest) {
      return err(Code::plan_member, at, std::string(kRecompile),
                 "the manifest lists member {}, which {}", name,
                 name == kManifest ? "is itself" : "is not there");
    }
    if (const std::string is = digest(found->second); is != hex) {
      return err(Code::plan_member_digest, at, std::string(kRecompile),
                 "member {} has digest {}, but the manifest says \"{}\"", name, is, hex);
    }
  }
  for (const auto& [name, contents] : members) {
    if (name == kManifest) continue;
    if (!digests.contains(name)) {
      return err(Code::plan_member, Location::of_file(inside(file, name)), std::string(kRecompile),
                 "member {} is not listed in the manifest", name);
    }
    const bool known = name == kProgram || name == kWeights || name == kReport ||
                       name == kTokenizer || name == kSharedObject || is_text_member(name);
    if (!known) {
      return err(Code::plan_member, Location::of_file(inside(file, name)), std::string(kRecompile),
                 "a plan has no member of the name {}", name);
    }
  }
  return {};
}

}  // namespace

Result<std::vector<std::byte>> serialize_plan(const Plan& plan) {
  ArchiveMembers texts;  // what is made here
  texts.emplace(kProgram, write_json(program_json(plan)));
  texts.emplace(kWeights, write_json(weights_json(plan)));
  if (!plan.report.is_null()) texts.emplace(kReport, write_json(plan.report));

  std::map<std::string, std::span<const std::byte>, std::less<>> members;
  const auto add = [&](std::string_view name, std::string_view text) {
    members.emplace(name, std::as_bytes(std::span(text)));
  };
  for (const auto& [name, text] : texts) add(name, text);
  for (const auto& [name, text] : plan.texts) {
    if (!is_text_member(name)) {
      return err(Code::plan_member, {}, "",
                 "a plan has no text of the name {}: names are graph*.gm and kernels/*.gm", name);
    }
    add(name, text);
  }
  if (!plan.tokenizer.empty()) add(kTokenizer, plan.tokenizer);
  if (!plan.shared_object.empty()) members.emplace(kSharedObject, std::span(plan.shared_object));

  MemberDigests digests;
  for (const auto& [name, bytes] : members) digests.emplace(name, digest(bytes));
  const std::string manifest = write_json(manifest_json(plan, digests));
  add(kManifest, manifest);
  return write_archive(members);
}

Result<> write_plan(const Plan& plan, const std::filesystem::path& path) {
  GM_ASSIGN(const std::vector<std::byte> bytes, serialize_plan(plan));
  return write_file_atomically(path, bytes);
}

Result<Plan> parse_plan(std::span<const std::byte> bytes, const std::string& file) {
  GM_ASSIGN(ArchiveMembers members, read_archive(bytes, file));
  Plan plan;
  {
    GM_ASSIGN(const Json manifest, parse_member(members, kManifest, file));
    GM_ASSIGN(const MemberDigests digests,
              read_manifest(JsonView(manifest, inside(file, kManifest)), plan));
    GM_TRY(check_members(members, digests, file));
  }
  {
    GM_ASSIGN(const Json program, parse_member(members, kProgram, file));
    GM_TRY(read_program_member(JsonView(program, inside(file, kProgram)), plan));
  }
  {
    GM_ASSIGN(const Json weights, parse_member(members, kWeights, file));
    GM_TRY(read_weights_member(JsonView(weights, inside(file, kWeights)), plan));
  }
  if (members.contains(kReport)) {
    GM_ASSIGN(plan.report, parse_member(members, kReport, file));
  }
  for (auto& [name, contents] : members) {
    if (name == kTokenizer) {
      plan.tokenizer = std::move(contents);
    } else if (name == kSharedObject) {
      const auto code = std::as_bytes(std::span(contents));
      plan.shared_object.assign(code.begin(), code.end());
    } else if (is_text_member(name)) {
      plan.texts.emplace(name, std::move(contents));
    }
  }
  GM_TRY(check_plan(plan, file));
  return plan;
}

Result<Plan> read_plan(const std::filesystem::path& path) {
  GM_ASSIGN(const auto mapped, MappedFile::open(path));
  return parse_plan(mapped->bytes(), path.string());
}

Result<std::string> plan_digest(const std::filesystem::path& path) {
  GM_ASSIGN(const auto mapped, MappedFile::open(path));
  return verify_archive_digest(mapped->bytes(), path.string());
}

}  // namespace gm
