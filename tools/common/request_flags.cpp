#include "tools/common/request_flags.h"

#include <algorithm>

#include "tools/common/program.h"

namespace gm {

void RequestFlags::add(CLI::App& command) {
  SamplingParams& s = request_.sampling;
  command.add_option("-n,--tokens", request_.max_tokens, "generate this many tokens at most")
      ->capture_default_str()
      ->type_name("N");
  temperature_ = command
                     .add_option("--temperature", s.temperature,
                                 "0: the likeliest token; else logits are divided by it")
                     ->capture_default_str()
                     ->type_name("T");
  filters_ = {
      command.add_option("--top-k", s.top_k, "choose among the K likeliest tokens; 0: among all")
          ->capture_default_str()
          ->type_name("K"),
      command.add_option("--top-p", s.top_p, "among the likeliest that have P of all probability")
          ->capture_default_str()
          ->type_name("P"),
      command
          .add_option("--min-p", s.min_p,
                      "among those that have P of the likeliest one's probability")
          ->capture_default_str()
          ->type_name("P"),
      command.add_option("--seed", s.seed, "equal seeds give equal texts")
          ->capture_default_str()
          ->type_name("N")};
  command
      .add_option("--presence-penalty", s.presence_penalty,
                  "taken from the logits of tokens that were generated")
      ->capture_default_str()
      ->type_name("X");
  command
      .add_option("--frequency-penalty", s.frequency_penalty,
                  "taken from their logits for each time they were generated")
      ->capture_default_str()
      ->type_name("X");
  command
      .add_option("--repetition-penalty", s.repetition_penalty,
                  "divides positive logits of tokens seen, in the prompt too")
      ->capture_default_str()
      ->type_name("X");
  // One text each time it is given: a text may have commas, and the plan's name may follow it.
  command.add_option("--stop", request_.stop, "end before this text; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command.add_flag("--ignore-eos", request_.ignore_stop, "go on after a token that ends a text");
  has_logprobs_ =
      command
          .add_option("--logprobs", logprobs_,
                      "log-probabilities of each token and of the N likeliest; in --json")
          ->type_name("N");
  command.add_flag("--chat", chat_, "frame the prompt as the user's turn of a chat");
  has_think_ = command
                   .add_option("--think", think_,
                               "of a chat: whether the model reasons before it answers: on, off")
                   ->capture_default_str();
  has_system_ = command.add_option("--system", system_, "of a chat: the system's turn before it")
                    ->type_name("TEXT");
}

Result<RequestDefaults> RequestFlags::defaults(bool file) const {
  if (request_.max_tokens < 0)
    return err(Code::command_line, {}, "give -n a number of tokens", "-n {} is negative",
               request_.max_tokens);
  const SamplingNames names{.where = [](std::string_view) { return Location{}; },
                            .named =
                                [](std::string_view field) {
                                  std::string flag = fmt::format("--{}", field);
                                  std::ranges::replace(flag, '_', '-');
                                  return flag;
                                }};
  GM_TRY(check_sampling(request_.sampling, names));
  GM_TRY(check_stop_strings(request_.stop, names));
  RequestDefaults defaults{.request = request_,
                           .temperature_given = given(temperature_),
                           .chat = chat_,
                           .think = think_ == "on",
                           .system = {}};
  if (given(has_logprobs_)) {
    GM_TRY(check_logprobs(logprobs_, names));
    defaults.request.logprobs = logprobs_;
  }
  if (!file && !given(temperature_)) {
    for (const CLI::Option* filter : filters_) {
      if (!given(filter)) continue;
      return err(Code::command_line, {}, "give --temperature too, such as --temperature 0.7",
                 "{} has no effect without --temperature: the likeliest token is taken",
                 filter->get_name());
    }
  }
  const std::vector<std::string> known = {"on", "off"};
  GM_TRY(one_of("--think", think_, known));
  for (const CLI::Option* option : {has_think_, has_system_}) {
    if (chat_ || !given(option)) continue;
    return err(Code::command_line, {}, "give --chat too", "{} has no effect without --chat",
               option->get_name());
  }
  if (given(has_system_)) defaults.system = system_;
  return defaults;
}

}  // namespace gm
