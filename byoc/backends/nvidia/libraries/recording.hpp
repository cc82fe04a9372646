// What a graph of a whole call uses beside the tensors of the call, while one_graph.hpp captures it:
// memory, and what must live as long as the graph. The files of a model's library share it; it is
// hidden from other libraries.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace opinfo_graphs __attribute__((visibility("hidden"))) {

inline void must(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

// Memory of the current device.
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes) { must(cudaMalloc(&data_, bytes), "memory"); }
  Memory(const Memory&) = delete;
  ~Memory() { cudaFree(data_); }
  char* data() const { return static_cast<char*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

using Shared = std::shared_ptr<const Memory>;

// At least `bytes`. Graphs keep what was outgrown, so it grows by factors.
inline const Memory& grown(Shared& memory, size_t bytes) {
  const size_t size = memory == nullptr ? 0 : memory->bytes();
  if (size < bytes) memory = std::make_shared<Memory>(std::max(bytes, 2 * size));
  return *memory;
}

// The last node of a capture: null if it has none. Throws if there are several.
inline cudaGraphNode_t last_node(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* nodes = nullptr;
  size_t count = 0;
#if CUDART_VERSION >= 13000
  const cudaGraphEdgeData* edges = nullptr;
  must(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count), "capture");
#elif CUDART_VERSION >= 12030
  const cudaGraphEdgeData* edges = nullptr;
  must(cudaStreamGetCaptureInfo_v3(stream, &status, &id, &graph, &nodes, &edges, &count),
       "capture");
#else
  must(cudaStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &nodes, &count), "capture");
#endif
  if (count > 1) throw std::runtime_error("capture: the stream has forked");
  return count == 0 ? nullptr : nodes[0];
}

// Memory that only one call of a library uses in a graph: what the library clears before all else,
// it may as well clear when the graph begins. `before` is the last node before the call.
struct Own {
  char* begin;
  size_t bytes;
  cudaGraphNode_t before;
};

inline size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

class Recording {
 public:
  // `scratch` is of all graphs that run one after the other, as those of a virtual machine do, and
  // so is `owned`, of which each call has a part of its own, `bytes` in all.
  Recording(cudaStream_t stream, Shared& scratch, Shared& owned, size_t bytes)
      : stream_(stream), scratch_(scratch), owned_(owned), bytes_(std::min(bytes, kOwned)) {}

  cudaStream_t stream() const { return stream_; }
  const std::vector<Own>& own() const { return own_; }
  std::vector<std::shared_ptr<const void>>& kept() { return kept_; }

  // Something that a captured kernel needs.
  void keep(std::shared_ptr<const void> what) { kept_.push_back(std::move(what)); }

  // Kernels use it in turn.
  void* scratch(size_t bytes) {
    const Memory& memory = grown(scratch_, bytes);
    keep(scratch_);
    return memory.data();
  }

  // For the next call only, or the scratch of all if there is too little.
  void* own(size_t bytes) {
    if (used_ + aligned(bytes) > bytes_) return scratch(bytes);
    char* begin = grown(owned_, bytes_).data() + used_;
    if (used_ == 0) keep(owned_);
    used_ += aligned(bytes);
    own_.push_back({begin, bytes, last_node(stream_)});
    return begin;
  }

 private:
  static constexpr size_t kOwned = size_t{64} << 20;

  cudaStream_t stream_;
  Shared& scratch_;
  Shared& owned_;
  size_t bytes_, used_ = 0;
  std::vector<Own> own_;
  std::vector<std::shared_ptr<const void>> kept_;
};

// What this thread captures.
inline Recording*& recording() {
  static thread_local Recording* current = nullptr;
  return current;
}

// Where this thread counts what calls of libraries need of their own, before it captures them.
inline size_t*& counted() {
  static thread_local size_t* current = nullptr;
  return current;
}

}  // namespace opinfo_graphs
