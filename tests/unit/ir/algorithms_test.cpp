#include "ir/algorithms.h"

#include <gtest/gtest.h>

#include "tests/unit/ir/test_ops.h"

namespace gm {
namespace {

using Order = std::vector<uint32_t>;

// A reproducible graph of about `edges` edges, from any to any node if `cyclic`.
Digraph random_graph(uint32_t seed, uint32_t nodes, uint32_t edges, bool cyclic) {
  uint32_t state = seed * 2654435761u + 1;
  const auto draw = [&state](uint32_t limit) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % limit;
  };
  Digraph graph{nodes, {}};
  for (uint32_t e = 0; e < edges; ++e) {
    uint32_t from = draw(nodes), to = draw(nodes);
    if (!cyclic) {
      if (from == to) continue;
      if (from > to) std::swap(from, to);
    }
    graph.edges.emplace_back(from, to);
  }
  return graph;
}

std::vector<std::vector<bool>> naive_closure(const Digraph& graph) {
  std::vector<std::vector<bool>> reach(graph.nodes, std::vector<bool>(graph.nodes));
  for (const auto& [from, to] : graph.edges) reach[from][to] = true;
  for (uint32_t k = 0; k < graph.nodes; ++k) {
    for (uint32_t i = 0; i < graph.nodes; ++i) {
      for (uint32_t j = 0; j < graph.nodes; ++j) {
        if (reach[i][k] && reach[k][j]) reach[i][j] = true;
      }
    }
  }
  return reach;
}

TEST(Algorithms, OrdersLowestReadyFirst) {
  EXPECT_EQ(topological_order({4, {{3, 0}, {2, 1}}}), (Order{2, 1, 3, 0}));
  EXPECT_EQ(topological_order({3, {{0, 1}, {1, 0}}}), std::nullopt);
  EXPECT_EQ(topological_order({0, {}}), Order{});
  EXPECT_EQ(topological_order({2, {{0, 1}, {0, 1}}}), (Order{0, 1}));
}

TEST(Algorithms, FindsCycles) {
  const Digraph graph{6, {{0, 1}, {4, 2}, {2, 3}, {3, 4}, {5, 5}}};
  EXPECT_EQ(strong_components(graph), (std::vector<Order>{{0}, {1}, {2, 3, 4}, {5}}));
  EXPECT_EQ(find_cycle(graph), (Order{2, 3, 4}));
  EXPECT_EQ(find_cycle({2, {{1, 1}}}), Order{1});
  EXPECT_EQ(find_cycle({2, {{0, 1}}}), Order{});
  EXPECT_TRUE(strong_components({0, {}}).empty());
}

TEST(Algorithms, FindsPostDominators) {
  // 0 -> {1, 2} -> 3 -> 4; 5 never ends.
  const Digraph graph{6, {{0, 1}, {0, 2}, {1, 3}, {2, 3}, {3, 4}, {5, 5}}};
  const std::vector<std::optional<uint32_t>> expected = {3, 3, 3, 4, std::nullopt, std::nullopt};
  EXPECT_EQ(immediate_post_dominators(graph), expected);
  // Two ends: nothing lies on all paths.
  EXPECT_EQ(immediate_post_dominators({3, {{0, 1}, {0, 2}}})[0], std::nullopt);
  EXPECT_TRUE(immediate_post_dominators({0, {}}).empty());
}

TEST(Algorithms, PostDominatorsAgreeWithTheirDefinition) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Digraph graph = random_graph(seed, 12, 20, false);
    const auto found = immediate_post_dominators(graph);
    // p post-dominates n if without p no end is reached from n.
    const auto post_dominates = [&](uint32_t p, uint32_t n) {
      Digraph without{graph.nodes, {}};
      std::vector<bool> ends(graph.nodes, true);
      for (const auto& [from, to] : graph.edges) {
        ends[from] = false;
        if (from != p && to != p) without.edges.emplace_back(from, to);
      }
      const auto reach = naive_closure(without);
      for (uint32_t end = 0; end < graph.nodes; ++end) {
        if (ends[end] && end != p && (end == n || reach[n][end])) return false;
      }
      return true;
    };
    for (uint32_t n = 0; n < graph.nodes; ++n) {
      std::vector<uint32_t> all;
      for (uint32_t p = 0; p < graph.nodes; ++p) {
        if (p != n && post_dominates(p, n)) all.push_back(p);
      }
      ASSERT_EQ(found[n].has_value(), !all.empty()) << seed << " " << n;
      // The nearest is the one that all the others post-dominate.
      for (const uint32_t p : all) {
        EXPECT_TRUE(p == *found[n] || post_dominates(p, *found[n])) << seed << " " << n;
      }
    }
  }
}

TEST(Reachability, AgreesWithTheNaiveClosure) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const uint32_t nodes = 1 + seed * 3;
    const Digraph graph = random_graph(seed, nodes, nodes + nodes / 4, seed % 2 == 0);
    const Reachability reach(graph);
    const auto expected = naive_closure(graph);
    for (uint32_t i = 0; i < nodes; ++i) {
      for (uint32_t j = 0; j < nodes; ++j)
        ASSERT_EQ(reach.reaches(i, j), expected[i][j]) << seed << ": " << i << " -> " << j;
    }
  }
}

TEST(Reachability, AddsEdges) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Digraph graph = random_graph(seed, 30, 40, seed % 2 == 0);
    Reachability grown({graph.nodes, {}});
    for (const auto& [from, to] : graph.edges) grown.add_edge(from, to);
    const Reachability whole(graph);
    for (uint32_t i = 0; i < graph.nodes; ++i) {
      for (uint32_t j = 0; j < graph.nodes; ++j)
        ASSERT_EQ(grown.reaches(i, j), whole.reaches(i, j)) << seed << ": " << i << " -> " << j;
    }
  }
}

TEST(Reachability, MergingMakesCycles) {
  const Reachability reach({5, {{0, 1}, {1, 2}, {0, 2}, {3, 4}}});
  EXPECT_TRUE(merging_makes_cycle(reach, {0, 2}));
  EXPECT_FALSE(merging_makes_cycle(reach, {0, 1, 2}));
  EXPECT_FALSE(merging_makes_cycle(reach, {0, 1}));
  EXPECT_FALSE(merging_makes_cycle(reach, {2, 3}));
  EXPECT_FALSE(merging_makes_cycle(reach, {4}));
}

TEST(Algorithms, ChecksEdges) {
  EXPECT_EXIT(topological_order({1, {{0, 1}}}), testing::ExitedWithCode(70), "edge 0 -> 1 of 1");
}

Graph small_graph() {
  Graph graph(test_ops::table());
  graph.name = "small";
  const TensorType row{DType::f32, {4}};
  const ValueId x = graph.add_input("x", row);
  const ValueId y = (*graph.add_op("norm", {x}, {}, "a"))[0];
  const ValueId z = (*graph.add_op("add", {y, y}, {}, "b"))[0];
  graph.add_output("z", z);
  return graph;
}

TEST(Algorithms, OpGraphHasOneEdgeForEachPair) {
  const Digraph graph = op_digraph(small_graph());
  EXPECT_EQ(graph.nodes, 2u);
  EXPECT_EQ(graph.edges, (std::vector<std::pair<uint32_t, uint32_t>>{{0, 1}}));
}

TEST(Dot, DrawsGraphs) {
  const std::string dot = to_dot(small_graph());
  EXPECT_NE(dot.find("label=small;"), std::string::npos) << dot;
  EXPECT_NE(dot.find("0[label=\"norm\na\", shape=box];"), std::string::npos) << dot;
  EXPECT_NE(dot.find("2[label=\"%x\", shape=ellipse];"), std::string::npos) << dot;
  EXPECT_NE(dot.find("3[label=z, shape=doubleoctagon];"), std::string::npos) << dot;
  EXPECT_NE(dot.find("2->0 [label=\"f32[4]\"];"), std::string::npos) << dot;
  EXPECT_EQ(dot, to_dot(small_graph()));
  EXPECT_NE(to_dot({2, {{0, 1}}}, "r", {"a \"q\"", "b"}).find("0->1"), std::string::npos);
}

}  // namespace
}  // namespace gm
