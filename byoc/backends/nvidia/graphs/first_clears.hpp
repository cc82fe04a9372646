// Memory that kernels expect to be zero, cleared once, where a graph begins. It follows
// recording.hpp.
//
// Before: k0 -> clear a -> k1 (uses a) -> k2 -> clear b -> k3 (uses b)
// After:  clear a and b -> k0 -> k1 -> k2 -> k3
//
// A node that clears memory between two kernels costs two to three microseconds on an H100, and
// cuDNN's attention has one or two for each kernel.
#include <algorithm>
#include <map>

namespace opinfo_graphs __attribute__((visibility("hidden"))) {

using Nodes = std::vector<cudaGraphNode_t>;

// What a query of the runtime lists of a graph or of a node.
template <typename Query, typename Of>
Nodes listed(Query query, Of of, const char* what) {
  size_t count = 0;
  must(query(of, nullptr, &count), what);
  Nodes out(count);
  if (count > 0) must(query(of, out.data(), &count), what);
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

// Bytes that a node clears, in which memory of a call.
struct Cleared {
  cudaGraphNode_t node;
  char* begin;
  size_t bytes;
  const Own* own;
};

// The nodes that clear memory which a call has of its own.
inline std::vector<Cleared> clears(cudaGraph_t graph, const std::vector<Own>& own) {
  std::vector<Cleared> out;
  for (cudaGraphNode_t node : listed(cudaGraphGetNodes, graph, "nodes")) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    must(cudaGraphNodeGetType(node, &type), "node");
    if (type != cudaGraphNodeTypeMemset) continue;
    cudaMemsetParams how{};
    must(cudaGraphMemsetNodeGetParams(node, &how), "node");
    char* begin = static_cast<char*>(how.dst);
    const size_t bytes = how.width * how.elementSize;
    if (how.value != 0 || how.height != 1) continue;
    for (const Own& o : own)
      if (begin >= o.begin && begin + bytes <= o.begin + o.bytes)
        out.push_back({node, begin, bytes, &o});
  }
  return out;
}

// The nodes with which calls begin, the second ones, and so on: each follows the last node before
// the call, or another such node of the same call.
inline std::vector<std::vector<Cleared>> first_nodes(std::vector<Cleared> left) {
  std::vector<std::vector<Cleared>> out;
  std::map<cudaGraphNode_t, const Own*> previous;
  for (bool more = true; more;) {
    std::vector<Cleared> found, others;
    for (const Cleared& c : left) {
      const Nodes from = listed(before, c.node, "edges");
      const bool begins = c.own->before == nullptr
                              ? from.empty()
                              : from.size() == 1 && from[0] == c.own->before;
      const auto at = from.size() == 1 ? previous.find(from[0]) : previous.end();
      const bool follows = at != previous.end() && at->second == c.own;
      ((out.empty() ? begins : follows) ? found : others).push_back(c);
    }
    previous.clear();
    for (const Cleared& c : found) previous[c.node] = c.own;
    more = !found.empty();
    if (more) out.push_back(std::move(found));
    left = std::move(others);
  }
  return out;
}

// One node for equal parts of memory at equal distances. False if they are not, or there is one.
inline bool joined(std::vector<Cleared>& parts, cudaMemsetParams& how) {
  if (parts.size() < 2) return false;
  std::sort(parts.begin(), parts.end(),
            [](const Cleared& a, const Cleared& b) { return a.begin < b.begin; });
  how = {};
  how.dst = parts[0].begin;
  how.height = parts.size();
  how.pitch = static_cast<size_t>(parts[1].begin - parts[0].begin);
  const size_t bytes = parts[0].bytes;
  for (size_t k = 0; k < parts.size(); ++k)
    if (parts[k].bytes != bytes || parts[k].begin != parts[0].begin + k * how.pitch) return false;
  how.elementSize = bytes % 4 || how.pitch % 4 || reinterpret_cast<uintptr_t>(how.dst) % 4 ? 1 : 4;
  how.width = bytes / how.elementSize;
  return how.pitch >= bytes;
}

inline void remove(cudaGraph_t graph, cudaGraphNode_t node) {
  for (cudaGraphNode_t from : listed(before, node, "edges"))
    for (cudaGraphNode_t to : listed(after, node, "edges")) add_edge(graph, from, to);
  must(cudaGraphDestroyNode(node), "node");
}

// The graph, changed so. Nothing else uses that memory before, since each part belongs to one call,
// and graphs that share it run one after the other.
inline void clear_first(cudaGraph_t graph, const std::vector<Own>& own) {
  for (auto& parts : first_nodes(clears(graph, own))) {
    cudaMemsetParams how{};
    if (!joined(parts, how)) continue;
    for (const Cleared& part : parts) remove(graph, part.node);
    const Nodes roots = listed(cudaGraphGetRootNodes, graph, "roots");
    cudaGraphNode_t first = nullptr;
    must(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &how), "node");
    for (cudaGraphNode_t root : roots) add_edge(graph, first, root);
  }
}

}  // namespace opinfo_graphs
