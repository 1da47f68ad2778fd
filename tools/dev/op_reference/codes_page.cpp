#include <array>

#include "base/diag.h"
#include "ir/region.h"
#include "tools/dev/op_reference/pages.h"

namespace gm {
namespace {

struct Entry {
  int number;
  std::string name;   // "GM1001", "F202"
  std::string label;  // "file-open"
  std::string_view text;
  int exit = 0;
};

struct Range {
  int first, last;
  std::string_view title;
};

constexpr std::array kCodeRanges = {
    Range{1000, 1099, "Files, JSON and symbolic integers"},
    Range{1100, 1199, "Safetensors"},
    Range{1200, 1299, "Model configuration and tensors"},
    Range{1300, 1399, "Tokenizer"},
    Range{1400, 1499, "Command line"},
    Range{1500, 1599, "IR text"},
    Range{2000, 2099, "L0: graphs"},
    Range{2100, 2199, "L1: regions, and memory"},
    Range{2200, 2299, "L2: kernels"},
    Range{2300, 2399, "Contents of a plan"},
    Range{3000, 3099, "The plan file"},
    Range{3100, 3199, "Binding and running"},
    Range{4000, 4099, "The machine"},
    Range{9000, 9099, "Our own bugs"},
};

constexpr std::array kReasonRanges = {
    Range{100, 199, "Accepted"},
    Range{200, 299, "Not legal"},
    Range{300, 399, "Resources"},
    Range{400, 499, "Not worth it"},
    Range{500, 599, "Templates and slots"},
    Range{600, 699, "Policy"},
};

std::string hyphenated(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = c == '_' ? '-' : c;
  return text;
}

std::vector<Entry> all_codes() {
  std::vector<Entry> entries;
#define GM_CODE(number, label, summary)                                           \
  entries.push_back({number, code_name(Code::label), hyphenated(#label), summary, \
                     static_cast<int>(Diag{Code::label, {}, {}, {}, {}}.exit_code())});
#include "base/codes.def"
#undef GM_CODE
  return entries;
}

std::vector<Entry> all_reasons() {
  std::vector<Entry> entries;
#define GM_REASON(number, label, summary) \
  entries.push_back({number, reason_name(Reason::label), hyphenated(#label), summary});
#include "ir/reasons.def"
#undef GM_REASON
  return entries;
}

// A table for each range that has entries; every entry must be in one.
template <size_t N>
void print_tables(std::string& page, const std::vector<Entry>& entries,
                  const std::array<Range, N>& ranges, bool exits) {
  size_t printed = 0;
  for (const Range& range : ranges) {
    std::string rows;
    for (const Entry& e : entries) {
      if (e.number < range.first || e.number > range.last) continue;
      ++printed;
      rows += fmt::format("| `{}` | {} | {} |", e.name, e.label, e.text);
      rows += exits ? fmt::format(" {} |\n", e.exit) : "\n";
    }
    if (rows.empty()) continue;
    page += fmt::format("\n### {}\n\n| code | name | what it means |{}\n|---|---|---|{}\n{}",
                        range.title, exits ? " exit code |" : "", exits ? "---|" : "", rows);
  }
  GM_CHECK(printed == entries.size(), "{} of {} codes lie in no range", entries.size() - printed,
           entries.size());
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
  print_tables(page, all_codes(), kCodeRanges, true);
  page +=
      "\n## Reasons of fusion decisions\n\n"
      "The set is closed: a decision carries one of these and its values "
      "([fusion-report.md](fusion-report.md)).\n";
  print_tables(page, all_reasons(), kReasonRanges, false);
  return page;
}

}  // namespace gm
