// Times ways to compute the same on the device, as the fastest one is to be kept. It follows
// runtime.hpp.
#include <functional>

namespace opinfo_nvidia {
namespace {

// Times what is launched on a stream of its own, as CUDA graphs: at launch, small kernels cost more
// on the host than on the device.
class GraphTimer {
 public:
  // Launches one call on the timer's stream; false if it does not run.
  using Launch = std::function<bool()>;

  GraphTimer() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    for (auto& e : events_) check(cudaEventCreate(&e), "event");
  }
  GraphTimer(const GraphTimer&) = delete;
  ~GraphTimer() {
    for (auto& e : events_) cudaEventDestroy(e);
    cudaStreamDestroy(stream_);
    if (room_ != nullptr) cudaFree(room_);
    cudaGetLastError();  // of what could not run: TVM asks for it after its own kernels
  }

  cudaStream_t stream() const { return stream_; }

  // Memory of at least this size, null if there is none. It replaces what was returned before.
  void* room(int64_t bytes) {
    if (bytes <= size_) return room_;
    if (room_ != nullptr) cudaFree(room_);
    room_ = nullptr;
    size_ = cudaMalloc(&room_, bytes) == cudaSuccess ? bytes : 0;
    return size_ > 0 ? room_ : nullptr;
  }

  // Milliseconds of a call of each, negative for what does not run, or not in a CUDA graph: the
  // medians of rounds in turns, as clocks change. Slow ones are timed once, the slowest without a graph.
  // Those that are nearly as fast as the fastest one are timed for `finals` rounds more, or a second.
  std::vector<float> race(const std::vector<Launch>& launches, int rounds, int most, int finals = 0) {
    std::vector<cudaGraphExec_t> graphs(launches.size(), nullptr);
    std::vector<int> calls(launches.size(), 1);
    std::vector<std::vector<float>> times(launches.size());
    float best = INFINITY, soonest = INFINITY;
    for (size_t k = 0; k < launches.size(); ++k) {
      const float once = single(launches[k]);
      if (once < 0) continue;
      soonest = std::min(soonest, once);
      if (once > kLong && once > kFar * soonest) {  // the launch is a small part of it
        times[k] = {once};
        continue;
      }
      calls[k] = std::min(most, std::max(1, static_cast<int>(kEnough / std::max(once, 1e-4f))));
      graphs[k] = captured(launches[k], calls[k]);
      replayed(graphs[k]);
      note(replayed(graphs[k]), calls[k], times[k], best);
    }
    for (int round = 1; round < rounds; ++round)
      for (size_t k = 0; k < launches.size(); ++k)
        if (!times[k].empty() && times[k][0] <= kClose * best)
          note(replayed(graphs[k]), calls[k], times[k], best);
    std::vector<float> out;
    for (std::vector<float>& t : times) out.push_back(median(t));
    const std::vector<size_t> last = finalists(out);
    float spent = 0.0f;
    for (int round = 0; last.size() > 1 && round < finals && spent < kLongest; ++round)
      for (size_t k : last) {
        const float time = replayed(graphs[k]);
        spent += std::max(time, 0.0f);
        note(time, calls[k], times[k], best);
      }
    for (size_t k : last) out[k] = median(times[k]);
    for (cudaGraphExec_t g : graphs)
      if (g != nullptr) cudaGraphExecDestroy(g);
    return out;
  }

 private:
  // Milliseconds that a graph should take, and the part of the best time that is close to it.
  static constexpr float kEnough = 0.2f, kClose = 1.3f;
  // The part of the best median that few rounds do not tell from it.
  static constexpr float kNear = 1.05f;
  // Milliseconds of the last rounds.
  static constexpr float kLongest = 1000.0f;
  // Milliseconds of a long call, and what is far from the best one.
  static constexpr float kLong = 0.03f, kFar = 2.0f;

  static void note(float time, int calls, std::vector<float>& times, float& best) {
    if (time < 0) return;
    times.push_back(time / static_cast<float>(calls));
    best = std::min(best, times.back());
  }

  // The numbers of the ways whose medians are near the best one.
  static std::vector<size_t> finalists(const std::vector<float>& medians) {
    float best = INFINITY;
    for (float m : medians)
      if (m >= 0) best = std::min(best, m);
    std::vector<size_t> out;
    for (size_t k = 0; k < medians.size(); ++k)
      if (medians[k] >= 0 && medians[k] <= kNear * best) out.push_back(k);
    return out;
  }

  static float median(std::vector<float>& times) {
    if (times.empty()) return -1.0f;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }

  // Milliseconds of the second call, with the launch.
  float single(const Launch& launch) {
    if (!launch() || cudaStreamSynchronize(stream_) != cudaSuccess) return -1.0f;
    return between([&] { return launch(); });
  }

  cudaGraphExec_t captured(const Launch& launch, int calls) {
    if (cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
      return nullptr;
    bool good = true;
    for (int k = 0; k < calls && good; ++k) good = launch();
    cudaGraph_t graph = nullptr;
    good = cudaStreamEndCapture(stream_, &graph) == cudaSuccess && good && graph != nullptr;
    cudaGraphExec_t out = nullptr;
    if (good && cudaGraphInstantiateWithFlags(&out, graph, 0) != cudaSuccess) out = nullptr;
    if (graph != nullptr) cudaGraphDestroy(graph);
    return out;
  }

  float replayed(cudaGraphExec_t graph) {
    if (graph == nullptr) return -1.0f;
    return between([&] { return cudaGraphLaunch(graph, stream_) == cudaSuccess; });
  }

  template <typename Work>
  float between(Work work) {
    float time = 0.0f;
    const bool good = cudaEventRecord(events_[0], stream_) == cudaSuccess && work() &&
                      cudaEventRecord(events_[1], stream_) == cudaSuccess &&
                      cudaEventSynchronize(events_[1]) == cudaSuccess &&
                      cudaEventElapsedTime(&time, events_[0], events_[1]) == cudaSuccess;
    return good ? time : -1.0f;
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t events_[2] = {};
  void* room_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace
}  // namespace opinfo_nvidia
