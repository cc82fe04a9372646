// The device of a call: its stream, the graph that is captured, memory that kernels use in turn, and
// memory for a call that nobody made yet. It follows common/regions.hpp and recording.hpp.
#include <tvm/ffi/extra/c_env_api.h>

#include <map>
#include <mutex>
#include <sstream>
#include <tuple>

#define OPINFO_UNUSED __attribute__((unused))

// The device that tensors must be on: a test of the generated code builds it for another one.
#ifndef OPINFO_DEVICE
#define OPINFO_DEVICE kDLCUDA
#endif

namespace opinfo_nvidia {
namespace {  // two models in one process share nothing

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    OPINFO_THROW(RuntimeError) << what << ": " << cudaGetErrorString(status);
}

// The device of a call is the current one until it returns.
class Current {
 public:
  explicit Current(int device) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    if (device != before_) check(cudaSetDevice(device), "cudaSetDevice");
    changed_ = device != before_;
  }
  ~Current() {
    if (changed_) cudaSetDevice(before_);
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

inline cudaStream_t stream_of(int device) {
  return static_cast<cudaStream_t>(TVMFFIEnvGetStream(OPINFO_DEVICE, device));
}

// The capture of a graph from a stream; while it lives, its thread may allocate memory.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamGetCaptureInfo(stream, &status, &id_), "capture");
    if (status != cudaStreamCaptureStatusActive) id_ = 0;
    if (id_ != 0) check(cudaThreadExchangeStreamCaptureMode(&mode_), "capture");
  }
  ~Capture() {
    if (id_ != 0) cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  // Another number for each graph; 0 if the stream runs what it is given.
  unsigned long long id() const { return id_; }

 private:
  unsigned long long id_ = 0;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// Memory that kernels of one stream use in turn. A graph that TVM captures has its own, as it may run
// beside that stream. What was outgrown is kept: another thread may be about to hand it to a kernel.
// Nothing is freed at exit, when the driver may be gone. `own`: what is in it at first matters to
// the library, see opinfo_graphs::Own.
OPINFO_UNUSED void* workspace(int device, cudaStream_t stream, size_t bytes, bool own = false) {
  using Key = std::tuple<int, cudaStream_t, unsigned long long>;
  static std::mutex mutex;
  static std::map<Key, std::pair<void*, size_t>> all;
  if (bytes == 0) return nullptr;
  const Capture capture(stream);
  if (own && opinfo_graphs::counted() != nullptr)
    *opinfo_graphs::counted() += opinfo_graphs::aligned(bytes);
  opinfo_graphs::Recording* to = opinfo_graphs::recording();
  if (to != nullptr && to->stream() == stream) return own ? to->own(bytes) : to->scratch(bytes);
  std::lock_guard<std::mutex> lock(mutex);
  auto& [room, size] = all[{device, stream, capture.id()}];
  if (size < bytes) {
    size_t more = std::max(bytes, 2 * size);
    check(cudaMalloc(&room, more), "workspace");
    size = more;
  }
  return room;
}

// Memory for the arguments of a region that nobody called yet.
class Trial {
 public:
  explicit Trial(const std::vector<const int64_t*>& specs) {
    for (const int64_t* spec : specs) {
      tensors_.push_back({});
      tensors_.back().ndim = static_cast<int32_t>(spec[0]);
      tensors_.back().shape = const_cast<int64_t*>(spec + 3);
      int64_t bytes = spec[2];
      for (int64_t k = 0; k < spec[0]; ++k) bytes *= spec[3 + k];
      bytes = std::max<int64_t>(bytes / 8, 1);
      data_.push_back(nullptr);
      good_ = good_ && cudaMalloc(&data_.back(), bytes) == cudaSuccess &&
              cudaMemset(data_.back(), 0, bytes) == cudaSuccess;
    }
  }
  Trial(const Trial&) = delete;
  ~Trial() {
    for (void* p : data_) cudaFree(p);
    cudaGetLastError();
  }
  explicit operator bool() const { return good_; }
  void* const* data() const { return data_.data(); }
  std::vector<const DLTensor*> tensors() const {
    std::vector<const DLTensor*> out;
    for (const DLTensor& t : tensors_) out.push_back(&t);
    return out;
  }

 private:
  std::vector<DLTensor> tensors_;
  std::vector<void*> data_;
  bool good_ = true;
};

}  // namespace
}  // namespace opinfo_nvidia

