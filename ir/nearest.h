// "Did you mean": the known name that is nearest to a mistyped one by edit distance. The first of
// several equally near ones, so that a message depends on the order of the list alone.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gm {

// Empty if nothing is known.
std::string nearest_name(std::string_view name, std::span<const std::string> known);

}  // namespace gm
