// Loops over the threads of GNU OpenMP, which oneDNN has too: two pools would take the cores from
// each other, as the threads of both spin while they wait.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

// Without these, one thread does it all.
extern "C" {
__attribute__((weak)) void GOMP_parallel(void (*)(void*), void*, unsigned, unsigned);
__attribute__((weak)) int omp_get_max_threads();
__attribute__((weak)) int omp_get_thread_num();
__attribute__((weak)) void omp_set_num_threads(int);
}

namespace opinfo {
namespace {

[[maybe_unused]] int most_threads() {
  const bool all = GOMP_parallel && omp_get_max_threads && omp_get_thread_num;
  return all ? omp_get_max_threads() : 1;
}

// Calls for 0, 1, ... before `count`, by as many threads as there may be. Each thread has a part of
// the numbers, which it goes through in order, and then helps with those of other threads.
template <typename Each>
void in_parallel(int64_t count, const Each& each) {
  const auto threads = static_cast<int>(std::min<int64_t>(most_threads(), count));
  if (threads <= 1) {
    for (int64_t k = 0; k < count; ++k) each(k);
    return;
  }
  struct alignas(64) Part {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  struct Work {
    const Each& each;
    std::vector<Part> parts;
    std::mutex mutex;
    std::exception_ptr error;

    void run() {
      const size_t own = omp_get_thread_num();
      try {
        for (size_t p = 0; p < parts.size(); ++p) {
          Part& part = parts[(own + p) % parts.size()];
          for (int64_t k; (k = part.next++) < part.end;) each(k);
        }
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex);
        error = std::current_exception();
      }
    }
  } work{each, std::vector<Part>(threads)};
  for (int64_t p = 0; p < threads; ++p) {
    work.parts[p].next = count * p / threads;
    work.parts[p].end = count * (p + 1) / threads;
  }
  GOMP_parallel([](void* w) { static_cast<Work*>(w)->run(); }, &work, threads, 0);
  if (work.error) std::rethrow_exception(work.error);
}

}  // namespace
}  // namespace opinfo
