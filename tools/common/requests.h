// What `run` is asked to continue: one prompt, one list of ids, or a file with a JSON object a
// line:
//   {"prompt": "..", "max_tokens": 16, "temperature": 0.7, "stop": ["\n\n"]}
//   {"ids": [1, 2, 3]}
//   {"messages": [{"role": "user", "content": ".."}]}
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "runtime/generator.h"
#include "tools/common/request_flags.h"

namespace gm {

// `defaults` are for what lines do not say. A plan without a tokenizer takes ids only. Errors name
// the line and the field.
Result<std::vector<Request>> read_requests(const std::filesystem::path& file,
                                           const Tokenizer* tokenizer,
                                           const RequestDefaults& defaults);
Result<Request> prompt_request(std::string_view prompt, const Tokenizer* tokenizer,
                               const RequestDefaults& defaults, const Location& where);

}  // namespace gm
