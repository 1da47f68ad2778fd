#include "compiler/compile.h"

#include <gtest/gtest.h>

namespace gm {
namespace {

TEST(Compile, GoldenModelsReachThePlan) {
  for (const char* name : {"dense-tiny", "dense-odd", "moe-tiny"}) {
    const auto model = import_checkpoint(std::string(GRAPHMILL_SOURCE_DIR "/tests/golden/") + name);
    ASSERT_TRUE(model) << model.error().to_string();
    for (bool fusion : {false, true}) {
      CompileOptions options;
      options.fusion = fusion;
      options.native = false;
      options.check_outputs = true;
      const auto result = compile_model(*model, options);
      ASSERT_TRUE(result) << name << (fusion ? " fused\n" : " unfused\n")
                          << result.error().to_string();
      ASSERT_TRUE(result->plan);
    }
  }
}

}  // namespace
}  // namespace gm
