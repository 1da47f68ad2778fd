// The generated pages of docs/: the reference of ops, from the op table, and the list of codes,
// from base/codes.def and ir/reasons.def. A test compares them with what lies in docs/, so a
// declaration cannot change without its page.
#pragma once

#include <string>

#include "ir/opdef.h"

namespace gm {

std::string ops_page(const OpTable& table);
std::string codes_page();

}  // namespace gm
