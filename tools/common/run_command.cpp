#include "tools/common/run_command.h"

#include <algorithm>
#include <chrono>
#include <span>

#include "plan/plan_file.h"
#include "runtime/byte_level.h"
#include "runtime/generator.h"
#include "runtime/npy.h"
#include "tools/common/open_instance.h"
#include "tools/common/request_flags.h"
#include "tools/common/requests.h"

namespace gm {
namespace {

struct RunFlags {
  std::string plan, weights, prompt, ids, requests, prefill_chunk, logits_out,
      logits_rows = "sampled";
  CLI::Option* has_prompt = nullptr;
  CLI::Option* has_ids = nullptr;
  CLI::Option* has_requests = nullptr;
  RequestFlags how;
  ExecutorFlags executor;
  int64_t kv_tokens = 0;
  CLI::Option* has_kv_tokens = nullptr;
  bool json = false, quiet = false;
};

Result<std::vector<Request>> requests_of(const RunFlags& flags, const Tokenizer* tokenizer) {
  const bool prompt = flags.has_prompt->count() > 0, ids = flags.has_ids->count() > 0,
             file = flags.has_requests->count() > 0;
  if (prompt + ids + file != 1) {
    return err(Code::command_line, {}, "see `--help`",
               "give one of --prompt, --ids and --requests");
  }
  GM_ASSIGN(const RequestDefaults defaults, flags.how.defaults(file));
  if (file) return read_requests(flags.requests, tokenizer, defaults);
  if (prompt) {
    GM_ASSIGN(Request request,
              prompt_request(flags.prompt, tokenizer, defaults, Location::of_path("", "--prompt")));
    return std::vector<Request>{std::move(request)};
  }
  if (defaults.chat) {
    return err(Code::command_line, {}, "give --prompt instead of --ids, or leave --chat out",
               "--chat frames a text, but --ids are tokens already");
  }
  Request request = defaults.request;
  GM_ASSIGN(const std::vector<int64_t> given, integer_list("--ids", flags.ids, 0, INT32_MAX));
  request.ids.assign(given.begin(), given.end());
  return std::vector<Request>{std::move(request)};
}

// What can be said about requests before any weight is read.
Result<> check_requests(const Plan& plan, std::span<const Request> requests, bool tokenizer,
                        bool json) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests[i];
    GM_TRY(check_request(plan, request, i));
    if (!request.stop.empty() && !tokenizer) {
      return err(Code::request_sampling, {},
                 "compile a checkpoint that has a tokenizer.json, or give no stop strings",
                 "the plan has no tokenizer, so there is no text to stop at");
    }
    if (request.logprobs && !json) {
      return err(Code::command_line, {}, "give --json too",
                 "log-probabilities are a part of the result of --json");
    }
  }
  return {};
}

Json token_json(const TokenLogprob& token, const Tokenizer* tokenizer) {
  Json json = {{"id", token.id}};
  if (tokenizer != nullptr) json["token"] = utf8_lossy(tokenizer->token_bytes(token.id));
  json["logprob"] = token.logprob;
  return json;
}

Json logprobs_json(const std::vector<TokenLogprobs>& tokens, const Tokenizer* tokenizer) {
  Json all = Json::array();
  for (const TokenLogprobs& token : tokens) {
    Json json = token_json(token.chosen, tokenizer);
    json["top_logprobs"] = Json::array();
    for (const TokenLogprob& other : token.top)
      json["top_logprobs"].push_back(token_json(other, tokenizer));
    all.push_back(std::move(json));
  }
  return all;
}

Json result_json(std::span<const Request> requests, const std::vector<Completion>& completions,
                 const GenerateStats& stats, const Tokenizer* tokenizer) {
  Json results = Json::array();
  for (size_t i = 0; i < completions.size(); ++i) {
    const Completion& c = completions[i];
    results.push_back({{"ids", c.ids}, {"text", c.text}, {"finish", c.finish}});
    if (requests[i].logprobs) results.back()["logprobs"] = logprobs_json(c.logprobs, tokenizer);
  }
  return {{"requests", std::move(results)},
          {"stats",
           {{"steps", stats.steps},
            {"decode_steps", stats.decode_steps},
            {"mixed_steps", stats.mixed_steps},
            {"prompt_tokens", stats.prompt_tokens},
            {"generated_tokens", stats.generated_tokens}}}};
}

Result<> write_logits(const std::string& path, const Plan& plan,
                      const std::vector<Completion>& completions) {
  std::vector<float> all;
  int64_t rows = 0;
  for (const Completion& c : completions) {
    all.insert(all.end(), c.logits.begin(), c.logits.end());
    rows += c.logit_rows;
  }
  const int64_t shape[] = {rows, plan.model.vocab};
  return write_npy(path, shape, all);
}

// One prompt's text appears as it is made; of several, each with its number when all are done.
// Without a tokenizer the ids stand for the text.
void print_completions(const std::vector<Completion>& completions, bool text) {
  for (size_t i = 0; i < completions.size(); ++i) {
    const Completion& c = completions[i];
    const std::string lead = completions.size() == 1 ? "" : fmt::format("[{}] ", i);
    print_text(text ? fmt::format("{}{}\n", lead, c.text)
                    : fmt::format("{}{}\n", lead, fmt::join(c.ids, ",")));
  }
}

Result<Exit> run(const RunFlags& flags) {
  const std::vector<std::string> rows = {"sampled", "all"};
  GM_TRY(one_of("--logits-rows", flags.logits_rows, rows));
  GM_ASSIGN(Plan read, read_plan(flags.plan));
  const auto plan = std::make_shared<const Plan>(std::move(read));
  GM_ASSIGN(const std::optional<Tokenizer> tokenizer, plan_tokenizer(*plan, flags.plan));
  const Tokenizer* const words = tokenizer ? &*tokenizer : nullptr;
  GM_ASSIGN(const std::vector<Request> requests, requests_of(flags, words));
  GM_TRY(check_requests(*plan, requests, words != nullptr, flags.json));

  GeneratorOptions options{
      .prefill_chunk = {}, .capture = Capture::none, .tokenizer = words, .on_token = {}};
  if (!flags.prefill_chunk.empty()) {
    GM_ASSIGN(options.prefill_chunk,
              integer_list("--prefill-chunk", flags.prefill_chunk, 1, INT32_MAX));
  }
  RunSizes sizes;
  sizes.slots = std::min(plan->limits.max_seqs, static_cast<int64_t>(requests.size()));
  if (flags.has_kv_tokens->count() > 0) {
    if (flags.kv_tokens < 1) {
      return err(Code::command_line, {}, "give a number of tokens, 1 or more",
                 "--kv-tokens cannot be {}", flags.kv_tokens);
    }
    const int64_t each = plan->limits.page_tokens;
    sizes.pages = flags.kv_tokens / each + (flags.kv_tokens % each != 0 ? 1 : 0);
  }
  if (!flags.logits_out.empty())
    options.capture = flags.logits_rows == "all" ? Capture::all : Capture::sampled;
  if (options.capture == Capture::all) sizes.rows = plan->limits.max_tokens;
  const bool stream = requests.size() == 1 && words != nullptr && !flags.json;
  if (stream) {
    options.on_token = [](size_t, std::optional<int32_t>, std::string_view text) {
      print_text(text);
      std::fflush(stdout);
    };
  }

  Progress progress(flags.quiet);
  GM_ASSIGN(const std::unique_ptr<Instance> instance,
            open_instance(plan, flags.plan, flags.weights, sizes, flags.executor, progress));
  GM_ASSIGN(Generator generator, Generator::create(*instance, std::move(options)));
  const auto start = std::chrono::steady_clock::now();
  GM_ASSIGN(const std::vector<Completion> completions, generator.run(requests));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  if (!flags.logits_out.empty()) GM_TRY(write_logits(flags.logits_out, *plan, completions));
  const GenerateStats& stats = generator.stats();
  if (flags.json) {
    print_json(result_json(requests, completions, stats, words));
  } else if (stream) {
    print_text("\n");
  } else {
    print_completions(completions, words != nullptr);
  }
  std::fflush(stdout);
  progress.line(fmt::format(
      "{} prompt and {} generated tokens in {} step{}, {:.2f} s ({:.1f} tokens/s)",
      stats.prompt_tokens, stats.generated_tokens, stats.steps, stats.steps == 1 ? "" : "s",
      seconds,
      static_cast<double>(stats.prompt_tokens + stats.generated_tokens) / std::max(seconds, 1e-9)));
  return Exit::ok;
}

}  // namespace

void add_run(ProgramLine& program) {
  const auto flags = std::make_shared<RunFlags>();
  CLI::App& command =
      program.command("run", "continue prompts with a plan",
                      "run qwen.plan --weights qwen3.5-0.8b/ --prompt 'The sea is' -n 32",
                      [flags] { return run(*flags); });
  command.add_option("PLAN", flags->plan, "a plan file")->required();
  command.add_option("--weights", flags->weights, "the folder of the checkpoint")
      ->required()
      ->type_name("FOLDER");
  flags->has_prompt = command.add_option("--prompt", flags->prompt, "the text to continue");
  flags->has_ids =
      command.add_option("--ids", flags->ids, "the token ids to continue")->type_name("1,2,3");
  flags->has_requests =
      command
          .add_option("--requests", flags->requests,
                      "a JSON object a line: prompt, ids or messages, and options")
          ->type_name("FILE.jsonl");
  flags->how.add(command);
  command.add_flag(
      "--json", flags->json,
      "print {\"requests\": [{\"ids\", \"text\", \"finish\", \"logprobs\"}], \"stats\"}");
  flags->has_kv_tokens =
      command
          .add_option("--kv-tokens", flags->kv_tokens, "tokens that the cache has room for in all")
          ->type_name("N");
  command
      .add_option("--prefill-chunk", flags->prefill_chunk,
                  "sizes of the pieces that prompts are read in, over and over")
      ->type_name("1,2,63");
  command.add_option("--logits-out", flags->logits_out, "write logits as f32[rows, vocabulary]")
      ->type_name("F.npy");
  command
      .add_option("--logits-rows", flags->logits_rows,
                  "sampled: of each generated token; all: also of each prompt token")
      ->capture_default_str();
  flags->executor.add(command);
  command.add_flag("--quiet", flags->quiet, "print nothing but results and errors");
}

}  // namespace gm
