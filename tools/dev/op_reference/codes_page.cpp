#include "ir/code_list.h"
#include "tools/dev/op_reference/pages.h"

namespace gm {
namespace {

// A table for each range that has entries.
void print_tables(std::string& page, std::span<const CodeEntry> entries,
                  std::span<const CodeRange> ranges, bool exits) {
  for (const CodeRange& range : ranges) {
    std::string rows;
    for (const CodeEntry& e : entries) {
      if (e.range != &range) continue;
      rows += fmt::format("| `{}` | {} | {} |", e.name, e.label, e.summary);
      rows += exits ? fmt::format(" {} |\n", static_cast<int>(e.exit)) : "\n";
    }
    if (rows.empty()) continue;
    page += fmt::format("\n### {}\n\n| code | name | what it means |{}\n|---|---|---|{}\n{}",
                        range.title, exits ? " exit code |" : "", exits ? "---|" : "", rows);
  }
}

}  // namespace

std::string codes_page() {
  std::string page =
      "# Codes\n\n"
      "<!-- Generated from base/codes.def and ir/reasons.def by op_reference; a test compares. "
      "Change those. -->\n\n"
      "Every error has a code, and so has every decision of the fusion report. A number is never "
      "used twice, also not\n"
      "after its code has gone.\n\n"
      "## Errors\n\n"
      "An error is printed as `error: MESSAGE [GM1001]`, then where it is, notes, and what to do "
      "about it. What the exit\n"
      "codes mean is said in [cli.md](cli.md).\n";
  print_tables(page, all_errors(), error_ranges(), true);
  page +=
      "\n## Reasons of fusion decisions\n\n"
      "The set is closed: a decision carries one of these and its values "
      "([fusion-report.md](fusion-report.md)).\n";
  print_tables(page, all_reasons(), reason_ranges(), false);
  return page;
}

}  // namespace gm
