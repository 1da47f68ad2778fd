// L1: what fusion makes, what the verifier refuses, and the text of regions.
#include <gtest/gtest.h>

#include "compiler/fusion/rules.h"
#include "ir/graph_text.h"
#include "ir/region_text.h"
#include "ops/ops.h"

namespace gm {
namespace {

constexpr const char* kText = R"(graph @g {
  symbol tokens : tokens in [1, 64]
  input %x : bf16[tokens, 64]
  weight %norm : bf16[64] from "norm" [64]
  weight %wq : bf16[32, 64] from "q" [32, 64]
  weight %wk : bf16[32, 64] from "k" [32, 64]
  weight %wo : bf16[64, 32] from "o" [64, 32]
  %h = rms_norm(%x, %norm) {eps = 1e-06} : bf16[tokens, 64] @ "norm"
  %q = linear(%h, %wq) : bf16[tokens, 32] @ "q"
  %k = linear(%h, %wk) : bf16[tokens, 32] @ "k"
  %s = silu(%q) : bf16[tokens, 32] @ "s"
  %p = mul(%s, %k) : bf16[tokens, 32] @ "p"
  %o = linear(%p, %wo) : bf16[tokens, 64] @ "o"
  %y = add(%x, %o) : bf16[tokens, 64] @ "y"
  output y = %y
}
)";

Graph graph() {
  auto parsed = parse_graph(kText, "g.gm", builtin_ops());
  GM_CHECK(parsed.has_value(), "{}", parsed.error().to_string());
  return *std::move(parsed);
}

std::string names(const Graph& g, const Region& region) {
  std::string text;
  for (const Member& m : region.members)
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", g.value(g.op(m.op).outputs[0]).name,
                        to_string(m.role));
  return text;
}

TEST(Fuse, NormSiblingsEpilogueAndResidual) {
  const Graph g = graph();
  const Regions regions = fuse(g);
  ASSERT_TRUE(verify_regions(g, regions)) << verify_regions(g, regions).error().to_string();
  ASSERT_EQ(regions.regions.size(), 2u);
  EXPECT_EQ(names(g, regions.regions[0]), "h:prologue q:anchor k:anchor s:epilogue p:epilogue");
  EXPECT_EQ(names(g, regions.regions[1]), "o:anchor y:epilogue");
  EXPECT_EQ(regions.regions[0].name, "q+1");
  // Each edge between the two regions has one record, with a reason.
  int rejected = 0;
  for (const Decision& d : regions.ledger) rejected += d.verdict == Verdict::rejected ? 1 : 0;
  EXPECT_EQ(rejected, 1);
  EXPECT_EQ(regions.ledger.back().reason, Reason::producer_needs_whole_row);
}

TEST(Fuse, DecisionsDoNotDependOnNames) {
  std::string renamed = kText;
  for (const char* place : {"\"norm\"", "\"q\"", "\"k\"", "\"s\"", "\"p\"", "\"o\"", "\"y\""}) {
    for (size_t at = renamed.find(std::string("@ ") + place); at != std::string::npos;
         at = renamed.find(std::string("@ ") + place, at + 1)) {
      renamed.replace(at, std::string("@ ").size() + std::string(place).size(), "@ \"somewhere\"");
    }
  }
  auto other = parse_graph(renamed, "g.gm", builtin_ops());
  ASSERT_TRUE(other) << other.error().to_string();
  const Regions a = fuse(graph()), b = fuse(*other);
  ASSERT_EQ(a.ledger.size(), b.ledger.size());
  for (size_t i = 0; i < a.ledger.size(); ++i) EXPECT_EQ(a.ledger[i], b.ledger[i]);
}

TEST(Fuse, OffLeavesOneRegionAnOp) {
  const Graph g = graph();
  const Regions regions = form_regions(g);
  EXPECT_TRUE(verify_regions(g, regions));
  EXPECT_EQ(regions.regions.size(), g.ops().size());
  for (const Decision& d : regions.ledger) EXPECT_EQ(d.reason, Reason::pass_disabled);
}

struct Fault {
  const char* name;
  void (*damage)(Regions&);
  Code code;
  const char* text;
};

class RegionFaults : public testing::TestWithParam<Fault> {};

TEST_P(RegionFaults, AreFound) {
  const Graph g = graph();
  Regions regions = fuse(g);
  GetParam().damage(regions);
  const auto result = verify_regions(g, regions);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, GetParam().code) << result.error().to_string();
  EXPECT_NE(result.error().to_string().find(GetParam().text), std::string::npos)
      << result.error().to_string();
}

INSTANTIATE_TEST_SUITE_P(
    All, RegionFaults,
    testing::Values(
        Fault{"OpInNoRegion", [](Regions& r) { r.regions[1].members.pop_back(); },
              Code::region_partition, "no region holds 'y'"},
        Fault{"OpInTwoRegions",
              [](Regions& r) { r.regions[1].members.push_back(r.regions[0].members[0]); },
              Code::region_partition, "'norm' is in region 'q+1' too"},
        Fault{"EmptyRegion", [](Regions& r) { r.regions.push_back({"empty", {}}); },
              Code::region_partition, "the region has no op"},
        Fault{"UnknownOp",
              [](Regions& r) { r.regions[1].members.push_back({OpId{99}, Role::member}); },
              Code::region_partition, "op 99 does not exist"},
        Fault{"Order", [](Regions& r) { std::swap(r.regions[0], r.regions[1]); },
              Code::region_order, "which a later region computes"},
        // {h, q, k, s, p, y} and {o}: the first needs the second, which needs the first.
        Fault{"NotConvex",
              [](Regions& r) {
                r.regions[0].members.push_back(r.regions[1].members.back());
                r.regions[1].members.pop_back();
              },
              Code::region_order, "'y' needs 'o', which a later region computes"},
        Fault{"RejectedWithoutReason",
              [](Regions& r) { r.ledger.back().reason = Reason::saves_launch; },
              Code::region_ledger, "is rejected without a reason"},
        Fault{"LedgerLacksDecision",
              [](Regions& r) {
                std::erase_if(r.ledger,
                              [](const Decision& d) { return d.verdict == Verdict::accepted; });
              },
              Code::region_ledger, "replaying the ledger does not put"},
        Fault{"LedgerJoinsMore", [](Regions& r) { r.ledger.back().verdict = Verdict::accepted; },
              Code::region_ledger, "replaying the ledger does not put"},
        Fault{"LedgerNamesUnknownOp", [](Regions& r) { r.ledger[0].ops.push_back(OpId{99}); },
              Code::region_ledger, "names op 99"}),
    [](const testing::TestParamInfo<Fault>& fault) { return std::string(fault.param.name); });

TEST(RegionText, ReadsBackExactly) {
  const Graph g = graph();
  for (const Regions& regions : {fuse(g), form_regions(g)}) {
    const std::string text = print_regions(g, regions);
    const auto parsed = parse_regions(text, "r.gm", g);
    ASSERT_TRUE(parsed) << parsed.error().to_string();
    EXPECT_EQ(parsed->regions, regions.regions);
    EXPECT_EQ(parsed->ledger, regions.ledger);
    EXPECT_EQ(print_regions(g, *parsed), text);
  }
}

TEST(RegionText, MistakesAreLocated) {
  const Graph g = graph();
  struct Mistake {
    const char* text;
    Code code;
    int line, column;
    const char* message;
  };
  for (const Mistake& m :
       {Mistake{"regions {\n  region \"a\" generated { anchor %nope }\n}", Code::ir_name, 2, 33,
                "the graph has no value %nope"},
        Mistake{"regions {\n  region \"a\" generated { anchor %x }\n}", Code::ir_name, 2, 33,
                "no op computes %x"},
        Mistake{"regions {\n  region \"a\" generated { captain %q }\n}", Code::ir_syntax, 2, 26,
                "'captain' is no role"},
        Mistake{"regions {\n  accepted fuse why \"\" { %q }\n}", Code::ir_name, 2, 17,
                "'why' is no reason"},
        Mistake{"regions {\n  merge\n}", Code::ir_syntax, 2, 3,
                "'region', 'accepted', 'rejected' or '}'"},
        Mistake{"regions {", Code::ir_syntax, 1, 10, "'region', 'accepted', 'rejected' or '}'"}}) {
    const auto parsed = parse_regions(m.text, "r.gm", g);
    ASSERT_FALSE(parsed) << m.text;
    EXPECT_EQ(parsed.error().code, m.code) << parsed.error().to_string();
    EXPECT_EQ(parsed.error().location, Location::of_text("r.gm", m.line, m.column))
        << parsed.error().to_string();
    EXPECT_NE(parsed.error().message.find(m.message), std::string::npos)
        << parsed.error().to_string();
  }
}

}  // namespace
}  // namespace gm
