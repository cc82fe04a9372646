// Loops over TVM's threads. It follows abi.hpp.
#include <atomic>
#include <exception>

// The pool that TVM's own parallel loops use; without it, one thread does it all.
extern "C" __attribute__((weak)) int TVMBackendParallelLaunch(int (*)(int, void*, void*), void*, int);

namespace opinfo_weight_only {
namespace {

// Calls for 0, 1, ... before `count`, by TVM's threads if `parallel`.
template <typename Each>
void each_of(int64_t count, bool parallel, const Each& each) {
  struct Work {
    const Each& each;
    const int64_t count;
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
  const auto run = [](int, void*, void* w) {
    static_cast<Work*>(w)->run();
    return 0;
  };
  if (!parallel || count < 2 || TVMBackendParallelLaunch == nullptr ||
      TVMBackendParallelLaunch(run, &work, 0) != 0)
    work.run();
  if (work.error) std::rethrow_exception(work.error);
}

}  // namespace
}  // namespace opinfo_weight_only
