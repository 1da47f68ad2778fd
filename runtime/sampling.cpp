#include "runtime/sampling.h"

#include <cmath>

#include "runtime/byte_level.h"

namespace gm {
namespace {

struct Bounds {
  std::string_view field;
  double value;
  bool allowed;
  std::string_view range;
};

}  // namespace

Result<> check_sampling(const SamplingParams& p, const SamplingNames& names) {
  // Written so that what is not a number is out of every range.
  const auto within = [](double value, double lo, double hi) { return value >= lo && value <= hi; };
  const Bounds bounds[] = {
      {"temperature", p.temperature, p.temperature == 0 || within(p.temperature, 0.01, 100),
       "0, which takes the likeliest token, or a number from 0.01 to 100"},
      {"top_p", p.top_p, p.top_p > 0 && p.top_p <= 1, "a number above 0, up to 1"},
      {"min_p", p.min_p, within(p.min_p, 0, 1), "a number from 0 to 1"},
      {"presence_penalty", p.presence_penalty, within(p.presence_penalty, -2, 2),
       "a number from -2 to 2"},
      {"frequency_penalty", p.frequency_penalty, within(p.frequency_penalty, -2, 2),
       "a number from -2 to 2"},
      {"repetition_penalty", p.repetition_penalty, within(p.repetition_penalty, 0.01, 100),
       "a number from 0.01 to 100; 1 is none"},
  };
  for (const Bounds& b : bounds) {
    if (b.allowed) continue;
    return err(Code::request_sampling, names.where(b.field), fmt::format("give {}", b.range),
               "{} cannot be {}", names.named(b.field), b.value);
  }
  if (p.top_k < -1 || p.top_k > INT32_MAX) {
    return err(Code::request_sampling, names.where("top_k"),
               fmt::format("give a number of tokens from 1 to {}, or 0 for all", INT32_MAX),
               "{} cannot be {}", names.named("top_k"), p.top_k);
  }
  if (p.seed < 0) {
    return err(Code::request_sampling, names.where("seed"),
               fmt::format("give an integer from 0 to {}", INT64_MAX), "{} cannot be {}",
               names.named("seed"), p.seed);
  }
  return {};
}

Result<> check_logprobs(int64_t count, const SamplingNames& names) {
  if (count >= 0 && count <= kMostLogprobs) return {};
  return err(
      Code::request_sampling, names.where("logprobs"),
      fmt::format("give a number of tokens from 0, for the chosen one alone, to {}", kMostLogprobs),
      "{} cannot be {}", names.named("logprobs"), count);
}

Result<> check_stop_strings(const std::vector<std::string>& stop, const SamplingNames& names) {
  if (stop.size() > kMostStopStrings) {
    return err(Code::request_sampling, names.where("stop"),
               fmt::format("give {} at most", kMostStopStrings), "there are {} stop strings",
               stop.size());
  }
  for (const std::string& text : stop) {
    if (text.empty() || text.size() > kMostStopBytes) {
      return err(Code::request_sampling, names.where("stop"),
                 fmt::format("give a text of 1 to {} bytes", kMostStopBytes),
                 "a stop string cannot have {} bytes", text.size());
    }
    if (const auto bad = utf8_error_offset(text)) {
      return err(Code::request_sampling, names.where("stop"), "give the text as UTF-8",
                 "a stop string is not valid UTF-8 at byte {}", *bad);
    }
  }
  return {};
}

}  // namespace gm
