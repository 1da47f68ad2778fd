// The fusion rules. Each looks at roles and index maps only, never at the name of an op or a layer,
// and tells the partition what to merge, or why not. They run in the order of kFusionRules; what is
// legal is fused.
#pragma once

#include <span>
#include <string_view>

#include "compiler/fusion/partition.h"

namespace gm {

struct FusionRule {
  std::string_view name;
  std::string_view doc;
  void (*run)(Partition&);
};

//   %q = linear(%h, %wq)                    one region {q, k}: one kernel with a part for each,
//   %k = linear(%h, %wk)          ->        reading one stack of panels
void fuse_sibling_contractions(Partition& partition);

//   %q1 = rope(%q, %cos, %sin)              one region {q1, k1}: one kernel with a part for each
//   %k1 = rope(%k, %cos, %sin)    ->
void fuse_sibling_kernels(Partition& partition);

//   %m = linear(%y, %w)                     one region {m, x1}: x1 is stored where m would have
//   been %x1 = add(%x, %m)             ->        (and a chain in front of a load becomes part of
//   the load)
void fuse_elementwise_chains(Partition& partition);

//   %h = rms_norm(%x, %w)                   one region {h, q}: each work item normalises the rows
//   it multiplies; %q = linear(%h, %wq)          ->        if others read %h too, it becomes a
//   second output
void fuse_row_reductions(Partition& partition);

std::span<const FusionRule> fusion_rules();

// One region an op, and every edge between them rejected as switched off.
Regions form_regions(const Graph& graph);
// All rules.
Regions fuse(const Graph& graph);

}  // namespace gm
