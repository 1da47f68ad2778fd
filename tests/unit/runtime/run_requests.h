// Requests to their ends, as tests of the generator want it.
#pragma once

#include <gtest/gtest.h>

#include "runtime/generator.h"

namespace gm::test {

// Empty completions if something fails, and then the test fails too.
inline std::vector<Completion> run_requests(Instance& instance,
                                            const std::vector<Request>& requests,
                                            GeneratorOptions options = {}) {
  auto generator = Generator::create(instance, std::move(options));
  EXPECT_TRUE(generator) << generator.error().to_string();
  auto result = generator->run(requests);
  EXPECT_TRUE(result) << result.error().to_string();
  return result ? *std::move(result) : std::vector<Completion>(requests.size());
}

}  // namespace gm::test
