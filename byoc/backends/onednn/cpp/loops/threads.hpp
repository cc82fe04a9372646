
// The library's threads, for loops that are not the library's. It follows tensors.hpp.
#include <unistd.h>

#include <atomic>
#include <exception>

// The library's threads; without them, one thread does it all.
extern "C" {
__attribute__((weak)) void GOMP_parallel(void (*)(void*), void*, unsigned, unsigned);
__attribute__((weak)) int omp_get_max_threads();
__attribute__((weak)) void omp_set_num_threads(int);
}

namespace opinfo_onednn {
namespace {

inline int most_threads() { return GOMP_parallel && omp_get_max_threads ? omp_get_max_threads() : 1; }

// The bytes of the second cache.
inline int64_t second_cache() {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? bytes : 1 << 20;
}

// Calls for 0, 1, ... before `count`, by as many threads as there may be.
template <typename Each>
void in_parallel(int64_t count, const Each& each) {
  struct Work {
    const Each& each;
    int64_t count;
    std::atomic<int64_t> next{0};
    std::mutex mutex;
    std::exception_ptr error;

    void run() {
      try {
        for (int64_t k; (k = next++) < count;) each(k);
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex);
        error = std::current_exception();
      }
    }
  } work{each, count};
  const auto threads = static_cast<unsigned>(std::min<int64_t>(most_threads(), count));
  if (threads > 1)
    GOMP_parallel([](void* w) { static_cast<Work*>(w)->run(); }, &work, threads, 0);
  else
    work.run();
  if (work.error) std::rethrow_exception(work.error);
}

// Primitives that are created while it lives run in one thread.
class OneThread {
 public:
  explicit OneThread(bool wanted) : before_(wanted && most_threads() > 1 ? most_threads() : 0) {
    if (before_) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_) omp_set_num_threads(before_);
  }

 private:
  int before_;
};

}  // namespace
}  // namespace opinfo_onednn
