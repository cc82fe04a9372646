// Loops over the threads of GNU OpenMP, which oneDNN has too: two pools would take the cores from
// each other, as the threads of both spin while they wait.
//
// The end of a loop waits for all threads. If another process has the core of one of them, that lasts
// until the system runs the thread again, some milliseconds, which is longer than most loops. Nor do
// threads that wait leave a core to one that has work. So after such a wait, loops run in the calling
// thread alone for a while.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <exception>
#include <mutex>
#include <vector>

// Without these, one thread does it all.
extern "C" {
__attribute__((weak)) void GOMP_parallel(void (*)(void*), void*, unsigned, unsigned);
__attribute__((weak)) int omp_get_max_threads();
__attribute__((weak)) int omp_get_thread_num();
__attribute__((weak)) void omp_set_num_threads(int);
// When loops may have several threads again, in nanoseconds, and how long they were alone last. All
// code of a library has the same.
__attribute__((weak, visibility("hidden"))) std::atomic<int64_t> opinfo_alone_until{0};
__attribute__((weak, visibility("hidden"))) std::atomic<int64_t> opinfo_alone_for{0};
}

namespace opinfo {
namespace {

[[maybe_unused]] int most_threads() {
  const bool all = GOMP_parallel && omp_get_max_threads && omp_get_thread_num;
  return all ? omp_get_max_threads() : 1;
}

inline int64_t nanoseconds(clockid_t clock = CLOCK_MONOTONIC) {
  timespec t{};
  clock_gettime(clock, &t);
  return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}

// The time before a loop: on the wall, and of the calling thread on a core as of the last millisecond,
// as that clock takes longer to read.
struct Before {
  int64_t wall, read, used;

  static Before loop(int64_t now) {
    constexpr int64_t kOften = 1'000'000;
    static thread_local Before last{0, -kOften, 0};
    if (now - last.read > kOften) last = {now, now, nanoseconds(CLOCK_THREAD_CPUTIME_ID)};
    last.wall = now;
    return last;
  }
};

// Notes a loop that ended at `end`, for which the calling thread worked until `worked`. On an idle
// machine, the others have at most one call left then, and no thread loses its core meanwhile. A
// machine that stays busy is asked ever more rarely.
inline void note_end(const Before& before, int64_t worked, int64_t end) {
  constexpr int64_t kLate = 500'000, kLost = 2'000'000, kShort = 8'000'000, kLong = 256'000'000;
  const int64_t last = opinfo_alone_for.load(std::memory_order_relaxed);
  bool late = end - worked > worked - before.wall + kLate;
  if (!late && end - before.wall > kLost)
    late = end - before.read - (nanoseconds(CLOCK_THREAD_CPUTIME_ID) - before.used) > kLost;
  if (late) {
    const int64_t next = std::min(std::max(2 * last, kShort), kLong);
    opinfo_alone_for.store(next, std::memory_order_relaxed);
    opinfo_alone_until.store(end + next, std::memory_order_relaxed);
  } else if (last && end - opinfo_alone_until.load(std::memory_order_relaxed) > kLong) {
    opinfo_alone_for.store(0, std::memory_order_relaxed);
  }
}

// Calls for 0, 1, ... before `count`, by as many threads as there may be. Each thread has a part of
// the numbers, which it goes through in order, and then helps with those of other threads.
template <typename Each>
void in_parallel(int64_t count, const Each& each) {
  const auto threads = static_cast<int>(std::min<int64_t>(most_threads(), count));
  const int64_t start = threads > 1 ? nanoseconds() : 0;
  if (threads <= 1 || start < opinfo_alone_until.load(std::memory_order_relaxed)) {
    for (int64_t k = 0; k < count; ++k) each(k);
    return;
  }
  const Before before = Before::loop(start);
  struct alignas(64) Part {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  struct Work {
    const Each& each;
    std::vector<Part> parts;
    std::mutex mutex;
    std::exception_ptr error;
    int64_t worked_until = 0;

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
      if (own == 0) worked_until = nanoseconds();
    }
  } work{each, std::vector<Part>(threads)};
  for (int64_t p = 0; p < threads; ++p) {
    work.parts[p].next = count * p / threads;
    work.parts[p].end = count * (p + 1) / threads;
  }
  GOMP_parallel([](void* w) { static_cast<Work*>(w)->run(); }, &work, threads, 0);
  note_end(before, work.worked_until, nanoseconds());
  if (work.error) std::rethrow_exception(work.error);
}

}  // namespace
}  // namespace opinfo
