// A function of a model as one CUDA graph, which reads its arguments and writes its results where
// they are. It follows runtime.hpp and first_clears.hpp.
//
// A graph has the addresses of the tensors of the call that it was captured from. It is launched for
// calls with the same addresses and shapes only, so it does not matter which tensors these are. If
// addresses do not come again, tensors that move are copied to some that graphs own, and results back.
#include <cstdlib>
#include <deque>

namespace opinfo_graphs __attribute__((visibility("hidden"))) {

using Key = std::vector<int64_t>;

// TVM has the error.
struct Raised {};

inline size_t bytes_of(const DLTensor* t) {
  int64_t count = 1;
  for (int k = 0; k < t->ndim; ++k) count *= t->shape[k];
  return (static_cast<size_t>(count) * t->dtype.bits * t->dtype.lanes + 7) / 8;
}

// The arguments of __tvm_ffi_opinfo_graph_run.
struct Call {
  enum { kMachine, kState, kNumber, kClosure, kWritten, kInputs, kResults, kFirst };
  // Larger tensors are not copied.
  static constexpr size_t kCopied = size_t{64} << 20;

  Call(const TVMFFIAny* args, int32_t count)
      : machine(args[kMachine]), closure(args[kClosure]), rest(args + kFirst, args + count),
        inputs(args[kInputs].v_int64), results(args[kResults].v_int64) {
    const TVMFFIShapeCell* indices = TVMFFIShapeGetCellPtr(args[kWritten].v_obj);
    fixed.assign(inputs + results, false);
    for (size_t k = 0; k < indices->size; ++k) fixed[indices->data[k]] = true;
    written = fixed;
    shapes = {args[kNumber].v_int64};
    for (int64_t k = 0; k < inputs + results; ++k) tensors.push_back(opinfo::tensor(rest[k]));
    for (int64_t k = 0; k < inputs + results && plain; ++k) describe(k);
  }

  void describe(int64_t k) {
    const DLTensor* t = tensors[k];
    if (t != nullptr && device < 0) device = t->device.device_id;
    if (t == nullptr || !opinfo::is_compact(t) || bytes_of(t) == 0 ||
        t->device.device_id != device) {
      plain = false;
      return;
    }
    fixed[k] = fixed[k] || bytes_of(t) > kCopied || shares_memory(k);
    shapes.insert(shapes.end(), t->shape, t->shape + t->ndim);
    const int64_t address = reinterpret_cast<intptr_t>(opinfo::data(t));
    (fixed[k] ? shapes : addresses).push_back(address);
    if (!fixed[k]) moving.push_back(k);
  }

  // Whether a tensor overlaps one that is written in place: its copy would not see that.
  bool shares_memory(int64_t k) const {
    for (int64_t other = 0; other < inputs; ++other) {
      const DLTensor *a = tensors[k], *b = tensors[other];
      if (other == k || !written[other] || b == nullptr) continue;
      if (opinfo::data(a) < opinfo::data(b) + bytes_of(b) &&
          opinfo::data(b) < opinfo::data(a) + bytes_of(a))
        return true;
    }
    return false;
  }

  void run(const std::vector<TVMFFIAny>& given) const {
    static TVMFFIObjectHandle invoke = [] {
      const char name[] = "vm.builtin.invoke_closure";
      const TVMFFIByteArray text{name, sizeof(name) - 1};
      TVMFFIObjectHandle out = nullptr;
      return TVMFFIFunctionGetGlobal(&text, &out) == 0 ? out : nullptr;
    }();
    if (invoke == nullptr) throw std::runtime_error("TVM's runtime has no virtual machine");
    std::vector<TVMFFIAny> all{machine, closure};
    all.insert(all.end(), given.begin(), given.end());
    TVMFFIAny result{};
    if (TVMFFIFunctionCall(invoke, all.data(), static_cast<int32_t>(all.size()), &result) != 0)
      throw Raised{};
    if (result.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(result.v_obj);
  }

  TVMFFIAny machine, closure;
  std::vector<TVMFFIAny> rest;  // inputs, results, and where intermediates are
  int64_t inputs, results;
  std::vector<bool> written, fixed;  // in place; not to be copied
  std::vector<const DLTensor*> tensors;
  int device = -1;
  bool plain = true;  // whether a graph may do it
  Key shapes, addresses;  // of what a graph may do for this call, and of what only one may
  std::vector<int64_t> moving;  // the tensors that `addresses` has
};

// Which tensors of calls with the same shapes have moved: those are copied, and weights are not.
struct Moved {
  Key last;
  std::vector<bool> flags;

  // Notes a call, and returns whether it is the first one.
  bool note(const Call& c) {
    const bool first = flags.empty();
    if (first) flags.assign(c.tensors.size(), false);
    for (size_t n = 0; n < c.moving.size(); ++n)
      if (c.moving[n] >= c.inputs || (!first && last[n] != c.addresses[n]))
        flags[c.moving[n]] = true;
    last = c.addresses;
    return first;
  }

  size_t bytes(const Call& c) const {
    size_t out = 0;
    for (int64_t k : c.moving) out += flags[k] ? bytes_of(c.tensors[k]) : 0;
    return out;
  }

  // The key of a graph for which the others are where they are in a call.
  Key key(const Call& c) const {
    Key out = c.shapes;
    for (size_t n = 0; n < c.moving.size(); ++n)
      out.push_back(flags[c.moving[n]] ? -1 : c.addresses[n]);
    return out;
  }
};

// A tensor as another one, elsewhere.
class Copy {
 public:
  Copy(const DLTensor* like, Shared memory) : memory_(std::move(memory)) {
    auto* owner = new Owner{{like->shape, like->shape + like->ndim}, {}};
    owner->managed.dl_tensor = *like;
    owner->managed.dl_tensor.data = memory_->data();
    owner->managed.dl_tensor.byte_offset = 0;
    owner->managed.dl_tensor.shape = owner->shape.data();
    owner->managed.dl_tensor.strides = nullptr;
    owner->managed.manager_ctx = owner;
    owner->managed.deleter = [](DLManagedTensor* t) { delete static_cast<Owner*>(t->manager_ctx); };
    if (TVMFFITensorFromDLPack(&owner->managed, 0, 0, &tensor_) != 0) throw Raised{};
  }
  Copy(const Copy&) = delete;
  ~Copy() { TVMFFIObjectDecRef(tensor_); }
  char* data() const { return memory_->data(); }
  TVMFFIAny any() const {
    TVMFFIAny out{};
    out.type_index = kTVMFFITensor;
    out.v_obj = static_cast<TVMFFIObject*>(tensor_);
    return out;
  }

 private:
  struct Owner {
    Key shape;
    DLManagedTensor managed;
  };
  Shared memory_;
  TVMFFIObjectHandle tensor_ = nullptr;
};

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
    c.run(given);
    then();
    Recording to(stream_, scratch_, owned_);
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

// Calls a function of a virtual machine: see Call.
OPINFO_FUNCTION(opinfo_graph_run) {
  TVMFFIObjectHandle state = args[opinfo_graphs::Call::kState].v_obj;
  return TVMFFIFunctionCall(state, const_cast<TVMFFIAny*>(args), count, result);
}
