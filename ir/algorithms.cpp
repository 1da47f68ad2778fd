#include "ir/algorithms.h"

#include <algorithm>
#include <functional>
#include <queue>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dominator_tree.hpp>
#include <boost/graph/strong_components.hpp>

namespace gm {
namespace {

// With vecS vertices a descriptor is the node's number, as long as no vertex is removed.
using BoostGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;

void check_edges(const Digraph& graph) {
  for (const auto& [from, to] : graph.edges) {
    GM_CHECK(from < graph.nodes && to < graph.nodes, "edge {} -> {} of {} nodes", from, to,
             graph.nodes);
  }
}

BoostGraph to_boost(const Digraph& graph) {
  check_edges(graph);
  return {graph.edges.begin(), graph.edges.end(), graph.nodes};
}

}  // namespace

Digraph op_digraph(const Graph& graph) {
  Digraph result;
  result.nodes = static_cast<uint32_t>(graph.ops().size());
  for (const Op& op : graph.ops()) {
    std::vector<uint32_t> producers;
    for (const ValueId input : op.inputs) {
      if (index_of(input) >= graph.values().size()) continue;  // the verifier reports it
      if (const Op* producer = graph.producer(input)) producers.push_back(index_of(producer->id));
    }
    std::sort(producers.begin(), producers.end());
    producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
    for (const uint32_t producer : producers) result.edges.emplace_back(producer, index_of(op.id));
  }
  return result;
}

// Boost's topological sort gives some order; this one is the least, which keeps programs stable
// when an unrelated edge comes or goes.
std::optional<std::vector<uint32_t>> topological_order(const Digraph& graph) {
  check_edges(graph);
  std::vector<std::vector<uint32_t>> next(graph.nodes);
  std::vector<uint32_t> waiting(graph.nodes, 0);
  for (const auto& [from, to] : graph.edges) {
    next[from].push_back(to);
    ++waiting[to];
  }
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (uint32_t node = 0; node < graph.nodes; ++node) {
    if (waiting[node] == 0) ready.push(node);
  }
  std::vector<uint32_t> order;
  while (!ready.empty()) {
    const uint32_t node = ready.top();
    ready.pop();
    order.push_back(node);
    for (const uint32_t to : next[node]) {
      if (--waiting[to] == 0) ready.push(to);
    }
  }
  if (order.size() != graph.nodes) return std::nullopt;
  return order;
}

std::vector<std::vector<uint32_t>> strong_components(const Digraph& graph) {
  if (graph.nodes == 0) return {};
  const BoostGraph boost_graph = to_boost(graph);
  std::vector<size_t> component(graph.nodes);
  const size_t count = boost::strong_components(
      boost_graph, boost::make_iterator_property_map(component.begin(),
                                                     boost::get(boost::vertex_index, boost_graph)));
  std::vector<std::vector<uint32_t>> result(count);
  for (uint32_t node = 0; node < graph.nodes; ++node) result[component[node]].push_back(node);
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.front() < b.front(); });
  return result;
}

std::vector<uint32_t> find_cycle(const Digraph& graph) {
  std::vector<bool> to_itself(graph.nodes);
  check_edges(graph);
  for (const auto& [from, to] : graph.edges) {
    if (from == to) to_itself[from] = true;
  }
  for (std::vector<uint32_t>& component : strong_components(graph)) {
    if (component.size() > 1 || to_itself[component.front()]) return std::move(component);
  }
  return {};
}

std::vector<std::optional<uint32_t>> immediate_post_dominators(const Digraph& graph) {
  check_edges(graph);
  // The graph reversed, entered at one more node that stands before every end.
  const uint32_t entry = graph.nodes;
  std::vector<bool> leaves(graph.nodes, true);
  Digraph reversed{graph.nodes + 1, {}};
  for (const auto& [from, to] : graph.edges) {
    leaves[from] = false;
    reversed.edges.emplace_back(to, from);
  }
  for (uint32_t node = 0; node < graph.nodes; ++node) {
    if (leaves[node]) reversed.edges.emplace_back(entry, node);
  }
  const BoostGraph boost_graph = to_boost(reversed);
  const auto none = boost::graph_traits<BoostGraph>::null_vertex();
  std::vector<size_t> dominators(reversed.nodes, none);
  boost::lengauer_tarjan_dominator_tree(
      boost_graph, size_t{entry},
      boost::make_iterator_property_map(dominators.begin(),
                                        boost::get(boost::vertex_index, boost_graph)));
  std::vector<std::optional<uint32_t>> result(graph.nodes);
  for (uint32_t node = 0; node < graph.nodes; ++node) {
    if (dominators[node] != none && dominators[node] != entry)
      result[node] = static_cast<uint32_t>(dominators[node]);
  }
  return result;
}

Reachability::Reachability(const Digraph& graph)
    : nodes_(graph.nodes), words_((size_t{graph.nodes} + 63) / 64), bits_(words_ * graph.nodes, 0) {
  check_edges(graph);
  std::vector<std::vector<uint32_t>> next(nodes_);
  for (const auto& [from, to] : graph.edges) next[from].push_back(to);
  // Components in an order in which successors come first: Boost numbers them so. Nodes of one
  // component have one closure.
  if (nodes_ == 0) return;
  const BoostGraph boost_graph = to_boost(graph);
  std::vector<size_t> component(nodes_);
  const size_t count = boost::strong_components(
      boost_graph, boost::make_iterator_property_map(component.begin(),
                                                     boost::get(boost::vertex_index, boost_graph)));
  std::vector<std::vector<uint32_t>> members(count);
  for (uint32_t node = 0; node < nodes_; ++node) members[component[node]].push_back(node);
  for (const std::vector<uint32_t>& nodes : members) {
    uint64_t* first = &bits_[nodes.front() * words_];
    for (const uint32_t node : nodes) {
      for (const uint32_t to : next[node]) {
        first[to / 64] |= uint64_t{1} << (to % 64);
        if (component[to] == component[node]) continue;
        const uint64_t* other = row(to);
        for (size_t w = 0; w < words_; ++w) first[w] |= other[w];
      }
    }
    for (size_t i = 1; i < nodes.size(); ++i) std::copy_n(first, words_, &bits_[nodes[i] * words_]);
  }
}

const uint64_t* Reachability::row(uint32_t node) const { return &bits_[node * words_]; }

void Reachability::add_edge(uint32_t from, uint32_t to) {
  GM_CHECK(from < nodes_ && to < nodes_, "edge {} -> {} of {} nodes", from, to, nodes_);
  if (reaches(from, to)) return;
  std::vector<uint64_t> gained(row(to), row(to) + words_);
  gained[to / 64] |= uint64_t{1} << (to % 64);
  for (uint32_t node = 0; node < nodes_; ++node) {
    if (node != from && !reaches(node, from)) continue;
    for (size_t w = 0; w < words_; ++w) bits_[node * words_ + w] |= gained[w];
  }
}

bool merging_makes_cycle(const Reachability& reach, const std::vector<uint32_t>& set) {
  std::vector<bool> inside(reach.nodes());
  for (const uint32_t node : set) inside[node] = true;
  for (uint32_t node = 0; node < reach.nodes(); ++node) {
    if (inside[node]) continue;
    bool below = false, above = false;
    for (const uint32_t member : set) {
      below |= reach.reaches(member, node);
      above |= reach.reaches(node, member);
    }
    if (below && above) return true;
  }
  return false;
}

}  // namespace gm
