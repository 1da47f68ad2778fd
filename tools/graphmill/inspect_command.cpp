#include <algorithm>

#include "plan/plan_file.h"
#include "tools/graphmill/commands.h"
#include "tools/graphmill/inspect.h"

namespace gm {
namespace {

struct View {
  std::string_view name;
  std::vector<std::string_view> options;  // that mean something in it, beside --json
};

const std::vector<View>& views() {
  static const std::vector<View> all = {
      {"summary", {}},
      {"fusion", {"--rejected", "--region", "--program"}},
      {"kernels", {"--source", "--program"}},
      {"memory", {"--program"}},
      {"graph", {"--text", "--dot", "--svg", "--program", "--output"}},
      {"manifest", {}}};
  return all;
}

// An option that the view would not look at is a mistake, not a wish.
Result<> check_options(const CLI::App& command, const InspectFlags& flags) {
  std::vector<std::string> names;
  for (const View& view : views()) names.emplace_back(view.name);
  GM_TRY(one_of("VIEW", flags.view, names));
  const View& view = *std::ranges::find(views(), flags.view, &View::name);
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string name = "--" + option->get_lnames().front();
    if (name == "--json" || std::ranges::find(view.options, name) != view.options.end()) continue;
    std::string known = "--json";
    for (std::string_view o : view.options) known += fmt::format(", {}", o);
    return err(Code::command_line, {}, fmt::format("options of this view: {}", known),
               "the view '{}' has no option '{}'", flags.view, name);
  }
  return {};
}

Result<Exit> inspect(const CLI::App& command, const InspectFlags& flags) {
  GM_TRY(check_options(command, flags));
  GM_ASSIGN(const Plan plan, read_plan(flags.plan));
  if (flags.view == "summary") GM_TRY(inspect_summary(plan, flags));
  if (flags.view == "fusion") GM_TRY(inspect_fusion(plan, flags));
  if (flags.view == "kernels") GM_TRY(inspect_kernels(plan, flags));
  if (flags.view == "memory") GM_TRY(inspect_memory(plan, flags));
  if (flags.view == "graph") GM_TRY(inspect_graph(plan, flags));
  if (flags.view == "manifest") GM_TRY(inspect_manifest(flags));
  return Exit::ok;
}

}  // namespace

Result<const Program*> chosen_program(const Plan& plan, const InspectFlags& flags) {
  if (const Program* program = plan.find_program(flags.program)) return program;
  std::vector<std::string> names;
  for (const Program& program : plan.programs) names.push_back(program.name);
  GM_TRY(one_of("--program", flags.program, names));
  GM_CHECK(false, "program {}", flags.program);
}

std::string shape_text(const std::vector<SymExpr>& shape) {
  std::string text;
  for (const SymExpr& extent : shape) text += (text.empty() ? "" : ", ") + extent.to_string();
  return "[" + text + "]";
}

void add_inspect(ProgramLine& program) {
  const auto flags = std::make_shared<InspectFlags>();
  const auto self = std::make_shared<CLI::App*>(nullptr);
  CLI::App& command = program.command(
      "inspect", "show what is in a plan: summary, fusion, kernels, memory, graph or manifest",
      "inspect qwen.plan fusion --rejected --region layers.0.mlp",
      [flags, self] { return inspect(**self, *flags); });
  *self = &command;
  command.add_option("PLAN", flags->plan, "a plan file")->required();
  command.add_option("VIEW", flags->view, "summary, fusion, kernels, memory, graph or manifest")
      ->required();
  command.add_flag("--json", flags->json, "print JSON, with its schema's number");
  command.add_option("--program,--bucket", flags->program, "decode, mixed, ...")
      ->capture_default_str();
  command.add_flag("--rejected", flags->rejected, "fusion: also what was not fused, and why");
  command.add_option("--region", flags->region, "fusion: only regions whose name contains this");
  command.add_option("--source", flags->source, "kernels: the text of this kernel")
      ->type_name("KERNEL");
  command.add_flag("--text", flags->text, "graph: as IR text (the default)");
  command.add_flag("--dot", flags->dot, "graph: for Graphviz");
  command.add_flag("--svg", flags->svg, "graph: drawn by Graphviz' dot");
  command.add_option("-o,--output", flags->output, "graph: where it goes; '-' for stdout")
      ->capture_default_str();
}

}  // namespace gm
