// CUDA's runtime on the host: what is submitted to a stream runs at once, or becomes a node of the graph
// that the stream captures. A launched graph runs its nodes in an order that its edges permit, the last
// or the first submitted first, in turns, so that a missing edge shows.
#include "cuda_runtime_api.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

struct stubNode {
  cudaGraphNodeType type;
  std::function<void()> work;
  cudaMemsetParams memset{};
  std::vector<stubNode*> before{};
  CUgraph_st* graph = nullptr;
};
struct CUgraph_st {
  std::vector<std::unique_ptr<stubNode>> nodes;
  float elapsed = 1.0f;  // of what was launched last
};
struct stubExec {
  float elapsed = 1.0f;
  std::vector<stubNode> nodes;
  std::vector<std::vector<size_t>> before;
};

namespace stub {
float elapsed = 1.0f, own_time = 0.0f;
int waits = 0, synchronised = 0, copies = 0;
unsigned long long captured = 0;
bool recording = false;
cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
int launches = 0, instances = 0, live = 0, clears = 0;

struct Captured {
  cudaGraph_t graph;
  stubNode* last;
  unsigned long long id;
};
static std::map<cudaStream_t, Captured> captures;
static thread_local int current_device = 0;

static stubNode* add(cudaGraph_t graph, stubNode node) {
  node.graph = graph;
  graph->nodes.push_back(std::make_unique<stubNode>(std::move(node)));
  return graph->nodes.back().get();
}

cudaError_t submit(cudaStream_t stream, std::function<void()> work, cudaGraphNodeType type,
                   cudaMemsetParams memset) {
  auto at = captures.find(stream);
  if (at == captures.end()) return work(), cudaSuccess;
  stubNode node{type, std::move(work), memset};
  if (at->second.last != nullptr) node.before.push_back(at->second.last);
  at->second.last = add(at->second.graph, std::move(node));
  return cudaSuccess;
}

static std::function<void()> clearing(const cudaMemsetParams& how) {
  return [how] {
    for (size_t row = 0; row < how.height; ++row)
      std::memset(static_cast<char*>(how.dst) + row * how.pitch, static_cast<int>(how.value),
                  how.width * how.elementSize);
  };
}

static cudaError_t listed(const std::vector<stubNode*>& all, cudaGraphNode_t* out, size_t* count) {
  if (out != nullptr) std::copy(all.begin(), all.end(), out);
  *count = all.size();
  return cudaSuccess;
}
}  // namespace stub

const char* cudaGetErrorString(cudaError_t) { return "an error of the stub"; }
cudaError_t cudaGetDevice(int* device) {
  *device = stub::current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  stub::current_device = device;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t*) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  static int some;
  *event = &some;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* time, cudaEvent_t, cudaEvent_t) {
  *time = stub::elapsed;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new int(0);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete static_cast<int*>(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  *id = reinterpret_cast<uintptr_t>(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  ++stub::waits;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() {
  ++stub::synchronised;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int) { return cudaSuccess; }
cudaError_t cudaMalloc(void** p, size_t n) {
  if ((stub::captured || stub::recording) && stub::mode != cudaStreamCaptureModeRelaxed) return 900;
  *p = std::malloc(n);
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* p, int value, size_t n) {
  std::memset(p, value, n);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t n, int) {
  std::memcpy(to, from, n);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, int, cudaStream_t stream) {
  ++stub::copies;
  return stub::submit(stream, [=] { std::memcpy(to, from, n); }, cudaGraphNodeTypeMemcpy);
}

cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
    cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData**, size_t* count) {
  auto at = stub::captures.find(stream);
  const bool on = at != stub::captures.end() || stub::captured != 0;
  *status = on ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (id != nullptr) *id = at != stub::captures.end() ? at->second.id : stub::captured;
  if (at == stub::captures.end()) return cudaSuccess;
  if (graph != nullptr) *graph = at->second.graph;
  if (nodes != nullptr) *nodes = &at->second.last;
  if (count != nullptr) *count = at->second.last == nullptr ? 0 : 1;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, stub::mode);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  static unsigned long long id = 1000;
  stub::recording = true;
  if (stub::own_time > 0) stub::elapsed = stub::own_time;
  stub::captures[stream] = {new CUgraph_st, nullptr, ++id};
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  auto at = stub::captures.find(stream);
  if (at == stub::captures.end()) return 901;
  *graph = at->second.graph;
  stub::captures.erase(at);
  (*graph)->elapsed = stub::elapsed;
  stub::recording = !stub::captures.empty();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                 unsigned long long) {
  *exec = new stubExec;
  (*exec)->elapsed = graph->elapsed;
  std::map<stubNode*, size_t> places;
  for (auto& node : graph->nodes) places.emplace(node.get(), places.size());
  (*exec)->nodes.resize(graph->nodes.size());
  (*exec)->before.resize(graph->nodes.size());
  for (auto& node : graph->nodes) {
    const size_t place = places.at(node.get());
    (*exec)->nodes[place] = *node;
    stub::clears += node->type == cudaGraphNodeTypeMemset;
    for (stubNode* b : node->before) (*exec)->before[place].push_back(places.at(b));
  }
  ++stub::instances, ++stub::live;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
  ++stub::launches;
  stub::elapsed = exec->elapsed;
  std::vector<bool> done(exec->nodes.size(), false);
  for (size_t count = 0; count < done.size(); ++count)
    for (size_t n = done.size(); n-- > 0;) {
      const size_t k = stub::launches % 2 ? n : done.size() - 1 - n;
      bool ready = !done[k];
      for (size_t b : exec->before[k]) ready = ready && done[b];
      if (!ready) continue;
      exec->nodes[k].work();
      done[k] = true;
      break;
    }
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  --stub::live;
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* out, size_t* count) {
  std::vector<stubNode*> all;
  for (auto& node : graph->nodes) all.push_back(node.get());
  return stub::listed(all, out, count);
}
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* out, size_t* count) {
  std::vector<stubNode*> all;
  for (auto& node : graph->nodes)
    if (node->before.empty()) all.push_back(node.get());
  return stub::listed(all, out, count);
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = node->type;
  return cudaSuccess;
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* out,
                                                cudaGraphEdgeData*, size_t* count) {
  return stub::listed(node->before, out, count);
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* out,
                                                  cudaGraphEdgeData*, size_t* count) {
  std::vector<stubNode*> all;
  for (auto& other : node->graph->nodes)
    for (stubNode* b : other->before)
      if (b == node) all.push_back(other.get());
  return stub::listed(all, out, count);
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t* from,
                                            const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                            size_t count) {
  for (size_t k = 0; k < count; ++k) to[k]->before.push_back(from[k]);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  auto& nodes = node->graph->nodes;
  for (auto& other : nodes) {
    std::vector<stubNode*> kept;
    for (stubNode* b : other->before)
      if (b != node) kept.push_back(b);
    other->before = kept;
  }
  for (auto at = nodes.begin(); at != nodes.end(); ++at)
    if (at->get() == node) return nodes.erase(at), cudaSuccess;
  return 1;
}
cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* how) {
  *how = node->memset;
  return cudaSuccess;
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                          const cudaGraphNode_t* before, size_t count,
                                          const cudaMemsetParams* how) {
  *node = stub::add(graph, {cudaGraphNodeTypeMemset, stub::clearing(*how), *how,
                            {before, before + count}});
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t n, cudaStream_t stream) {
  const cudaMemsetParams how{p, 0, static_cast<unsigned>(value), 1, n, 1};
  return stub::submit(stream, stub::clearing(how), cudaGraphNodeTypeMemset, how);
}
