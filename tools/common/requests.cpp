#include "tools/common/requests.h"

#include <algorithm>

#include "base/json.h"
#include "base/mapped_file.h"
#include "ir/nearest.h"

namespace gm {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 40;

Result<Request> parse_request(std::string_view line, const Location& where,
                              const Tokenizer* tokenizer, int64_t max_tokens) {
  const std::string place = where.to_string();
  GM_ASSIGN(const Json json, parse_json(line, place));
  const JsonView view(json, place);
  GM_ASSIGN(const auto members, view.members());
  const std::vector<std::string> known = {"ids", "prompt", "max_tokens"};
  for (const auto& [key, value] : members) {
    if (std::ranges::find(known, key) != known.end()) continue;
    return err(Code::json_field, value.where(),
               fmt::format("did you mean '{}'? a request has ids or prompt, and max_tokens",
                           nearest_name(key, known)),
               "a request has no field '{}'", key);
  }
  if (const auto limit = view.find("max_tokens")) {
    GM_ASSIGN(max_tokens, limit->integer(0, kMostTokens));
  }
  const auto ids = view.find("ids"), prompt = view.find("prompt");
  if (ids.has_value() == prompt.has_value()) {
    return err(Code::json_field, where, "give each request one of the two",
               "a request has either ids or a prompt");
  }
  if (prompt) {
    GM_ASSIGN(const std::string text, prompt->string());
    return prompt_request(text, tokenizer, max_tokens, prompt->where());
  }
  Request request{.ids = {}, .max_tokens = max_tokens};
  GM_ASSIGN(const std::vector<JsonView> items, ids->items());
  for (const JsonView& item : items) {
    GM_ASSIGN(const int64_t id, item.integer(0, INT32_MAX));
    request.ids.push_back(static_cast<int32_t>(id));
  }
  return request;
}

}  // namespace

Result<Request> prompt_request(std::string_view prompt, const Tokenizer* tokenizer,
                               int64_t max_tokens, const Location& where) {
  if (tokenizer == nullptr) {
    return err(Code::command_line, where,
               "give ids, or compile a checkpoint that has a tokenizer.json",
               "the plan has no tokenizer, so it cannot take a prompt as text");
  }
  Request request{.ids = {}, .max_tokens = max_tokens};
  GM_ASSIGN(request.ids, tokenizer->encode(prompt));
  return request;
}

Result<std::vector<Request>> read_requests(const std::filesystem::path& file,
                                           const Tokenizer* tokenizer, int64_t max_tokens) {
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
                                             tokenizer, max_tokens));
    requests.push_back(std::move(request));
  }
  if (requests.empty())
    return err(Code::request_prompt, Location::of_file(file.string()),
               "put a JSON object on each line", "the file has no request");
  return requests;
}

}  // namespace gm
