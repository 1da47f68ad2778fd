#include "tools/graphmill/module_text.h"

#include <algorithm>
#include <cstdio>

#include "base/mapped_file.h"
#include "ir/graph_text.h"
#include "ir/region_text.h"
#include "ops/ops.h"

namespace gm {
namespace {

constexpr size_t kLimitBytes = 64u << 20;

struct Piece {
  enum class Kind : uint8_t { graph, regions, kernel } kind;
  std::string
      text;  // after as many empty lines as stand before it, so that places are those of the file
  int line;
};

std::optional<Piece::Kind> starts_piece(std::string_view line) {
  auto keyword = [&](std::string_view word) {
    return line.starts_with(word) &&
           (line.size() == word.size() || line[word.size()] == ' ' || line[word.size()] == '{');
  };
  if (keyword("graph")) return Piece::Kind::graph;
  if (keyword("regions")) return Piece::Kind::regions;
  if (keyword("kernel")) return Piece::Kind::kernel;
  return std::nullopt;
}

// What stands before the first piece belongs to it: comments, or something that its parser refuses.
std::vector<Piece> split(std::string_view text) {
  std::vector<Piece> pieces;
  std::string before;
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1);
    const std::string_view line = text.substr(at, end + 1 - at);
    ++number;
    if (const auto kind = starts_piece(line)) {
      std::string lead =
          pieces.empty() ? std::move(before) : std::string(static_cast<size_t>(number - 1), '\n');
      pieces.push_back({*kind, std::move(lead), number});
    }
    (pieces.empty() ? before : pieces.back().text) += line;
    at = end + 1;
  }
  if (pieces.empty()) pieces.push_back({Piece::Kind::graph, std::move(before), 1});
  return pieces;
}

Result<std::string> read_stdin() {
  std::string text;
  char chunk[65536];
  while (const size_t got = std::fread(chunk, 1, sizeof chunk, stdin)) {
    text.append(chunk, got);
    if (text.size() > kLimitBytes) {
      return err(Code::ir_limit, Location::of_file("stdin"), "split the text",
                 "the text is larger than {} bytes", kLimitBytes);
    }
  }
  return text;
}

}  // namespace

Result<ModuleText> parse_module_text(std::string_view text, const std::string& file) {
  ModuleText result;
  for (Piece& piece : split(text)) {
    const Location where = Location::of_text(file, piece.line, 1);
    switch (piece.kind) {
      case Piece::Kind::graph: {
        GM_ASSIGN(Graph graph, parse_graph(piece.text, file, builtin_ops()));
        const bool taken = std::ranges::any_of(result.module.units,
                                               [&](const Unit& u) { return u.name == graph.name; });
        if (taken)
          return err(Code::ir_name, where, "give each graph of a file a name of its own",
                     "there are two graphs @{}", graph.name);
        std::string name = graph.name;
        result.module.units.push_back({std::move(name), std::move(graph), {}, {}, {}});
        break;
      }
      case Piece::Kind::regions: {
        if (result.module.units.empty() || result.module.units.back().regions) {
          return err(Code::ir_syntax, where, "put the regions behind the text of their graph",
                     "these regions have no graph");
        }
        Unit& unit = result.module.units.back();
        GM_ASSIGN(unit.regions, parse_regions(piece.text, file, unit.graph));
        break;
      }
      case Piece::Kind::kernel: {
        GM_ASSIGN(Kernel kernel, parse_kernel(piece.text, file));
        result.kernels.push_back(std::move(kernel));
        break;
      }
    }
    if (!result.kernels.empty() && !result.module.units.empty()) {
      return err(Code::ir_syntax, where, "put graphs and kernels into files of their own",
                 "a file holds graphs or kernels, not both");
    }
  }
  return result;
}

Result<ModuleText> read_module_text(const std::string& path) {
  if (path == "-") {
    GM_ASSIGN(const std::string text, read_stdin());
    return parse_module_text(text, "stdin");
  }
  GM_ASSIGN(const std::string text, read_text_file(path, kLimitBytes));
  return parse_module_text(text, path);
}

}  // namespace gm
