// From a plan and a folder of weights to something that runs, by the options that `run` and `check`
// share.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/instance.h"
#include "runtime/tokenizer.h"
#include "tools/common/output.h"
#include "tools/common/program.h"

namespace gm {

struct ExecutorFlags {
  std::string executor = "native", memory_limit;
  int threads = 0;

  void add(CLI::App& command);
};

// `file` is the plan's name in messages. `sizes.threads` comes from the flags.
Result<std::unique_ptr<Instance>> open_instance(std::shared_ptr<const Plan> plan,
                                                const std::string& file, const std::string& weights,
                                                RunSizes sizes, const ExecutorFlags& flags,
                                                Progress& progress);

// The tokenizer that the plan carries, if it does.
Result<std::optional<Tokenizer>> plan_tokenizer(const Plan& plan, const std::string& file);

// "512M", "2G", "1000000": bytes.
Result<int64_t> parse_bytes(std::string_view option, std::string_view text);

}  // namespace gm
