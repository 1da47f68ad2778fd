#include "tools/common/requests.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/mapped_file.h"
#include "ir/nearest.h"
#include "runtime/chat.h"

namespace gm {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 40;

const std::vector<std::string> kFields = {"ids",
                                          "prompt",
                                          "messages",
                                          "chat_template_kwargs",
                                          "max_tokens",
                                          "temperature",
                                          "top_k",
                                          "top_p",
                                          "min_p",
                                          "presence_penalty",
                                          "frequency_penalty",
                                          "repetition_penalty",
                                          "seed",
                                          "stop",
                                          "ignore_eos",
                                          "logprobs"};

Result<> known_fields(const JsonView& view, const std::vector<std::string>& known,
                      std::string_view what) {
  GM_ASSIGN(const auto members, view.members());
  for (const auto& [key, value] : members) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string nearest = nearest_name(key, known);
    return err(Code::json_field, value.where(),
               nearest.empty() ? fmt::format("the fields are {}", fmt::join(known, ", "))
                               : fmt::format("did you mean '{}'? the fields are {}", nearest,
                                             fmt::join(known, ", ")),
               "{} has no field '{}'", what, key);
  }
  return {};
}

Result<std::vector<int32_t>> prompt_ids(std::string_view prompt, const Tokenizer* tokenizer,
                                        const RequestDefaults& defaults, const Location& where) {
  if (tokenizer == nullptr) {
    return err(Code::command_line, where,
               "give ids, or compile a checkpoint that has a tokenizer.json",
               "the plan has no tokenizer, so it cannot take a prompt as text");
  }
  if (!defaults.chat) return tokenizer->encode(prompt);
  return encode_chat(
      *tokenizer, {.system = defaults.system, .user = std::string(prompt), .think = defaults.think},
      where);
}

// {"role": "user", "content": ".."}, and perhaps one of the role system before it.
Result<std::string> read_messages(const JsonView& messages, RequestDefaults& chat) {
  GM_ASSIGN(const std::vector<JsonView> items, messages.items());
  std::optional<std::string> user;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::vector<std::string> fields = {"role", "content"};
    GM_TRY(known_fields(items[i], fields, "a message"));
    GM_ASSIGN(const JsonView role_view, items[i].at("role"));
    GM_ASSIGN(const std::string role, role_view.string());
    GM_ASSIGN(const JsonView content_view, items[i].at("content"));
    GM_ASSIGN(std::string content, content_view.string());
    if (role == "system" && i == 0) {
      chat.system = std::move(content);
    } else if (role == "user" && i + 1 == items.size()) {
      user = std::move(content);
    } else {
      return err(Code::json_field, role_view.where(),
                 "give one message of the role user, and before it at most one of the role system",
                 "a message of the role '{}' cannot stand here", role);
    }
  }
  if (user) return *std::move(user);
  return err(Code::json_field, messages.where(), "end the messages with one of the role user",
             "there is no message of the role user");
}

Result<> read_sampling(const JsonView& view, SamplingParams& s, bool temperature_given) {
  const std::pair<const char*, double*> numbers[] = {{"temperature", &s.temperature},
                                                     {"top_p", &s.top_p},
                                                     {"min_p", &s.min_p},
                                                     {"presence_penalty", &s.presence_penalty},
                                                     {"frequency_penalty", &s.frequency_penalty},
                                                     {"repetition_penalty", &s.repetition_penalty}};
  for (const auto& [name, value] : numbers) {
    if (const auto field = view.find(name)) {
      GM_ASSIGN(*value, field->number());
    }
  }
  const std::pair<const char*, int64_t*> integers[] = {{"top_k", &s.top_k}, {"seed", &s.seed}};
  for (const auto& [name, value] : integers) {
    if (const auto field = view.find(name)) {
      GM_ASSIGN(*value, field->integer());
    }
  }
  if (temperature_given || view.find("temperature")) return {};
  for (const char* filter : {"top_k", "top_p", "min_p", "seed"}) {
    const auto field = view.find(filter);
    if (!field) continue;
    return err(Code::request_sampling, field->where(),
               "give the request a temperature too, such as \"temperature\": 0.7",
               "{} has no effect without a temperature: the likeliest token is taken", filter);
  }
  return {};
}

Result<> read_options(const JsonView& view, Request& request, const RequestDefaults& defaults) {
  if (const auto limit = view.find("max_tokens")) {
    GM_ASSIGN(request.max_tokens, limit->integer(0, kMostTokens));
  }
  GM_TRY(read_sampling(view, request.sampling, defaults.temperature_given));
  if (const auto stop = view.find("stop")) {
    request.stop.clear();
    if (stop->json().is_string()) {
      GM_ASSIGN(std::string text, stop->string());
      request.stop.push_back(std::move(text));
    } else {
      GM_ASSIGN(const std::vector<JsonView> items, stop->items());
      for (const JsonView& item : items) {
        GM_ASSIGN(std::string text, item.string());
        request.stop.push_back(std::move(text));
      }
    }
  }
  if (const auto ignore = view.find("ignore_eos")) {
    GM_ASSIGN(request.ignore_stop, ignore->boolean());
  }
  if (const auto logprobs = view.find("logprobs")) {
    GM_ASSIGN(request.logprobs, logprobs->integer());
  }
  const SamplingNames names{.where =
                                [&](std::string_view field) {
                                  const auto value = view.find(field);
                                  return value ? value->where() : view.where();
                                },
                            .named = [](std::string_view field) { return std::string(field); }};
  GM_TRY(check_sampling(request.sampling, names));
  GM_TRY(check_stop_strings(request.stop, names));
  if (request.logprobs) GM_TRY(check_logprobs(*request.logprobs, names));
  return {};
}

Result<Request> parse_request(std::string_view line, const Location& where,
                              const Tokenizer* tokenizer, RequestDefaults defaults) {
  const std::string place = where.to_string();
  GM_ASSIGN(const Json json, parse_json(line, place));
  const JsonView view(json, place);
  GM_TRY(known_fields(view, kFields, "a request"));
  Request request = defaults.request;
  GM_TRY(read_options(view, request, defaults));
  const auto ids = view.find("ids"), prompt = view.find("prompt"), messages = view.find("messages");
  if (ids.has_value() + prompt.has_value() + messages.has_value() != 1) {
    return err(Code::json_field, where, "give each request one of the three",
               "a request has either ids, a prompt or messages");
  }
  if (messages) defaults.chat = true;
  if (const auto options = view.find("chat_template_kwargs")) {
    if (!defaults.chat) {
      return err(Code::json_field, options->where(), "give messages, or --chat",
                 "chat_template_kwargs have no effect on what is not framed as a chat");
    }
    const std::vector<std::string> fields = {"enable_thinking"};
    GM_TRY(known_fields(*options, fields, "chat_template_kwargs"));
    if (const auto think = options->find("enable_thinking")) {
      GM_ASSIGN(defaults.think, think->boolean());
    }
  }
  if (messages) {
    GM_ASSIGN(const std::string text, read_messages(*messages, defaults));
    GM_ASSIGN(request.ids, prompt_ids(text, tokenizer, defaults, messages->where()));
    return request;
  }
  if (prompt) {
    GM_ASSIGN(const std::string text, prompt->string());
    GM_ASSIGN(request.ids, prompt_ids(text, tokenizer, defaults, prompt->where()));
    return request;
  }
  if (defaults.chat) {
    return err(Code::json_field, ids->where(), "give a prompt, or leave --chat out",
               "--chat frames a text, but this request has ids");
  }
  GM_ASSIGN(const std::vector<JsonView> items, ids->items());
  for (const JsonView& item : items) {
    GM_ASSIGN(const int64_t id, item.integer(0, INT32_MAX));
    request.ids.push_back(static_cast<int32_t>(id));
  }
  return request;
}

}  // namespace

Result<Request> prompt_request(std::string_view prompt, const Tokenizer* tokenizer,
                               const RequestDefaults& defaults, const Location& where) {
  Request request = defaults.request;
  GM_ASSIGN(request.ids, prompt_ids(prompt, tokenizer, defaults, where));
  return request;
}

Result<std::vector<Request>> read_requests(const std::filesystem::path& file,
                                           const Tokenizer* tokenizer,
                                           const RequestDefaults& defaults) {
  GM_ASSIGN(const std::string text, read_text_file(file));
  std::vector<Request> requests;
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    ++number;
    at = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    GM_ASSIGN(Request request, parse_request(line, Location::of_text(file.string(), number, 0),
                                             tokenizer, defaults));
    requests.push_back(std::move(request));
  }
  if (requests.empty())
    return err(Code::request_prompt, Location::of_file(file.string()),
               "put a JSON object on each line", "the file has no request");
  return requests;
}

}  // namespace gm
