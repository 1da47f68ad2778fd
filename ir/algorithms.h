// Graph algorithms over dense 32-bit node numbers, for the op graph and the region graph alike.
// Boost.Graph does the work behind this interface; nothing of it is seen here. Every result is a
// function of the node numbers and edges alone, and where an order is free the lowest number comes
// first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace gm {

struct Digraph {
  uint32_t nodes = 0;
  std::vector<std::pair<uint32_t, uint32_t>> edges;  // from, to; both below `nodes` (GM_CHECK)
};

// The ops, with an edge from each op to each user of one of its results.
Digraph op_digraph(const Graph& graph);

// Every node before those its edges lead to, lowest ready number first; nothing if there is a
// cycle.
std::optional<std::vector<uint32_t>> topological_order(const Digraph& graph);

// Strongly connected components: nodes ascending in each, components ascending by first node. A
// component of one node without an edge to itself is no cycle.
std::vector<std::vector<uint32_t>> strong_components(const Digraph& graph);
// The nodes of a cycle, ascending: the first strong component that is one. Empty: acyclic.
std::vector<uint32_t> find_cycle(const Digraph& graph);

// Which node every path from a node to the end of the graph (nodes that no edge leaves) goes
// through next; nothing if there is none. A node from which no end is reached has none.
std::vector<std::optional<uint32_t>> immediate_post_dominators(const Digraph& graph);

// The transitive closure as bits; cycles are allowed.
class Reachability {
 public:
  explicit Reachability(const Digraph& graph);
  // Over a path of at least one edge.
  bool reaches(uint32_t from, uint32_t to) const {
    return (row(from)[to / 64] >> (to % 64) & 1) != 0;
  }
  // Adds an edge and what follows from it.
  void add_edge(uint32_t from, uint32_t to);
  uint32_t nodes() const { return nodes_; }

 private:
  const uint64_t* row(uint32_t node) const;
  uint32_t nodes_;
  size_t words_;
  std::vector<uint64_t> bits_;
};

// Whether making one node of these would close a cycle: some path leaves the set and comes back.
bool merging_makes_cycle(const Reachability& reach, const std::vector<uint32_t>& set);

// Graphviz. Ops are boxes; inputs, weights and states ellipses; outputs are drawn by their names.
std::string to_dot(const Graph& graph);
// Any graph, with the labels of its nodes.
std::string to_dot(const Digraph& graph, const std::string& name,
                   const std::vector<std::string>& labels);

}  // namespace gm
