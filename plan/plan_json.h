// The JSON members of a plan: manifest.json, program.json and weights.json. Writing gives one form
// only; reading takes every field through a JsonView, so that what is missing, mistyped, unknown or
// out of range is reported at its path.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace gm {

using MemberDigests = std::map<std::string, std::string, std::less<>>;

Json manifest_json(const Plan& plan, const MemberDigests& digests);
Json program_json(const Plan& plan);  // programs, kernels, states
Json weights_json(const Plan& plan);

// The format is looked at first: nothing else of a manifest of another format has a known meaning.
Result<MemberDigests> read_manifest(const JsonView& manifest, Plan& plan);
Result<> read_program_member(const JsonView& member, Plan& plan);
Result<> read_weights_member(const JsonView& member, Plan& plan);

// "graph*.gm" and "kernels/*.gm", the members that Plan::texts may hold.
bool is_text_member(std::string_view name);

}  // namespace gm
