#include <algorithm>
#include <map>

#include "base/mapped_file.h"
#include "compiler/report/fusion_report.h"
#include "plan/plan_archive.h"
#include "plan/plan_file.h"
#include "runtime/memory.h"
#include "tools/graphmill/inspect.h"

namespace gm {
namespace {

int64_t bytes_of(const WeightBuffer& buffer) {
  int64_t bytes = size_bytes(buffer.dtype);
  for (int64_t extent : buffer.shape) bytes *= extent;
  return bytes;
}

// Kernels that one step of the program runs, and what it would run if each op had its own.
struct StepKernels {
  std::string program;
  int64_t kernels = 0, ops = 0, arena = 0;
};

std::vector<StepKernels> step_kernels(const Plan& plan) {
  std::map<std::string, int64_t, std::less<>> ops;
  if (plan.report.contains("programs") && plan.report["programs"].is_array()) {
    for (const Json& p : plan.report["programs"]) {
      if (p.is_object() && p.contains("name") && p["name"].is_string() && p.contains("ops") &&
          p["ops"].is_number_integer()) {
        ops[p["name"].get<std::string>()] = p["ops"].get<int64_t>();
      }
    }
  }
  std::vector<StepKernels> steps;
  for (const Program& p : plan.programs) {
    const auto found = ops.find(p.name);
    steps.push_back({p.name, static_cast<int64_t>(p.nodes.size()),
                     found == ops.end() ? -1 : found->second, p.arena_bytes});
  }
  return steps;
}

// ["a", "a", "b"] -> "2 a, 1 b"
std::string counted(const std::vector<std::string>& words) {
  std::map<std::string, int> counts;
  for (const std::string& word : words) ++counts[word];
  std::string text;
  for (const auto& [word, count] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, word);
  return text;
}

}  // namespace

std::string memory_table(const MemoryNeed& need, std::string_view indent) {
  std::vector<std::vector<std::string>> rows;
  for (const MemoryPart& part : need.parts)
    rows.push_back({std::string(indent), part.name, bytes_text(part.bytes), part.detail});
  return table_text(rows, "  r");
}

Result<> inspect_summary(const Plan& plan, const InspectFlags& flags) {
  GM_ASSIGN(const std::string digest, plan_digest(flags.plan));
  GM_ASSIGN(const RunSizes sizes, RunSizes::for_plan(plan, {.threads = 1}));
  GM_ASSIGN(const MemoryNeed need, memory_need(plan, sizes));
  int64_t weights = 0;
  for (const WeightBuffer& buffer : plan.weights) weights += bytes_of(buffer);
  const std::vector<StepKernels> steps = step_kernels(plan);
  if (flags.json) {
    Json programs = Json::array(), memory = Json::array();
    for (const StepKernels& s : steps) {
      programs.push_back({{"name", s.program},
                          {"kernels", s.kernels},
                          {"ops", s.ops < 0 ? Json(nullptr) : Json(s.ops)},
                          {"arena_bytes", s.arena}});
    }
    for (const MemoryPart& part : need.parts)
      memory.push_back({{"name", part.name}, {"bytes", part.bytes}, {"detail", part.detail}});
    print_json({{"schema", kInspectSchema},
                {"compiler", plan.compiler},
                {"digest", digest},
                {"stage", plan.stage},
                {"target", plan.target},
                {"target_features", plan.target_features},
                {"dtype", plan.dtype},
                {"numerics", plan.numerics},
                {"fusion", plan.fusion},
                {"model",
                 {{"architecture", plan.model.architecture},
                  {"vocab", plan.model.vocab},
                  {"hidden", plan.model.hidden},
                  {"layers", plan.model.layers},
                  {"layer_types", plan.model.layer_types},
                  {"stop_ids", plan.model.stop_ids},
                  {"tokenizer", !plan.tokenizer.empty()}}},
                {"limits",
                 {{"max_context", plan.limits.max_context},
                  {"max_seqs", plan.limits.max_seqs},
                  {"max_tokens", plan.limits.max_tokens},
                  {"page_tokens", plan.limits.page_tokens}}},
                {"weights_bytes", weights},
                {"memory", std::move(memory)},
                {"memory_bytes", need.total},
                {"programs", std::move(programs)}});
    return {};
  }
  std::string text = fmt::format(
      "model    {}: {} layers ({}), hidden {}, vocabulary {}\n", plan.model.architecture,
      plan.model.layers, counted(plan.model.layer_types), plan.model.hidden, plan.model.vocab);
  text += fmt::format("         tokenizer: {}; ids that end a text: {}\n",
                      plan.tokenizer.empty() ? "none" : "included",
                      fmt::join(plan.model.stop_ids, ", "));
  text += fmt::format("target   {}{}{}, activations {}, numerics {}, fusion {}\n", plan.target,
                      plan.target_features.empty() ? "" : ": ", plan.target_features, plan.dtype,
                      plan.numerics, plan.fusion);
  text +=
      fmt::format("limits   context {}, sequences {}, tokens a step {}, cache pages of {} tokens\n",
                  plan.limits.max_context, plan.limits.max_seqs, plan.limits.max_tokens,
                  plan.limits.page_tokens);
  text += fmt::format("kernels  {} distinct, {}\n", plan.kernels.size(),
                      plan.stage == "native" ? "with native code" : "as text only");
  for (const StepKernels& s : steps) {
    text += fmt::format("         {}: {} a step", s.program, s.kernels);
    if (s.ops >= 0) text += fmt::format(" for {} ops", s.ops);
    text += fmt::format(", arena {}\n", bytes_text(s.arena));
  }
  text += fmt::format("memory   {} at these limits, with one thread\n", bytes_text(need.total));
  text += memory_table(need, "        ");
  text += fmt::format("made by  {}, digest {}\n", plan.compiler, digest);
  print_text(text);
  return {};
}

Result<> inspect_fusion(const Plan& plan, const InspectFlags& flags) {
  if (flags.json) {
    print_json(plan.report);
    return {};
  }
  const ReportView view{
      .program = flags.program, .region = flags.region, .rejected = flags.rejected};
  GM_ASSIGN(const std::string text, print_report(plan.report, view, flags.plan));
  print_text(text);
  return {};
}

Result<> inspect_kernels(const Plan& plan, const InspectFlags& flags) {
  if (!flags.source.empty()) {
    std::vector<std::string> names;
    for (const PlanKernel& kernel : plan.kernels) names.push_back(kernel.name);
    const PlanKernel* kernel = plan.find_kernel(flags.source);
    if (kernel == nullptr) {
      // Names end in a hash; a part that fits one kernel alone will do.
      for (const PlanKernel& k : plan.kernels) {
        if (k.name.find(flags.source) == std::string::npos) continue;
        if (kernel != nullptr) {
          return err(
              Code::command_line, {},
              fmt::format("give more of the name, such as '{}' or '{}'", kernel->name, k.name),
              "'{}' fits several kernels", flags.source);
        }
        kernel = &k;
      }
    }
    if (kernel == nullptr) {
      return err(Code::command_line, {}, "see the names with `graphmill inspect PLAN kernels`",
                 "the plan has no kernel '{}'", flags.source);
    }
    const std::string& text = plan.texts.at(kernel->text_member);
    if (flags.json) {
      print_json({{"schema", kInspectSchema}, {"kernel", kernel->name}, {"text", text}});
    } else {
      print_text(text);
    }
    return {};
  }
  GM_ASSIGN(const Program* program, chosen_program(plan, flags));
  std::map<std::string, int64_t, std::less<>> uses;
  for (const Node& node : program->nodes) ++uses[node.kernel];
  std::vector<std::vector<std::string>> rows = {{"kernel", "nodes", "parts", "params", "scratch"}};
  Json list = Json::array();
  for (const PlanKernel& kernel : plan.kernels) {
    const auto found = uses.find(kernel.name);
    if (found == uses.end()) continue;
    rows.push_back({kernel.name, fmt::format("{}", found->second),
                    fmt::format("{}", kernel.part_items.size()),
                    fmt::format("{}", kernel.params.size()), bytes_text(kernel.scratch_bytes)});
    Json items = Json::array();
    for (const SymExpr& e : kernel.part_items) items.push_back(e.to_string());
    list.push_back({{"name", kernel.name},
                    {"nodes", found->second},
                    {"part_items", std::move(items)},
                    {"params", kernel.params},
                    {"scratch_bytes", kernel.scratch_bytes}});
  }
  if (flags.json) {
    print_json(
        {{"schema", kInspectSchema}, {"program", program->name}, {"kernels", std::move(list)}});
    return {};
  }
  print_text(fmt::format(
      "program {}: {} nodes, {} distinct kernels\n\n{}\nThe text of one: --source KERNEL (a part "
      "of its name will do)\n",
      program->name, program->nodes.size(), rows.size() - 1, table_text(rows, " rrrr")));
  return {};
}

Result<> inspect_memory(const Plan& plan, const InspectFlags& flags) {
  GM_ASSIGN(const Program* program, chosen_program(plan, flags));
  struct Life {
    size_t first = SIZE_MAX, last = 0;
  };
  std::vector<Life> lives(program->slots.size());
  std::map<uint32_t, uint32_t> over;  // a slot that takes the place of another one
  for (size_t n = 0; n < program->nodes.size(); ++n) {
    const Node& node = program->nodes[n];
    for (const NodeArg& arg : node.args) lives[arg.slot] = {std::min(lives[arg.slot].first, n), n};
    for (const auto& [written, read] : node.in_place) over[written] = read;
  }
  std::vector<std::vector<std::string>> rows = {
      {"offset", "bytes", "nodes", "slot", "type", "in place of"}};
  Json list = Json::array();
  std::vector<uint32_t> order;
  for (uint32_t s = 0; s < program->slots.size(); ++s) {
    if (program->slots[s].kind == SlotKind::activation) order.push_back(s);
  }
  std::ranges::stable_sort(order, {}, [&](uint32_t s) {
    return std::pair(lives[s].first, program->slots[s].arena_offset);
  });
  for (uint32_t s : order) {
    const Slot& slot = program->slots[s];
    const int64_t bytes = largest_bytes(program->symbols, slot).value_or(-1);
    const auto place = over.find(s);
    const std::string type = std::string(to_string(slot.dtype)) + shape_text(slot.shape);
    const std::string replaced = place == over.end() ? "" : program->slots[place->second].name;
    rows.push_back({fmt::format("{}", slot.arena_offset), fmt::format("{}", bytes),
                    fmt::format("{}-{}", lives[s].first, lives[s].last), slot.name, type,
                    replaced});
    list.push_back({{"slot", slot.name},
                    {"type", type},
                    {"offset", slot.arena_offset},
                    {"bytes", bytes},
                    {"first_node", lives[s].first},
                    {"last_node", lives[s].last},
                    {"in_place_of", replaced.empty() ? Json(nullptr) : Json(replaced)}});
  }
  if (flags.json) {
    print_json({{"schema", kInspectSchema},
                {"program", program->name},
                {"arena_bytes", program->arena_bytes},
                {"slots", std::move(list)}});
    return {};
  }
  print_text(fmt::format("program {}: arena {} ({} bytes) for {} activations over {} nodes\n\n{}",
                         program->name, bytes_text(program->arena_bytes), program->arena_bytes,
                         order.size(), program->nodes.size(), table_text(rows, "rr")));
  return {};
}

Result<> inspect_manifest(const InspectFlags& flags) {
  GM_ASSIGN(const auto file, MappedFile::open(flags.plan));
  GM_ASSIGN(const ArchiveMembers members, read_archive(file->bytes(), flags.plan));
  GM_ASSIGN(const Json manifest, parse_json(members.at("manifest.json"), flags.plan));
  if (flags.json) {
    print_json({{"schema", kInspectSchema}, {"manifest", manifest}});
  } else {
    print_json(manifest);
  }
  return {};
}

}  // namespace gm
