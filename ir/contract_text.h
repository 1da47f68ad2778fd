// The parts of IR text that graphs and tile kernels share: dims, types, symbols and the contracts
// of step inputs.
#pragma once

#include <string>

#include "ir/graph.h"
#include "ir/lexer.h"

namespace gm {

// An expression over symbols. It ends before what cannot go on with it: a comma, a closing bracket,
// a word after a value.
Result<SymExpr> parse_sym(TokenStream& tokens);

// "f32", not "pred", which is no type of memory.
Result<DType> parse_memory_dtype(TokenStream& tokens);
// "bf16[tokens, 256]", as TensorType::to_string writes it.
Result<TensorType> parse_tensor_type(TokenStream& tokens);

// "symbol tokens : tokens in [1, 8192] multiple 16"; the upper end, inclusive, may be `inf`.
std::string print_symbol(const SymInfo& symbol);
// With the word `symbol`; declares it.
Result<> parse_symbol(TokenStream& tokens, SymTable& symbols);

// "range [-1, slots) distinct masked", as print_contract of ir/tile_text.h writes it.
Result<Contract> parse_contract(TokenStream& tokens);

}  // namespace gm
