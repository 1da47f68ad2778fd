// Regions and their ledger as text behind the text of their graph, read back exactly. An op is
// named by its first result.
//
//   regions {
//     region "layers.0.mlp.gate_proj+1" generated { prologue %h, anchor %gate, anchor %up, epilogue
//     %act } accepted sibling-contractions saves_launch "same input %h ..." { %gate, %up } on %h
//     rejected elementwise-chain index_maps_differ "..." { %z, %zs } on %z
//   }
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "ir/region.h"

namespace gm {

std::string print_regions(const Graph& graph, const Regions& regions);

// A text that holds only a regions block for `graph`. Roles and names are read; verify_regions says
// whether they fit.
Result<Regions> parse_regions(std::string_view text, const std::string& file, const Graph& graph);

}  // namespace gm
