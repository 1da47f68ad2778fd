#include "tools/common/open_instance.h"

#include <charconv>

#include "runtime/native_library.h"
#include "tools/common/interpreter_library.h"

namespace gm {

void ExecutorFlags::add(CLI::App& command) {
  command
      .add_option("--executor", executor,
                  "native: the plan's own code; interpreter: its kernels' text")
      ->capture_default_str();
  command.add_option("--threads", threads, "0: as many as the machine has")
      ->capture_default_str()
      ->type_name("N");
  command
      .add_option("--memory-limit", memory_limit,
                  "refuse to use more memory than this (512M, 2G); without it, what is free")
      ->type_name("BYTES");
}

Result<int64_t> parse_bytes(std::string_view option, std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, value);
  std::string_view unit(stop, static_cast<size_t>(end - stop));
  if (unit.ends_with("iB")) unit.remove_suffix(2);
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (fault != std::errc() || shift < 0 || value <= 0 || value > (INT64_MAX >> shift)) {
    return err(Code::command_line, {}, "give bytes, or a number with K, M or G behind it",
               "'{}' in {} is not a size", text, option);
  }
  return value << shift;
}

Result<std::unique_ptr<Instance>> open_instance(std::shared_ptr<const Plan> plan,
                                                const std::string& file, const std::string& weights,
                                                RunSizes sizes, const ExecutorFlags& flags,
                                                Progress& progress) {
  const std::vector<std::string> executors = {"native", "interpreter"};
  GM_TRY(one_of("--executor", flags.executor, executors));
  if (flags.threads < 0 || flags.threads > 1024) {
    return err(Code::command_line, {}, "give --threads a number from 0 to 1024",
               "--threads {} is out of range", flags.threads);
  }
  InstanceOptions options;
  if (!flags.memory_limit.empty()) {
    GM_ASSIGN(options.memory_budget, parse_bytes("--memory-limit", flags.memory_limit));
  }
  std::shared_ptr<KernelLibrary> library;
  if (flags.executor == "native") {
    GM_ASSIGN(library, load_native_library(*plan, file));
  } else {
    library = interpreter_library(plan, file);
  }
  sizes.threads = flags.threads;
  options.sizes = sizes;
  options.progress = [&](int64_t done, int64_t total) { progress.update("weights", done, total); };
  GM_ASSIGN(const SafeTensors tensors, SafeTensors::open_folder(weights));
  auto instance =
      Instance::create(std::move(plan), std::move(library), tensors, std::move(options));
  progress.end();
  return instance;
}

Result<std::optional<Tokenizer>> plan_tokenizer(const Plan& plan, const std::string& file) {
  if (plan.tokenizer.empty()) return std::optional<Tokenizer>();
  GM_ASSIGN(Tokenizer tokenizer, Tokenizer::parse(plan.tokenizer, file + ": tokenizer.json"));
  return std::optional<Tokenizer>(std::move(tokenizer));
}

}  // namespace gm
