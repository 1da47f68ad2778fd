#include <algorithm>
#include <map>

#include "compiler/report/fusion_report.h"

namespace gm {
namespace {

constexpr std::string_view kLayers = "layers.";

// "layers.12.mlp" -> {"layers.*.mlp", 12}
std::pair<std::string, int64_t> without_layer(const std::string& name) {
  if (!name.starts_with(kLayers)) return {name, -1};
  size_t end = kLayers.size();
  int64_t layer = 0;
  while (end < name.size() && name[end] >= '0' && name[end] <= '9' && layer < 1'000'000)
    layer = 10 * layer + (name[end++] - '0');
  if (end == kLayers.size() || end >= name.size() || name[end] != '.') return {name, -1};
  return {fmt::format("layers.*{}", name.substr(end)), layer};
}

// {0, 1, 2, 4} -> "0-2,4"
std::string ranges(std::vector<int64_t> layers) {
  std::ranges::sort(layers);
  std::string text;
  for (size_t i = 0; i < layers.size();) {
    size_t j = i;
    while (j + 1 < layers.size() && layers[j + 1] <= layers[j] + 1) ++j;
    if (!text.empty()) text += ",";
    text += layers[i] == layers[j] ? fmt::format("{}", layers[i])
                                   : fmt::format("{}-{}", layers[i], layers[j]);
    i = j + 1;
  }
  return text;
}

// Things that are told once for all layers in which they are alike: text with the layers replaced,
// and which they are.
class Grouped {
 public:
  void add(std::string text, const std::vector<int64_t>& layers) {
    const auto [found, added] = index_.try_emplace(text, entries_.size());
    if (added) entries_.push_back({std::move(text), {}});
    auto& all = entries_[found->second].layers;
    all.insert(all.end(), layers.begin(), layers.end());
  }
  std::string print() const {
    std::string result;
    for (const Entry& entry : entries_) {
      std::string text = entry.text;
      const std::string star = "layers.*";
      const std::string layers = fmt::format("layers.{{{}}}", ranges(entry.layers));
      // Only the first line says which layers; the others keep the star.
      if (const size_t at = text.find(star); at != std::string::npos && !entry.layers.empty())
        text.replace(at, star.size(), layers);
      result += text;
    }
    return result;
  }

 private:
  struct Entry {
    std::string text;
    std::vector<int64_t> layers;
  };
  std::vector<Entry> entries_;
  std::map<std::string, size_t> index_;
};

Result<std::string> starred(const JsonView& view, std::vector<int64_t>& layers) {
  GM_ASSIGN(const std::string name, view.string());
  auto [text, layer] = without_layer(name);
  if (layer >= 0 && std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
  return text;
}

Result<> add_region(Grouped& grouped, const JsonView& region) {
  std::vector<int64_t> layers;
  GM_ASSIGN(const JsonView name_view, region.at("name"));
  GM_ASSIGN(const std::string name, starred(name_view, layers));
  std::string text = fmt::format("{}\n", name);
  GM_ASSIGN(const JsonView kernel, region.at("kernel"));
  if (!kernel.is_null()) {
    GM_ASSIGN(const std::string kernel_name, kernel.string());
    text += fmt::format("  kernel {}\n", kernel_name);
  }
  GM_ASSIGN(const JsonView members, region.at("members"));
  GM_ASSIGN(const std::vector<JsonView> all, members.items());
  for (const JsonView& member : all) {
    std::vector<int64_t> ignored;
    GM_ASSIGN(const JsonView role_view, member.at("role"));
    GM_ASSIGN(const std::string role, role_view.string());
    GM_ASSIGN(const JsonView op_view, member.at("op"));
    GM_ASSIGN(const std::string op, op_view.string());
    GM_ASSIGN(const JsonView where_view, member.at("where"));
    GM_ASSIGN(const std::string where, starred(where_view, ignored));
    GM_ASSIGN(const JsonView type_view, member.at("type"));
    GM_ASSIGN(const std::string type, type_view.string());
    text += fmt::format("    {:<9} {:<18} {} : {}\n", role, op, where, type);
  }
  grouped.add(std::move(text), layers);
  return {};
}

Result<> add_decision(Grouped& grouped, const JsonView& decision) {
  std::vector<int64_t> layers;
  GM_ASSIGN(const JsonView ops_view, decision.at("ops"));
  GM_ASSIGN(const std::vector<JsonView> ops, ops_view.items());
  std::string places;
  for (const JsonView& op : ops) {
    GM_ASSIGN(const std::string place, starred(op, layers));
    places += (places.empty() ? "" : " + ") + place;
  }
  std::string fields[4];
  constexpr std::string_view kKeys[] = {"rule", "code", "reason", "detail"};
  for (size_t i = 0; i < 4; ++i) {
    GM_ASSIGN(const JsonView field, decision.at(kKeys[i]));
    GM_ASSIGN(fields[i], field.string());
  }
  // Values in a detail carry layer numbers too.
  std::string detail = fields[3];
  for (size_t at = detail.find("%layers."); at != std::string::npos;
       at = detail.find("%layers.", at + 1)) {
    const auto [text, layer] = without_layer(detail.substr(at + 1));
    if (layer >= 0) detail = detail.substr(0, at + 1) + text;
  }
  grouped.add(fmt::format("  {}\n    {} {}{}{}: {}\n", places, fields[1], fields[2],
                          fields[0].empty() ? "" : " by ", fields[0], detail),
              layers);
  return {};
}

Result<JsonView> find_program(const JsonView& root, const std::string& name) {
  GM_ASSIGN(const JsonView programs, root.at("programs"));
  GM_ASSIGN(const std::vector<JsonView> all, programs.items());
  std::string known;
  for (const JsonView& program : all) {
    GM_ASSIGN(const JsonView name_view, program.at("name"));
    GM_ASSIGN(const std::string this_name, name_view.string());
    if (this_name == name) return program;
    known += (known.empty() ? "" : ", ") + this_name;
  }
  return err(Code::report_selection, programs.where(), fmt::format("choose one of: {}", known),
             "the plan has no program '{}'", name);
}

}  // namespace

Result<std::string> print_report(const Json& report, const ReportView& view,
                                 const std::string& file) {
  const JsonView root(report, file, "report.json");
  GM_ASSIGN(const JsonView program, find_program(root, view.program));
  int64_t counts[3];
  constexpr std::string_view kCounts[] = {"ops", "views", "kernels"};
  for (size_t i = 0; i < 3; ++i) {
    GM_ASSIGN(const JsonView count, program.at(kCounts[i]));
    GM_ASSIGN(counts[i], count.integer(0));
  }
  std::string text = fmt::format("program {}: {} ops (and {} views) in {} kernels\n\n",
                                 view.program, counts[0], counts[1], counts[2]);

  Grouped regions;
  size_t matched = 0;
  std::vector<std::string> wanted;  // places of the chosen regions' members
  GM_ASSIGN(const JsonView regions_view, program.at("regions"));
  GM_ASSIGN(const std::vector<JsonView> all_regions, regions_view.items());
  for (const JsonView& region : all_regions) {
    GM_ASSIGN(const JsonView name_view, region.at("name"));
    GM_ASSIGN(const std::string name, name_view.string());
    if (name.find(view.region) == std::string::npos) continue;
    ++matched;
    GM_TRY(add_region(regions, region));
    GM_ASSIGN(const JsonView members, region.at("members"));
    GM_ASSIGN(const std::vector<JsonView> all, members.items());
    for (const JsonView& member : all) {
      GM_ASSIGN(const JsonView where, member.at("where"));
      GM_ASSIGN(std::string place, where.string());
      wanted.push_back(std::move(place));
    }
  }
  if (matched == 0) {
    return err(Code::report_selection, regions_view.where(),
               "see the names with `inspect PLAN fusion`", "no region's name contains '{}'",
               view.region);
  }
  text += regions.print();

  Grouped accepted, rejected;
  GM_ASSIGN(const JsonView decisions, program.at("decisions"));
  GM_ASSIGN(const std::vector<JsonView> all_decisions, decisions.items());
  for (const JsonView& decision : all_decisions) {
    GM_ASSIGN(const JsonView verdict_view, decision.at("verdict"));
    GM_ASSIGN(const std::string verdict, verdict_view.string());
    if (!view.region.empty()) {
      GM_ASSIGN(const JsonView ops_view, decision.at("ops"));
      GM_ASSIGN(const std::vector<JsonView> ops, ops_view.items());
      bool about = false;
      for (const JsonView& op : ops) {
        GM_ASSIGN(const std::string place, op.string());
        about |= std::ranges::find(wanted, place) != wanted.end();
      }
      if (!about) continue;
    }
    GM_TRY(add_decision(verdict == "accepted" ? accepted : rejected, decision));
  }
  if (const std::string list = accepted.print(); !list.empty()) text += "\naccepted\n" + list;
  if (const std::string list = rejected.print(); view.rejected && !list.empty())
    text += "\nrejected\n" + list;
  if (!view.rejected) text += "\nWhat was not fused, and why: --rejected\n";
  return text;
}

}  // namespace gm
