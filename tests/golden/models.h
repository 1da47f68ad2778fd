// The golden checkpoints as tests want them: compiled in memory, opened with a library of one's
// choice, their prompts read.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "runtime/generator.h"

namespace gm::golden {

// The value; an error ends the test with its text.
template <class T>
T need(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  return *std::move(result);
}

enum class Backend { native, interpreter };

std::string folder(const std::string& model);
std::vector<std::vector<int32_t>> prompts(const std::string& model);

// Compiled once for equal arguments, kept for the process.
std::shared_ptr<const Plan> plan(const std::string& model, DType dtype, bool fusion,
                                 const std::string& target);

struct How {
  std::string target = "cpu:v3";
  bool fusion = true;
  Backend backend = Backend::native;
  int threads = 1;
  std::vector<int64_t> prefill_chunk;
  bool batched = false;  // all requests at once; else one after the other
  bool poison = false;
};

// The logits of every prompt token and of every generated one, and the tokens, request by request.
struct Outcome {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<float>> logits;
};
Outcome generate(const std::string& model, DType dtype, const std::vector<Request>& requests,
                 const How& how);

}  // namespace gm::golden
