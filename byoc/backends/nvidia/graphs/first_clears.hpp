// Memory that kernels expect to be zero, cleared once, where a graph begins. It follows
// recording.hpp.
//
// Before: k0 -> clear a -> k1 (uses a) -> k2 -> clear b -> k3 (uses b)
// After:  clear a and b -> k0 -> k1 -> k2 -> k3
//
// A node that clears memory between two kernels costs them some three microseconds on an H100, and
// cuDNN's attention has one for each kernel.
#include <algorithm>

namespace opinfo_graphs __attribute__((visibility("hidden"))) {

using Nodes = std::vector<cudaGraphNode_t>;

inline Nodes nodes_of(cudaGraph_t graph) {
  size_t count = 0;
  must(cudaGraphGetNodes(graph, nullptr, &count), "nodes");
  Nodes out(count);
  if (count > 0) must(cudaGraphGetNodes(graph, out.data(), &count), "nodes");
  return out;
}

inline Nodes roots_of(cudaGraph_t graph) {
  size_t count = 0;
  must(cudaGraphGetRootNodes(graph, nullptr, &count), "roots");
  Nodes out(count);
  if (count > 0) must(cudaGraphGetRootNodes(graph, out.data(), &count), "roots");
  return out;
}

// Edges of nodes that clear memory have no data: only kernels start before others are complete.
inline cudaError_t before(cudaGraphNode_t node, cudaGraphNode_t* out, size_t* count) {
#if CUDART_VERSION >= 13000
  return cudaGraphNodeGetDependencies(node, out, nullptr, count);
#else
  return cudaGraphNodeGetDependencies(node, out, count);
#endif
}

inline cudaError_t after(cudaGraphNode_t node, cudaGraphNode_t* out, size_t* count) {
#if CUDART_VERSION >= 13000
  return cudaGraphNodeGetDependentNodes(node, out, nullptr, count);
#else
  return cudaGraphNodeGetDependentNodes(node, out, count);
#endif
}

inline void add_edge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to) {
#if CUDART_VERSION >= 13000
  must(cudaGraphAddDependencies(graph, &from, &to, nullptr, 1), "edge");
#else
  must(cudaGraphAddDependencies(graph, &from, &to, 1), "edge");
#endif
}

template <typename Query>
Nodes listed(Query query, cudaGraphNode_t node) {
  size_t count = 0;
  must(query(node, nullptr, &count), "edges");
  Nodes out(count);
  if (count > 0) must(query(node, out.data(), &count), "edges");
  return out;
}

// Bytes that a node clears first of all in a call with memory of its own; none otherwise.
struct Cleared {
  char* begin = nullptr;
  char* end = nullptr;
};

inline Cleared cleared(cudaGraphNode_t node, const std::vector<Own>& own) {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  must(cudaGraphNodeGetType(node, &type), "node");
  if (type != cudaGraphNodeTypeMemset) return {};
  cudaMemsetParams how{};
  must(cudaGraphMemsetNodeGetParams(node, &how), "node");
  if (how.value != 0 || how.height != 1) return {};
  char* begin = static_cast<char*>(how.dst);
  char* end = begin + how.width * how.elementSize;
  for (const Own& o : own) {
    if (begin < o.begin || end > o.begin + o.bytes) continue;
    const Nodes previous = listed(before, node);
    const bool first = o.before == nullptr ? previous.empty()
                                           : previous.size() == 1 && previous[0] == o.before;
    return first ? Cleared{begin, end} : Cleared{};
  }
  return {};
}

// The graph, changed so. Nothing else uses that memory before, since each part belongs to one call,
// and graphs that share it run one after the other.
inline void clear_first(cudaGraph_t graph, const std::vector<Own>& own) {
  std::vector<std::pair<cudaGraphNode_t, Cleared>> moved;
  for (cudaGraphNode_t node : nodes_of(graph)) {
    const Cleared bytes = cleared(node, own);
    if (bytes.begin != nullptr) moved.emplace_back(node, bytes);
  }
  if (moved.size() < 2) return;  // one is as well where it is
  Cleared all = moved[0].second;
  for (const auto& [node, bytes] : moved) {
    all = {std::min(all.begin, bytes.begin), std::max(all.end, bytes.end)};
    for (cudaGraphNode_t from : listed(before, node))
      for (cudaGraphNode_t to : listed(after, node)) add_edge(graph, from, to);
    must(cudaGraphDestroyNode(node), "node");
  }
  const Nodes roots = roots_of(graph);
  cudaMemsetParams how{};
  how.dst = all.begin;
  how.elementSize = 1;
  how.width = static_cast<size_t>(all.end - all.begin);
  how.height = 1;
  cudaGraphNode_t first = nullptr;
  must(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &how), "node");
  for (cudaGraphNode_t root : roots) add_edge(graph, first, root);
}

}  // namespace opinfo_graphs
