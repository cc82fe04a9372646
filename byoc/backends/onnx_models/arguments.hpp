// What functions of regions share that run an ONNX model: models, threads, and checked arguments.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>

namespace {

opinfo::Constants models;

// Whether a tensor has this element type. A bool may also be called an unsigned integer.
bool is_of(const DLTensor* t, ElementType type) {
  const bool named = t->dtype.code == type.code || (type.code == kDLBool && t->dtype.code == kDLUInt);
  return named && t->dtype.bits == type.bits && t->dtype.lanes == 1;
}

// The tensors of a call; an error if they are not what the region was made for.
int checked(const Region& region, const TVMFFIAny* args, int32_t count,
            std::vector<const DLTensor*>& tensors) {
  const int expected = region.inputs + region.results;
  if (count != expected)
    return opinfo::fail("TypeError", std::string(region.name) + ": " + std::to_string(count) +
                                         " arguments, expected " + std::to_string(expected));
  tensors.resize(expected);
  for (int k = 0; k < expected; ++k) {
    const DLTensor* t = tensors[k] = opinfo::tensor(args[k]);
    if (t == nullptr || t->device.device_type != kDLCPU || !is_of(t, region.types[k]) ||
        !opinfo::is_compact(t))
      return opinfo::fail("TypeError", std::string(region.name) + ": argument " +
                                           std::to_string(k) + " must be a plain CPU tensor of " +
                                           "the dtype that the region was compiled for");
  }
  return 0;
}

size_t bytes(const DLTensor* t) {
  size_t out = t->dtype.bits / 8;
  for (int k = 0; k < t->ndim; ++k) out *= t->shape[k];
  return out;
}

// The number of threads; 0 if the runtime decides.
int threads() {
  for (const char* name : {"OMP_NUM_THREADS", "TVM_NUM_THREADS"})
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return 0;
}

// What a process makes of the models once, and again after a fork, in which threads are missing.
// `make` leaves its results in a place of its own and returns 0 or an error.
class OncePerProcess {
 public:
  template <typename Make>
  int operator()(Make make) {
    if (owner_.load(std::memory_order_acquire) == getpid()) return 0;
    std::lock_guard<std::mutex> lock(mutex_);
    if (owner_.load(std::memory_order_relaxed) == getpid()) return 0;
    const int code = make();
    if (code == 0) owner_.store(getpid(), std::memory_order_release);
    return code;
  }
  bool is_mine() const { return owner_.load(std::memory_order_acquire) == getpid(); }

 private:
  std::mutex mutex_;
  std::atomic<pid_t> owner_{0};
};

}  // namespace
