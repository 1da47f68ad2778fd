#include "plan/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "sample_plan.h"

namespace gm {
namespace {

using test::sample_plan;
using enum test::SampleSlot;
using testing::HasSubstr;

TEST(PlanCheck, TheSampleIsSound) {
  const Result<> good = check_plan(sample_plan(), "m.gmp");
  EXPECT_TRUE(good) << good.error().to_string();
}

struct Mutation {
  const char* name;
  Code code;
  const char* path;                            // of the location
  const char* message;                         // part of it
  std::function<void(Plan&, Program&)> apply;  // the program is decode
};

class PlanMutation : public testing::TestWithParam<Mutation> {};

TEST_P(PlanMutation, IsFound) {
  Plan plan = sample_plan();
  GetParam().apply(plan, plan.programs[0]);
  const Result<> result = check_plan(plan, "m.gmp");
  ASSERT_FALSE(result);
  const Diag& d = result.error();
  EXPECT_EQ(code_name(d.code), code_name(GetParam().code)) << d.to_string();
  EXPECT_EQ(d.location.path, GetParam().path) << d.to_string();
  EXPECT_THAT(d.message, HasSubstr(GetParam().message));
  EXPECT_THAT(d.location.file, HasSubstr("m.gmp"));
  EXPECT_FALSE(d.fix.empty());
}

SymTable symbols(const SymInfo& first) {
  SymTable table;
  table.declare(first);
  table.declare({"slots", SymRole::slots, 1, std::nullopt, 1});
  return table;
}

constexpr SlotAccess kWrite = SlotAccess::write;

const Mutation kMutations[] = {
    {"SymbolWithoutEnd", Code::plan_symbol, "programs[0].symbols[0]", "seqs has no upper bound",
     [](Plan&, Program& p) { p.symbols = symbols({"seqs", SymRole::seqs, 1, std::nullopt, 1}); }},
    {"SymbolNegative", Code::plan_symbol, "programs[0].symbols[0]", "seqs can be negative",
     [](Plan&, Program& p) { p.symbols = symbols({"seqs", SymRole::seqs, -1, SymExpr(8), 1}); }},
    {"SymbolEmpty", Code::plan_symbol, "programs[0].symbols[0]", "from 9 to 8",
     [](Plan&, Program& p) { p.symbols = symbols({"seqs", SymRole::seqs, 9, SymExpr(8), 1}); }},
    {"SymbolOfLoop", Code::plan_symbol, "programs[0].symbols[0]", "axis of a loop",
     [](Plan&, Program& p) { p.symbols = symbols({"seqs", SymRole::loop, 1, SymExpr(8), 1}); }},
    {"SizeLeaves64Bits", Code::plan_size, "programs[0].slots[2].shape", "leaves 64 bits",
     [](Plan&, Program& p) { p.slots[kA].shape = {SymExpr::symbol("seqs"), INT64_MAX / 4}; }},
    {"SizeOfUnboundedPool", Code::plan_size, "programs[0].slots[2].shape", "has no bound",
     [](Plan&, Program& p) { p.slots[kA].shape = {SymExpr::symbol("slots"), 16}; }},
    {"SizeNegative", Code::plan_size, "programs[0].slots[2].shape", "can be negative",
     [](Plan&, Program& p) { p.slots[kA].shape = {SymExpr::symbol("seqs") - 2, 16}; }},
    {"EndLeaves64Bits", Code::plan_size, "programs[0].slots[2].arena_offset", "ends outside",
     [](Plan&, Program& p) { p.slots[kA].arena_offset = INT64_MAX / 64 * 64; }},
    {"SlotNamedTwice", Code::plan_slot, "programs[0].slots[3].name", "two slots",
     [](Plan&, Program& p) { p.slots[kB].name = "a"; }},
    {"SlotOfPred", Code::plan_slot, "programs[0].slots[2].dtype", "pred",
     [](Plan&, Program& p) { p.slots[kA].dtype = DType::pred; }},
    {"SlotOfNineAxes", Code::plan_slot, "programs[0].slots[2].shape", "9 axes",
     [](Plan&, Program& p) { p.slots[kA].shape.assign(9, SymExpr(1)); }},
    {"InputInArena", Code::plan_slot, "programs[0].slots[0].arena_offset", "only activations",
     [](Plan&, Program& p) { p.slots[kIds].arena_offset = 0; }},
    {"StateInArena", Code::plan_state, "programs[0].slots[6].arena_offset", "only activations",
     [](Plan&, Program& p) { p.slots[kState].arena_offset = 0; }},
    {"ContractOfActivation", Code::plan_slot, "programs[0].slots[2].contract", "only i32 inputs",
     [](Plan&, Program& p) { p.slots[kA].contract = InputContract{}; }},
    {"ContractWithStrangeSymbol", Code::plan_reference, "programs[0].slots[0].contract",
     "no symbol pages",
     [](Plan&, Program& p) { p.slots[kIds].contract->hi = SymExpr::symbol("pages"); }},
    {"ShapeWithStrangeSymbol", Code::plan_reference, "programs[0].slots[2].shape",
     "no symbol tokens",
     [](Plan&, Program& p) { p.slots[kA].shape[0] = SymExpr::symbol("tokens"); }},
    {"NoSuchSlot", Code::plan_reference, "programs[0].nodes[1].args[1].slot", "slot 99 of 9",
     [](Plan&, Program& p) { p.nodes[1].args[1].slot = 99; }},
    {"NoSuchKernel", Code::plan_reference, "programs[0].nodes[1].kernel", "kernel other",
     [](Plan&, Program& p) { p.nodes[1].kernel = "other"; }},
    {"KernelOfOtherProgram", Code::plan_reference, "programs[0].nodes[1].kernel", "takes tokens",
     [](Plan&, Program& p) { p.nodes[1].kernel = "mixed.widen"; }},
    {"NoSuchState", Code::plan_reference, "programs[0].slots[6]", "names no state",
     [](Plan&, Program& p) { p.slots[kState].name = "other"; }},
    {"NoSuchWeight", Code::plan_reference, "programs[0].slots[1]", "names no weight",
     [](Plan&, Program& p) { p.slots[kEmbed].name = "other"; }},
    {"NoSuchSlotInPlace", Code::plan_reference, "programs[0].nodes[2].in_place[0]", "4 and 99",
     [](Plan&, Program& p) { p.nodes[2].in_place[0].second = 99; }},
    {"KernelDimTwice", Code::plan_kernel, "kernels[0]", "twice",
     [](Plan& plan, Program&) { plan.kernels[0].dims = {"seqs", "seqs"}; }},
    {"KernelParamTwice", Code::plan_kernel, "kernels[0]", "two parameters",
     [](Plan& plan, Program&) { plan.kernels[0].params = {"ids", "ids", "out"}; }},
    {"KernelWithoutParts", Code::plan_kernel, "kernels[0]", "no parts",
     [](Plan& plan, Program&) { plan.kernels[0].part_items.clear(); }},
    {"KernelItemsOfNoDim", Code::plan_kernel, "kernels[0]", "pages is none of its dims",
     [](Plan& plan, Program&) { plan.kernels[0].part_items = {SymExpr::symbol("pages")}; }},
    {"KernelScratchNegative", Code::plan_kernel, "kernels[0]", "-1 bytes",
     [](Plan& plan, Program&) { plan.kernels[0].scratch_bytes = -1; }},
    {"KernelWithoutFunction", Code::plan_kernel, "kernels[0]", "no function",
     [](Plan& plan, Program&) { plan.kernels[0].symbol = ""; }},
    {"ArgumentMissing", Code::plan_arguments, "programs[0].nodes[1].args", "gives 1 arguments",
     [](Plan&, Program& p) { p.nodes[1].args.pop_back(); }},
    {"SlotReadAndWritten", Code::plan_arguments, "programs[0].nodes[1].args[1].slot",
     "two arguments", [](Plan&, Program& p) { p.nodes[1].args[1].slot = kA; }},
    {"AfterItself", Code::plan_order, "programs[0].nodes[1].after[0]", "not listed before",
     [](Plan&, Program& p) { p.nodes[1].after = {1}; }},
    {"AfterNothing", Code::plan_order, "programs[0].nodes[1].after[0]", "node 77",
     [](Plan&, Program& p) { p.nodes[1].after = {77}; }},
    {"ReadWithoutWaiting", Code::plan_dependence, "programs[0].nodes[1].after",
     "node 1 (layers.0.in) reads slot a, which node 0 (embed) writes",
     [](Plan&, Program& p) { p.nodes[1].after = {}; }},
    {"WriteWithoutWaitingForRead", Code::plan_dependence, "programs[0].nodes[3].after",
     "writes slot a, which node 1 (layers.0.in) reads",
     [](Plan&, Program& p) {
       // Narrow writes a again, waits for the step, and the step no longer for the one that reads
       // a.
       p.nodes[3].args[1].slot = kA;
       p.nodes[3].args[0].slot = kEmbed;
       p.nodes[4].args[0].slot = kA;
       p.nodes[3].after = {0};
     }},
    {"WriteWithoutWaitingForWrite", Code::plan_dependence, "programs[0].nodes[4].after",
     "writes slot logits, which node 3 (layers.0.out) writes",
     [](Plan&, Program& p) {
       p.nodes[3].args[1].slot = kLogits;
       p.nodes[4].args[0].slot = kC;
       p.nodes[4].after = {2};
     }},
    {"StateWithoutWaiting", Code::plan_dependence, "programs[0].nodes[4].after",
     "reads slot layers.0.state, which node 2 (layers.0.mixer) writes",
     [](Plan&, Program& p) {
       p.nodes[4].args[0].slot = kState;
       p.nodes[4].after = {1};
     }},
    {"ReadBeforeWritten", Code::plan_unwritten, "programs[0].nodes[1]", "reads activation d",
     [](Plan&, Program& p) { p.nodes[1].args[0].slot = kD; }},
    {"OutputReadBeforeWritten", Code::plan_unwritten, "programs[0].nodes[1]", "output logits",
     [](Plan&, Program& p) { p.nodes[1].args[0].slot = kLogits; }},
    {"FirstUseReadsAndWrites", Code::plan_unwritten, "programs[0].nodes[0]", "activation a",
     [](Plan&, Program& p) { p.nodes[0].args[2].access = SlotAccess::read_write; }},
    {"OutputNeverWritten", Code::plan_output, "programs[0].slots[7]", "output logits",
     [](Plan&, Program& p) { p.nodes.pop_back(); }},
    {"WritesWeight", Code::plan_read_only, "programs[0].nodes[4].args[1].slot", "weight head",
     [](Plan&, Program& p) { p.nodes[4].args[1].access = kWrite; }},
    {"WritesInput", Code::plan_read_only, "programs[0].nodes[0].args[0].slot", "input ids",
     [](Plan&, Program& p) { p.nodes[0].args[0].access = SlotAccess::read_write; }},
    {"IgnoresIds", Code::plan_input, "programs[0].slots[0]", "ids",
     [](Plan&, Program& p) { p.nodes[0].args[0].slot = kEmbed; }},
    {"Overlap", Code::plan_overlap, "programs[0].slots[3].arena_offset",
     "activation b at bytes 192 to 704 of the arena, written by node 1 (layers.0.in), overlaps a "
     "at bytes 0 to 256",
     [](Plan&, Program& p) {
       p.slots[kB].arena_offset = p.slots[kC].arena_offset = 192;
       p.arena_bytes = 704;
     }},
    {"OverlapNotDeclaredInPlace", Code::plan_overlap, "programs[0].slots[4].arena_offset",
     "overlaps b", [](Plan&, Program& p) { p.nodes[2].in_place.clear(); }},
    {"OverlapOfUnordered", Code::plan_overlap, "programs[0].slots[5].arena_offset",
     "overlaps a at bytes 0 to 256, which node 1 (layers.0.in) uses",
     [](Plan&, Program& p) {
       // d, in the place of a, is written after embed only: the reader of a may still run.
       p.nodes[3].args[0].slot = kEmbed;
       p.nodes[3].after = {0};
     }},
    {"OverlapAfterPartialTakeOver", Code::plan_overlap, "programs[0].slots[5].arena_offset",
     "overlaps b",
     [](Plan&, Program& p) {
       // b keeps its second half when c takes the first, and is read by the last node.
       p.slots[kC].arena_offset = 768;
       p.slots[kD].arena_offset = 512;
       p.nodes[2].in_place.clear();
       p.arena_bytes = 1280;
       p.nodes[4].args[1].slot = kB;
     }},
    {"InPlaceUsedLater", Code::plan_in_place, "programs[0].nodes[2].in_place[0]",
     "node 4 (head) may still use b", [](Plan&, Program& p) { p.nodes[4].args[1].slot = kB; }},
    {"InPlaceOfOtherOffset", Code::plan_in_place, "programs[0].nodes[2].in_place[0]",
     "offsets 768 and 256",
     [](Plan&, Program& p) {
       p.slots[kC].arena_offset = 768;
       p.arena_bytes = 1280;
     }},
    {"InPlaceOfOtherSize", Code::plan_in_place, "programs[0].nodes[2].in_place[0]", "bytes",
     [](Plan&, Program& p) { p.slots[kC].shape = {8, 16}; }},
    {"InPlaceOfState", Code::plan_in_place, "programs[0].nodes[2].in_place[0]",
     "both must be activations", [](Plan&, Program& p) { p.nodes[2].in_place[0].second = kState; }},
    {"InPlaceNotWritten", Code::plan_in_place, "programs[0].nodes[3].in_place[0]",
     "not the first to write", [](Plan&, Program& p) { p.nodes[3].in_place = {{kC, kB}}; }},
    {"InPlaceNotRead", Code::plan_in_place, "programs[0].nodes[3].in_place[0]", "does not read",
     [](Plan&, Program& p) { p.nodes[3].in_place = {{kD, kA}}; }},
    {"ArenaTooSmall", Code::plan_arena, "programs[0].arena_bytes", "end at 768",
     [](Plan&, Program& p) { p.arena_bytes = 704; }},
    {"ArenaTooLarge", Code::plan_arena, "programs[0].arena_bytes", "has 832 bytes",
     [](Plan&, Program& p) { p.arena_bytes = 832; }},
    {"NotAligned", Code::plan_alignment, "programs[0].slots[2].arena_offset", "offset 8",
     [](Plan&, Program& p) { p.slots[kA].arena_offset = 8; }},
    {"NotPlaced", Code::plan_alignment, "programs[0].slots[2].arena_offset", "offset -1",
     [](Plan&, Program& p) { p.slots[kA].arena_offset = -1; }},
    {"StateSlotDiffers", Code::plan_state, "programs[0].slots[6]", "f32[slots, 32]",
     [](Plan&, Program& p) { p.slots[kState].shape[1] = 32; }},
    {"StateOfTokens", Code::plan_state, "states[0]", "not slots or pages",
     [](Plan& plan, Program&) { plan.states[0].shape[0] = SymExpr::symbol("tokens"); }},
    {"StateOfTwoSymbols", Code::plan_state, "states[0]", "only the outermost",
     [](Plan& plan, Program&) { plan.states[0].shape[1] = SymExpr::symbol("pages"); }},
    {"StateTooLarge", Code::plan_size, "states[0]", "64 bits",
     [](Plan& plan, Program&) { plan.states[0].shape[1] = INT64_MAX; }},
    {"WeightSlotDiffers", Code::plan_weight, "programs[0].slots[1]", "bf16[16, 64]",
     [](Plan&, Program& p) { p.slots[kEmbed].shape = {16, 64}; }},
    {"RecipeOfUnknownLayout", Code::plan_recipe, "weights[0]", "layout \"tiles\"",
     [](Plan& plan, Program&) { plan.weights[0].layout = "tiles"; }},
    {"RecipeOfOtherShape", Code::plan_recipe, "weights[0]", "cannot fill",
     [](Plan& plan, Program&) { plan.weights[0].parts[0].stored_shape = {16, 64}; }},
    {"RecipeOfFewerElements", Code::plan_recipe, "weights[0]", "gives 1008",
     [](Plan& plan, Program&) { plan.weights[0].parts[0].stored_shape = {63, 16}; }},
    {"RecipeNotTransposed", Code::plan_recipe, "weights[0]", "cannot fill",
     [](Plan& plan, Program&) { plan.weights[0].layout = "transposed"; }},
    {"RecipeSliceOutside", Code::plan_recipe, "weights[2]", "rows 8 to 41 of 40",
     [](Plan& plan, Program&) { plan.weights[2].parts[0].slice_end = 41; }},
    {"RecipeSliceOfNoAxis", Code::plan_recipe, "weights[2]", "axis 2 of 2",
     [](Plan& plan, Program&) { plan.weights[2].parts[0].slice_axis = 2; }},
    {"RecipePanelGap", Code::plan_recipe, "weights[2]", "begins at panel 2",
     [](Plan& plan, Program&) { plan.weights[2].parts[1].panel_offset = 2; }},
    {"RecipePanelMissing", Code::plan_recipe, "weights[2]", "parts give 1",
     [](Plan& plan, Program&) { plan.weights[2].parts.pop_back(); }},
    {"RecipeOfNothing", Code::plan_recipe, "weights[0]", "either a tensor or values",
     [](Plan& plan, Program&) { plan.weights[0].parts[0].tensor = ""; }},
    {"RecipeValueNotF32", Code::plan_recipe, "weights[1]", "not exact in f32",
     [](Plan& plan, Program&) { plan.weights[1].parts[0].values[2] = 0.1; }},
    {"RecipeValueTooLarge", Code::plan_recipe, "weights[1]", "not exact in f32",
     [](Plan& plan, Program&) { plan.weights[1].parts[0].values[2] = 1e300; }},
    {"RecipeOfTwoKinds", Code::plan_recipe, "weights[2]", "two of slice, series and groups",
     [](Plan& plan, Program&) {
       plan.weights[2].parts[0].tensor = "up.*.weight";
       plan.weights[2].parts[0].series = 2;
     }},
    {"RecipeSeriesOfOneName", Code::plan_recipe, "weights[2]",
     "a series of 2 tensors named \"down.weight\"",
     [](Plan& plan, Program&) { plan.weights[2].parts[1].series = 2; }},
    {"RecipeNameOfASeries", Code::plan_recipe, "weights[0]", "a series of 0 tensors",
     [](Plan& plan, Program&) { plan.weights[0].parts[0].tensor = "embed.*"; }},
    {"RecipeSeriesTooLong", Code::plan_recipe, "weights[0]", "gives 2048",
     [](Plan& plan, Program&) {
       plan.weights[0].parts[0].tensor = "embed.*";
       plan.weights[0].parts[0].series = 2;
     }},
    {"RecipeGroupsDoNotDivide", Code::plan_recipe, "weights[0]", "1 ranges of 3 groups of 64 rows",
     [](Plan& plan, Program&) {
       plan.weights[0].parts[0].groups = 3;
       plan.weights[0].parts[0].ranges = {{0, 1}};
     }},
    {"RecipeGroupsTakeNothing", Code::plan_recipe, "weights[0]", "0 ranges of 2 groups",
     [](Plan& plan, Program&) { plan.weights[0].parts[0].groups = 2; }},
    {"RecipeRangeOutside", Code::plan_recipe, "weights[0]", "rows 16 to 33 of groups of 32",
     [](Plan& plan, Program&) {
       plan.weights[0].parts[0].groups = 2;
       plan.weights[0].parts[0].ranges = {{0, 15}, {16, 33}};
     }},
    {"RecipeGroupsOfFewerRows", Code::plan_recipe, "weights[0]", "gives 992",
     [](Plan& plan, Program&) {
       plan.weights[0].parts[0].groups = 2;
       plan.weights[0].parts[0].ranges = {{0, 15}, {16, 32}};
     }},
    {"RecipeValuesOfGroups", Code::plan_recipe, "weights[1]", "3 values for 3 elements",
     [](Plan& plan, Program&) {
       plan.weights[1].parts[0].groups = 3;
       plan.weights[1].parts[0].ranges = {{0, 1}};
     }},
    {"WeightTooLarge", Code::plan_size, "weights[0]", "64 bits",
     [](Plan& plan, Program&) { plan.weights[0].shape = {INT64_MAX, 16}; }},
    {"KernelsNotSorted", Code::plan_names, "kernels[1].name", "sorted",
     [](Plan& plan, Program&) { std::swap(plan.kernels[0], plan.kernels[1]); }},
    {"ProgramsOfOneName", Code::plan_names, "programs[1].name", "two programs",
     [](Plan& plan, Program&) { plan.programs[1].name = "decode"; }},
    {"NoPrograms", Code::plan_names, "programs", "no program",
     [](Plan& plan, Program&) { plan.programs.clear(); }},
    {"GraphMissing", Code::plan_text, "programs[0].graph", "graph.decode.gm",
     [](Plan& plan, Program&) { plan.texts.erase("graph.decode.gm"); }},
    {"KernelTextMissing", Code::plan_text, "kernels[0]", "kernels/decode.embed.gm",
     [](Plan& plan, Program&) { plan.texts.erase("kernels/decode.embed.gm"); }},
    {"NativeCodeMissing", Code::plan_text, "", "no native code",
     [](Plan& plan, Program&) { plan.shared_object.clear(); }},
    {"LimitOfNothing", Code::plan_limits, "limits.max_seqs", "at least 1",
     [](Plan& plan, Program&) { plan.limits.max_seqs = 0; }},
    {"StopIdNegative", Code::plan_limits, "model.stop_ids[1]", "negative",
     [](Plan& plan, Program&) { plan.model.stop_ids[1] = -5; }},
};

INSTANTIATE_TEST_SUITE_P(All, PlanMutation, testing::ValuesIn(kMutations),
                         [](const auto& mutation) { return std::string(mutation.param.name); });

TEST(PlanCheck, FaultsOfTheSecondProgramAreFound) {
  Plan plan = sample_plan();
  plan.programs[1].nodes[1].after.clear();
  const Result<> result = check_plan(plan, "m.gmp");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().location.to_string(), "m.gmp: program.json: programs[1].nodes[1].after");
  EXPECT_THAT(result.error().message, HasSubstr("program mixed: node 1 (layers.0.in)"));
}

TEST(PlanCheck, TransitiveDependencesSuffice) {
  Plan plan = sample_plan();
  // The head reads the embedding's result too; node 0 is reached over 3, 2 and 1. a must then not
  // lie under d.
  Program& p = plan.programs[0];
  p.nodes[4].args[1].slot = kA;
  p.slots[kD].arena_offset = 768;
  p.arena_bytes = 1024;
  const Result<> result = check_plan(plan, "m.gmp");
  EXPECT_TRUE(result) << result.error().to_string();
}

TEST(PlanCheck, PeakIsRoundedUpToTheAlignment) {
  Plan plan = sample_plan();
  Program& p = plan.programs[0];
  p.slots[kB].shape = p.slots[kC].shape = {SymExpr::symbol("seqs"), 15};  // 480 bytes
  const Result<> result = check_plan(plan, "m.gmp");
  EXPECT_TRUE(result) << result.error().to_string();
}

TEST(PlanCheck, ThousandsOfNodesAreCheckedQuickly) {
  Plan plan = sample_plan();
  Program& p = plan.programs[0];
  // widen and step in turn, with slots that take each other's place.
  const Slot b = p.slots[kB];
  const Node step = p.nodes[2];
  p.nodes.resize(2);
  uint32_t last = kB;
  constexpr uint32_t kCount = 5000;
  for (uint32_t i = 0; i < kCount; ++i) {
    Slot slot = b;
    slot.name = fmt::format("x{}", i);
    p.slots.push_back(slot);
    const auto index = static_cast<uint32_t>(p.slots.size() - 1);
    Node node = step;
    node.args[0].slot = last;
    node.args[2].slot = index;
    node.after = {static_cast<uint32_t>(p.nodes.size() - 1)};
    node.in_place = {{index, last}};
    p.nodes.push_back(node);
    last = index;
  }
  p.nodes.push_back(sample_plan().programs[0].nodes[4]);
  p.nodes.back().args[0].slot = last;
  p.nodes.back().after = {kCount + 1};
  Result<> result = check_plan(plan, "m.gmp");
  EXPECT_TRUE(result) << result.error().to_string();
  p.nodes[kCount / 2].in_place.clear();
  result = check_plan(plan, "m.gmp");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::plan_overlap);
}

}  // namespace
}  // namespace gm
