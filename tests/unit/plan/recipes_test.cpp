// Recipes of weights as the plan file keeps them.
#include <gtest/gtest.h>

#include "plan/check.h"
#include "plan/plan_file.h"
#include "sample_plan.h"

namespace gm {
namespace {

using test::sample_plan;

TEST(Recipes, SeriesAndGroupsAreKept) {
  Plan plan = sample_plan();
  plan.weights[2].parts = {{.tensor = "up.*.weight", .stored_shape = {16, 16}, .series = 2},
                           {.tensor = "down.weight",
                            .stored_shape = {6, 16},
                            .panel_offset = 1,
                            .groups = 3,
                            .ranges = {{1, 2}}}};
  const auto checked = check_plan(plan, "m.gmp");
  ASSERT_TRUE(checked) << checked.error().to_string();
  const auto bytes = serialize_plan(plan);
  ASSERT_TRUE(bytes) << bytes.error().to_string();
  const auto back = parse_plan(*bytes, "m.gmp");
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->weights, plan.weights);
}

// What the file says of a part is what a part may say, and nothing else.
TEST(Recipes, FaultsOfFieldsAreLocated) {
  Plan plan = sample_plan();
  WeightPart& part = plan.weights[0].parts[0];
  part.groups = 2;
  part.ranges = {{0, 32}};
  EXPECT_EQ(part_shape(part), (std::vector<int64_t>{64, 16}));
  EXPECT_EQ(part_tensor(part, 0), "embed_tokens.weight");
  ASSERT_TRUE(check_plan(plan, "m.gmp"));
  part.ranges = {{0, 31}, {31, 33}};
  const auto outside = check_plan(plan, "m.gmp");
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().code, Code::plan_recipe);
  EXPECT_EQ(outside.error().location.to_string(), "m.gmp: weights.json: weights[0]");
  part = {.tensor = "experts.*.weight", .stored_shape = {16, 16}, .series = 4};
  EXPECT_EQ(part_shape(part), (std::vector<int64_t>{4, 16, 16}));
  EXPECT_EQ(part_tensor(part, 3), "experts.3.weight");
}

}  // namespace
}  // namespace gm
