// What `run` is asked to continue: one prompt, one list of ids, or a file with a JSON object a
// line:
//   {"prompt": "..", "max_tokens": 16}
//   {"ids": [1, 2, 3]}
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "runtime/generator.h"

namespace gm {

// `max_tokens` is for lines that do not say. A plan without a tokenizer takes ids only. Errors name
// the line.
Result<std::vector<Request>> read_requests(const std::filesystem::path& file,
                                           const Tokenizer* tokenizer, int64_t max_tokens);
Result<Request> prompt_request(std::string_view prompt, const Tokenizer* tokenizer,
                               int64_t max_tokens, const Location& where);

}  // namespace gm
