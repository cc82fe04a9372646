// A function of a model as one CUDA graph, which reads its arguments and writes its results where
// they are. It follows graph_calls.hpp and first_clears.hpp.
//
// A graph has the addresses of the tensors of the call that it was captured from. It is launched for
// calls with the same addresses and shapes only, so it does not matter which tensors these are. If
// addresses do not come again, tensors that move are copied to some that graphs own, and results back.
#include <cstdlib>
#include <deque>

namespace opinfo_graphs __attribute__((visibility("hidden"))) {

// A captured graph, with what it needs; `copies` are the tensors that it has in place of a call's.
struct Graph {
  cudaGraphExec_t exec = nullptr;
  std::vector<std::shared_ptr<const void>> kept;
  std::vector<std::unique_ptr<Copy>> copies;
  uint64_t used = 0;

  Graph() = default;
  Graph(const Graph&) = delete;
  ~Graph() {
    if (exec != nullptr) cudaGraphExecDestroy(exec);
  }
};

// What calls of libraries need of their own is counted while this lives.
class Counting {
 public:
  explicit Counting(size_t& to) { counted() = &to; }
  ~Counting() { counted() = nullptr; }
};

// Kernels go to a graph while this lives.
class Capturing {
 public:
  Capturing(int device, Recording& to) : device_(device), stream_(to.stream()) {
    if (TVMFFIEnvSetStream(OPINFO_DEVICE, device, stream_, &before_) != 0) throw Raised{};
    recording() = &to;
    // Other threads may allocate memory meanwhile.
    status_ = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
    if (status_ != cudaSuccess) restore();
    must(status_, "a graph cannot be captured");
  }
  ~Capturing() {
    if (stream_ == nullptr) return;
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(stream_, &graph) != cudaSuccess) cudaGetLastError();
    if (graph != nullptr) cudaGraphDestroy(graph);
    restore();
  }
  cudaGraph_t end() {
    cudaGraph_t graph = nullptr;
    status_ = cudaStreamEndCapture(stream_, &graph);
    restore();
    if (status_ != cudaSuccess) cudaGetLastError();
    must(status_, "a graph cannot be captured");
    return graph;
  }

 private:
  void restore() {
    recording() = nullptr;
    TVMFFIEnvSetStream(OPINFO_DEVICE, device_, before_, nullptr);
    stream_ = nullptr;
  }

  int device_;
  cudaStream_t stream_;
  TVMFFIStreamHandle before_ = nullptr;
  cudaError_t status_ = cudaSuccess;
};

// The graphs of a virtual machine, of all its functions. They have the same memory for intermediates,
// so they run one after the other, whichever streams they are launched on.
class State {
 public:
  State() = default;
  State(const State&) = delete;
  ~State() {
    int before = 0;
    if (device_ < 0 || cudaGetDevice(&before) != cudaSuccess) return;
    cudaSetDevice(device_);
    cudaDeviceSynchronize();
    graphs_.clear();
    cudaStreamDestroy(stream_);
    if (event_ != nullptr) cudaEventDestroy(event_);
    cudaSetDevice(before);
  }

  void call(const TVMFFIAny* args, int32_t count) {
    const Call c(args, count);
    if (c.device < 0) return c.run(c.rest);
    const opinfo_nvidia::Current current(c.device);
    const cudaStream_t stream = opinfo_nvidia::stream_of(c.device);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    must(cudaStreamIsCapturing(stream, &status), "stream");
    // The graph of whoever captures this stream has the kernels.
    if (status != cudaStreamCaptureStatusNone) return c.run(c.rest);
    follow(c.device, stream);
    if (c.plain && c.device == device_)
      serve(c, stream);
    else
      c.run(c.rest);
    if (event_ != nullptr) must(cudaEventRecord(event_, stream), "event");
  }

 private:
  // What was called on another stream is complete before what is called on this one begins.
  void follow(int device, cudaStream_t stream) {
    unsigned long long id = 0;
    must(cudaStreamGetId(stream, &id), "stream");
    if (device_ < 0) {
      must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
      device_ = device;
    } else if (id != last_ && event_ == nullptr) {
      must(cudaDeviceSynchronize(), "stream");
      must(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "event");
    } else if (id != last_) {
      must(cudaStreamWaitEvent(stream, event_, 0), "stream");
    }
    last_ = id;
  }

  void serve(const Call& c, cudaStream_t stream) {
    Key in_place = c.shapes;
    in_place.insert(in_place.end(), c.addresses.begin(), c.addresses.end());
    if (const Graph* graph = found(in_place)) return launch(*graph, stream);
    if (seen_again(in_place))
      return added(in_place, [&](Graph& graph) { record(c, c.rest, graph, [] {}); });
    if (known_.size() > kKnown) known_.clear();
    Moved& moved = known_[c.shapes];
    const bool first = moved.note(c);
    const Key key = moved.key(c);
    if (const Graph* graph = found(key)) return launch_copied(c, *graph, stream);
    if (first || moved.bytes(c) > kCopied) return c.run(c.rest);
    added(key, [&](Graph& graph) { record_copied(c, moved, graph, stream); });
  }

  // Fill a new graph; it is gone if that fails.
  template <typename Fill>
  void added(const Key& key, Fill fill) {
    Graph& graph = graphs_[key];
    graph.used = ++calls_;
    try {
      fill(graph);
    } catch (...) {
      graphs_.erase(key);
      throw;
    }
    if (graphs_.size() > most_) drop_oldest();
  }

  const Graph* found(const Key& key) {
    const auto at = graphs_.find(key);
    if (at == graphs_.end()) return nullptr;
    at->second.used = ++calls_;
    return &at->second;
  }

  // Whether one of the last calls had these addresses, and now they are forgotten: a graph pays for
  // tensors that come again. Otherwise they are remembered.
  bool seen_again(const Key& key) {
    const auto at = std::find(seen_.begin(), seen_.end(), key);
    if (at != seen_.end()) return seen_.erase(at), true;
    seen_.push_back(key);
    if (seen_.size() > kSeen) seen_.pop_front();
    return false;
  }

  static void launch(const Graph& graph, cudaStream_t stream) {
    must(cudaGraphLaunch(graph.exec, stream), "a graph cannot be launched");
  }

  void launch_copied(const Call& c, const Graph& graph, cudaStream_t stream) {
    copy(c, graph, stream, 0, c.inputs, true);
    launch(graph, stream);
    copy(c, graph, stream, c.inputs, c.inputs + c.results, false);
  }

  void record_copied(const Call& c, const Moved& moved, Graph& graph, cudaStream_t stream) {
    graph.copies.resize(c.tensors.size());
    std::vector<TVMFFIAny> given = c.rest;
    for (int64_t k : c.moving) {
      if (!moved.flags[k]) continue;
      Shared& memory = copies_[{c.shapes[0], k}];  // of graphs for several shapes
      grown(memory, bytes_of(c.tensors[k]));
      graph.copies[k] = std::make_unique<Copy>(c.tensors[k], memory);
      given[k] = graph.copies[k]->any();
    }
    copy(c, graph, stream, 0, c.inputs, true);
    const auto back = [&] { copy(c, graph, stream, c.inputs, c.inputs + c.results, false); };
    record(c, given, graph, back);
  }

  // Between the tensors of a call and those of a graph.
  static void copy(const Call& c, const Graph& graph, cudaStream_t stream, int64_t first,
                   int64_t end, bool in) {
    for (int64_t k = first; k < end; ++k) {
      if (graph.copies[k] == nullptr) continue;
      char *own = graph.copies[k]->data(), *theirs = opinfo::data(c.tensors[k]);
      must(cudaMemcpyAsync(in ? own : theirs, in ? theirs : own, bytes_of(c.tensors[k]),
                           cudaMemcpyDeviceToDevice, stream),
           "copy");
    }
  }

  // Run the call, by which libraries choose their kernels, and capture it.
  template <typename Then>
  void record(const Call& c, const std::vector<TVMFFIAny>& given, Graph& graph, Then then) {
    size_t own = 0;
    {
      const Counting counting(own);
      c.run(given);
    }
    then();
    Recording to(stream_, scratch_, owned_, own);
    Capturing capturing(c.device, to);
    c.run(given);
    instantiate(capturing.end(), to, graph);
  }

  static void instantiate(cudaGraph_t graph, Recording& from, Graph& to) {
    const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> owner(graph, cudaGraphDestroy);
    clear_first(graph, from.own());
    must(cudaGraphInstantiateWithFlags(&to.exec, graph, 0), "a graph cannot be instantiated");
    to.kept = std::move(from.kept());
  }

  void drop_oldest() {
    const auto oldest = std::min_element(graphs_.begin(), graphs_.end(), [](auto& a, auto& b) {
      return a.second.used < b.second.used;
    });
    must(cudaDeviceSynchronize(), "a graph that may still run");
    graphs_.erase(oldest);
  }

  // How many graphs a virtual machine keeps.
  static size_t limit() {
    const char* text = std::getenv("OPINFO_CUDA_GRAPHS");
    const long value = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
    return value > 0 ? static_cast<size_t>(value) : size_t{128};
  }

  // `kCopied`: bytes of a call that are copied at most.
  static constexpr size_t kSeen = 16, kKnown = 4096, kCopied = size_t{256} << 20;

  const size_t most_ = limit();
  int device_ = -1;
  cudaStream_t stream_ = nullptr;  // for captures
  cudaEvent_t event_ = nullptr;    // after the last call, once there are several streams
  unsigned long long last_ = 0;    // the stream of the last call
  uint64_t calls_ = 0;
  Shared scratch_, owned_;
  std::map<std::pair<int64_t, int64_t>, Shared> copies_;
  std::map<Key, Graph> graphs_;
  std::deque<Key> seen_;
  std::map<Key, Moved> known_;
};

}  // namespace opinfo_graphs

// An object that has the graphs of a virtual machine, and lives as long as it.
OPINFO_FUNCTION(opinfo_graph_state) {
  const auto call = [](void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* out) {
    *out = TVMFFIAny{};
    try {
      static_cast<opinfo_graphs::State*>(self)->call(args, count);
      return 0;
    } catch (const opinfo_graphs::Raised&) {
      return -1;
    } catch (const std::exception& e) {
      return opinfo::fail("RuntimeError", e.what());
    }
  };
  *result = TVMFFIAny{};
  const auto drop = [](void* self) { delete static_cast<opinfo_graphs::State*>(self); };
  TVMFFIObjectHandle out = nullptr;
  if (TVMFFIFunctionCreate(new opinfo_graphs::State, call, drop, &out) != 0) return -1;
  result->type_index = kTVMFFIFunction;
  result->v_obj = static_cast<TVMFFIObject*>(out);
  return 0;
}

// Calls a function of a virtual machine: see Call in graph_calls.hpp.
OPINFO_FUNCTION(opinfo_graph_run) {
  TVMFFIObjectHandle state = args[opinfo_graphs::Call::kState].v_obj;
  return TVMFFIFunctionCall(state, const_cast<TVMFFIAny*>(args), count, result);
}
