#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/graphviz.hpp>
#include <sstream>

#include "ir/algorithms.h"

namespace gm {
namespace {

struct DotNode {
  std::string label;
  std::string_view shape;
};
struct DotEdge {
  std::string label;
};
using DotGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, DotNode, DotEdge>;

std::string write(const DotGraph& graph, const std::string& name) {
  // Boost writes to a stream only. Its own name of the graph is always "G".
  std::ostringstream out;
  boost::write_graphviz(
      out, graph,
      [&](std::ostream& to, size_t node) {
        to << "[label=" << boost::escape_dot_string(graph[node].label)
           << ", shape=" << graph[node].shape << "]";
      },
      [&](std::ostream& to, const auto& edge) {
        if (!graph[edge].label.empty())
          to << "[label=" << boost::escape_dot_string(graph[edge].label) << "]";
      },
      [&](std::ostream& to) { to << "label=" << boost::escape_dot_string(name) << ";\n"; });
  return out.str();
}

}  // namespace

std::string to_dot(const Digraph& graph, const std::string& name,
                   const std::vector<std::string>& labels) {
  GM_CHECK(labels.size() == graph.nodes, "{} labels for {} nodes", labels.size(), graph.nodes);
  DotGraph dot;
  for (const std::string& label : labels) boost::add_vertex({label, "box"}, dot);
  for (const auto& [from, to] : graph.edges) {
    GM_CHECK(from < graph.nodes && to < graph.nodes, "edge {} -> {} of {} nodes", from, to,
             graph.nodes);
    boost::add_edge(from, to, {}, dot);
  }
  return write(dot, name);
}

std::string to_dot(const Graph& graph) {
  DotGraph dot;
  for (const Op& op : graph.ops())
    boost::add_vertex({op.where.empty() ? op.kind : op.kind + "\n" + op.where, "box"}, dot);
  std::vector<size_t> node_of(graph.values().size());
  for (const Value& value : graph.values()) {
    node_of[index_of(value.id)] = value.kind == ValueKind::result
                                      ? index_of(value.producer)
                                      : boost::add_vertex({"%" + value.name, "ellipse"}, dot);
  }
  const auto connect = [&](ValueId value, size_t to) {
    if (index_of(value) >= node_of.size()) return;
    boost::add_edge(node_of[index_of(value)], to, DotEdge{graph.value(value).type.to_string()},
                    dot);
  };
  for (const Op& op : graph.ops()) {
    for (const ValueId input : op.inputs) connect(input, index_of(op.id));
  }
  for (const GraphOutput& output : graph.outputs())
    connect(output.value, boost::add_vertex({output.name, "doubleoctagon"}, dot));
  return write(dot, graph.name);
}

}  // namespace gm
