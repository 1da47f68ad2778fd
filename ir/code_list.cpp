#include "ir/code_list.h"

#include <algorithm>
#include <array>

#include "ir/region.h"

namespace gm {
namespace {

constexpr std::array kErrorRanges = {
    CodeRange{1000, 1099, "Files, JSON and symbolic integers",
              "look at the file and place that the error names"},
    CodeRange{
        1100, 1199, "Safetensors",
        "copy or download the file again; if it stays so, the program that wrote it is wrong"},
    CodeRange{1200, 1299, "Model configuration and tensors",
              "give a checkpoint of the Qwen3.5 family as it was published, or a fine-tune of it"},
    CodeRange{1300, 1399, "Tokenizer",
              "use the tokenizer.json that was published with the model, and texts that are UTF-8"},
    CodeRange{1400, 1499, "Command line", "see the command's --help, or docs/cli.md"},
    CodeRange{1500, 1599, "IR text",
              "correct the text at the line and column that the error names; docs/ir.md has the "
              "grammar"},
    CodeRange{2000, 2099, "L0: graphs",
              "correct the graph at the op or value that the error names; docs/ops.md has the ops"},
    CodeRange{
        2100, 2199, "L1: regions, and memory",
        "correct the regions of a text, or give its symbols upper ends; from a pass it is a bug of "
        "graphmill"},
    CodeRange{2200, 2299, "L2: kernels",
              "correct the kernel of a text by hand; from a pass it is a bug of graphmill"},
    CodeRange{2300, 2399, "Contents of a plan",
              "compile the plan again; a plan that graphmill wrote does not have this"},
    CodeRange{3000, 3099, "The plan file", "copy the plan again, or compile it with this version"},
    CodeRange{3100, 3199, "Binding and running",
              "give the weights, sizes and requests that the plan was compiled for, or compile it "
              "for these"},
    CodeRange{4000, 4099, "The machine",
              "compile for this machine, or take a machine that has what is asked for; the plan "
              "and the model are sound"},
    CodeRange{9000, 9099, "Our own bugs", "report it, with the command line and the message"},
};

constexpr std::array kReasonRanges = {
    CodeRange{100, 199, "Accepted", {}},
    CodeRange{200, 299, "Not legal", {}},
    CodeRange{300, 399, "Resources", {}},
    CodeRange{400, 499, "Not worth it", {}},
    CodeRange{500, 599, "Templates and slots", {}},
    CodeRange{600, 699, "Policy", {}},
};

std::string hyphenated(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = c == '_' ? '-' : c;
  return text;
}

const CodeRange* range_of(int number, std::span<const CodeRange> ranges) {
  for (const CodeRange& range : ranges) {
    if (number >= range.first && number <= range.last) return &range;
  }
  GM_CHECK(false, "code {} lies in no range", number);
}

// What would have to be otherwise for the other decision. No default: a new reason asks for one.
std::string_view remedy(Reason reason) {
  switch (reason) {
    case Reason::saves_traffic:
      return "a second reader in another kernel, or an output: then the value is stored";
    case Reason::saves_launch:
      return "`--skip-pass fuse` or `--fusion off`; the bits stay the same";
    case Reason::enables_inplace:
      return "a later reader of the operand: then the result needs a place of its own";
    case Reason::cycle:
      return "fusing what lies on the path between the two as well, or no such path";
    case Reason::crosses_state_write:
      return "reading the state before or after both ops, so that no version is written between "
             "them";
    case Reason::index_maps_differ:
      return "no view between the two, or one under which both walk the same elements in the same "
             "order";
    case Reason::reduction_axes_differ:
      return "reductions over the same axis";
    case Reason::producer_needs_whole_row:
      return "a producer whose work items hold whole rows, or a consumer that needs one element "
             "at a time";
    case Reason::dtype_differs:
      return "equal stored dtypes: `--dtype`, or a checkpoint that stores both weights alike";
    case Reason::extent_not_provably_equal:
      return "one symbol for both extents, or a range or fact of the symbols from which equality "
             "follows";
    case Reason::output_visible:
      return "no other reader of the value, and no output of the graph that shows it";
    case Reason::slot_not_supported:
      return "an op whose declaration takes a prologue or epilogue at this operand or result "
             "(docs/ops.md)";
    case Reason::pass_disabled:
      return "`--fusion full`, without `--skip-pass fuse`";
  }
  GM_CHECK(false, "reason {}", static_cast<int>(reason));
}

}  // namespace

std::span<const CodeRange> error_ranges() { return kErrorRanges; }
std::span<const CodeRange> reason_ranges() { return kReasonRanges; }

std::vector<CodeEntry> all_errors() {
  std::vector<CodeEntry> entries;
#define GM_CODE(number, label, summary)                             \
  entries.push_back({number,                                        \
                     code_name(Code::label),                        \
                     hyphenated(#label),                            \
                     summary,                                       \
                     range_of(number, kErrorRanges),                \
                     Diag{Code::label, {}, {}, {}, {}}.exit_code(), \
                     {}});
#include "base/codes.def"
#undef GM_CODE
  std::ranges::sort(entries, {}, &CodeEntry::number);
  return entries;
}

std::vector<CodeEntry> all_reasons() {
  std::vector<CodeEntry> entries;
#define GM_REASON(number, label, summary)                                             \
  entries.push_back({number, reason_name(Reason::label), hyphenated(#label), summary, \
                     range_of(number, kReasonRanges), Exit::ok, remedy(Reason::label)});
#include "ir/reasons.def"
#undef GM_REASON
  std::ranges::sort(entries, {}, &CodeEntry::number);
  return entries;
}

}  // namespace gm
