// The comparison layer by layer must see a single rounding that is left out. Each mutant is the
// golden model with one rounding less; the unchanged model passes, every mutant fails.
#include <gtest/gtest.h>

#include "ir/graph_rebuild.h"
#include "models.h"
#include "runtime/native_library.h"
#include "tools/common/check.h"

namespace gm::golden {
namespace {

struct Mutant {
  const char* name;
  const char* op;         // every op of this kind ...
  const char* where;      // ... whose place ends like this
  const char* attribute;  // computes with "f32" here; empty: the roundings inside its kernel go
};

void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

// A graph with changed attributes; types follow from inference.
Graph changed(const Graph& old, const Mutant& mutant) {
  auto graph = rebuild(old, [&](Op op) {
    if (*mutant.attribute != '\0' && op.kind == mutant.op && op.where.ends_with(mutant.where))
      op.attrs[mutant.attribute] = std::string("f32");
    return std::optional(std::move(op));
  });
  GM_CHECK(graph.has_value(), "{}", graph.error().to_string());
  return *std::move(graph);
}

// Drops the roundings before a store; the store itself still rounds.
void drop_roundings(Block& block) {
  for (Stmt& stmt : block) {
    if (auto* store = std::get_if<StoreStmt>(&stmt.node)) {
      store->value = rewrite(store->value, [](const Expr& e) {
        return e->kind == ExprKind::round ? e->args[0] : Expr();
      });
    }
    if (auto* loop = std::get_if<ForStmt>(&stmt.node)) drop_roundings(loop->body);
    if (auto* guarded = std::get_if<IfStmt>(&stmt.node)) drop_roundings(guarded->body);
  }
}

Module compiled(const ImportedModel& model, const CompileOptions& options, const Mutant& mutant) {
  auto module = build_module(model, options);
  GM_CHECK(module.has_value(), "{}", module.error().to_string());
  for (Unit& unit : module->units) unit.graph = changed(unit.graph, mutant);
  PipelineOptions to_kernels;
  to_kernels.stop_after = "lower-regions";
  auto lowered = run_pipeline(*std::move(module), to_kernels);
  GM_CHECK(lowered.has_value(), "{}", lowered.error().to_string());
  if (*mutant.attribute == '\0') {
    for (Unit& unit : lowered->units) {
      for (LoweredRegion& region : *unit.kernels) {
        if (!region.kernel.name.starts_with(mutant.op)) continue;
        for (Part& part : region.kernel.parts) drop_roundings(part.body);
      }
    }
  }
  PipelineOptions rest;
  rest.passes = {"plan-memory"};
  auto planned = run_pipeline(*std::move(lowered), rest);
  GM_CHECK(planned.has_value(), "{}", planned.error().to_string());
  return *std::move(planned);
}

// How many cases and layers fail.
int failures(const std::string& name, const Mutant& mutant) {
  const auto model = import_checkpoint(folder(name));
  GM_CHECK(model.has_value(), "{}", model.error().to_string());
  CompileOptions options;
  options.check_outputs = true;
  options.max_context = 512;
  auto made = make_plan(*model, compiled(*model, options, mutant), options);
  GM_CHECK(made.has_value(), "{}", made.error().to_string());
  const auto plan = std::make_shared<const Plan>(*std::move(made));
  const auto tensors = SafeTensors::open_folder(folder(name));
  auto library = load_native_library(*plan, "plan");
  GM_CHECK(library.has_value(), "{}", library.error().to_string());
  InstanceOptions instance_options;
  instance_options.sizes.rows = 128;
  const auto instance = Instance::create(plan, std::shared_ptr<KernelLibrary>(*std::move(library)),
                                         *tensors, instance_options);
  GM_CHECK(instance.has_value(), "{}", instance.error().to_string());
  const auto goldens = Goldens::open(folder(name));
  GM_CHECK(goldens.has_value(), "{}", goldens.error().to_string());
  std::string lines;
  CheckTally tally([&](const std::string& line) { lines += line + "\n"; });
  const auto checked = check_layers(**instance, *goldens, tally);
  GM_CHECK(checked.has_value(), "{}", checked.error().to_string());
  EXPECT_GT(tally.passed() + tally.failed(), 0);
  testing::Test::RecordProperty("lines", lines);
  return tally.failed();
}

TEST(Mutants, TheModelItselfPasses) {
  for (const char* name : {"dense-tiny", "dense-odd", "moe-tiny"})
    EXPECT_EQ(failures(name, {"none", "", "", "dtype"}), 0) << name;
}

class Roundings : public testing::TestWithParam<Mutant> {};

TEST_P(Roundings, OneLessIsSeen) {
  for (const char* name : {"dense-tiny", "dense-odd"})
    EXPECT_GT(failures(name, GetParam()), 0) << name;
}

INSTANTIATE_TEST_SUITE_P(
    Mutants, Roundings,
    testing::Values(Mutant{"conv", "causal_conv", "", ""},
                    Mutant{"beta", "sigmoid", ".beta", "dtype"},
                    Mutant{"gated_norm", "rms_norm", "linear_attn.norm", "dtype"},
                    Mutant{"swiglu", "silu", "mlp.act", "dtype"},
                    Mutant{"scores", "attention", "", "interior"},
                    Mutant{"rope", "rope", "", "interior"}),
    [](const testing::TestParamInfo<Mutant>& mutant) { return std::string(mutant.param.name); });

}  // namespace
}  // namespace gm::golden
