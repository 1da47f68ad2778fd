// Pieces of the text of kernels, for diagnostics, reports and code that prints an expression.
#pragma once

#include <string>
#include <string_view>

#include "ir/tile.h"

namespace gm {

std::string_view access_name(Access access);
std::string_view residency_name(Residency residency);
std::string print_contract(const Contract& contract);   // "range [-1, slots) distinct masked"
std::string print_axes(const std::vector<Axis>& axes);  // "m < 4, k < 256"
std::string print_index(const Expr& e);                 // infix, as inside brackets
std::string print_value(const Expr& e);                 // as functions
std::string print_statement_head(const Stmt& stmt);     // one line, without the body of a for or if

}  // namespace gm
