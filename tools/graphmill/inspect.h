// The views of `inspect`. Each prints itself as text, or as JSON with a `schema` of its own
// (docs/cli.md).
#pragma once

#include "plan/plan.h"
#include "runtime/memory.h"
#include "tools/common/output.h"

namespace gm {

inline constexpr int kInspectSchema = 1;

struct InspectFlags {
  std::string plan, view, program = "decode", region, source, output = "-";
  bool rejected = false, json = false, text = false, dot = false, svg = false;
};

Result<> inspect_summary(const Plan& plan, const InspectFlags& flags);
Result<> inspect_fusion(const Plan& plan, const InspectFlags& flags);
Result<> inspect_kernels(const Plan& plan, const InspectFlags& flags);
Result<> inspect_memory(const Plan& plan, const InspectFlags& flags);
Result<> inspect_graph(const Plan& plan, const InspectFlags& flags);
Result<> inspect_manifest(const InspectFlags& flags);

// The program of that name, or an error with the nearest one.
Result<const Program*> chosen_program(const Plan& plan, const InspectFlags& flags);
// A line for each part of the memory of a run.
std::string memory_table(const MemoryNeed& need, std::string_view indent);
std::string shape_text(const std::vector<SymExpr>& shape);  // "[tokens, 256]"

}  // namespace gm
