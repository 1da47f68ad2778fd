// The fusion report: what became one kernel, and each decision with its reason. The JSON (schema in
// docs/fusion-report.md) is kept in the plan; the text is written from it, so that `inspect` needs
// nothing but the plan.
#pragma once

#include <string>

#include "base/json.h"
#include "compiler/module.h"

namespace gm {

inline constexpr int kReportSchema = 1;

Json fusion_report(const Module& module);

struct ReportView {
  std::string program = "decode";
  std::string region;     // a part of a region's name; empty: all
  bool rejected = false;  // also the decisions against
};

// Layers that got the same kernels are told once, as "layers.{0-2}". Errors: no such program or
// region (31xx).
Result<std::string> print_report(const Json& report, const ReportView& view,
                                 const std::string& file);

}  // namespace gm
