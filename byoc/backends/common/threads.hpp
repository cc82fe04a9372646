// Loops over the threads of GNU OpenMP, which oneDNN has too: two pools would take the cores from
// each other, as the threads of both spin while they wait.
//
// The end of a loop waits for all threads. If another process has the core of one of them, that lasts
// until the system runs the thread again, some milliseconds, which is longer than most loops. Nor do
// threads that wait leave a core to one that has work. So after such a wait, loops run in the calling
// thread alone for a while. tests/byoc/test_late_threads.py replaces the clocks: `clock_gettime` and
// `getrusage` must stay the only ones.
#include <sys/resource.h>

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

// A thread's wall time, its time on a core, and how often the system has taken its core. A thread
// that sleeps gives its core away itself, which does not count.
struct Sample {
  int64_t wall, cpu;
  long preemptions;

  static Sample read(int64_t wall) {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);  // its times may be those of the last tick
    return {wall, nanoseconds(CLOCK_THREAD_CPUTIME_ID), usage.ru_nivcsw};
  }

  // The calling thread's sample of the last millisecond, as reading one takes longer than a clock.
  static Sample recent(int64_t wall) {
    constexpr int64_t kOften = 1'000'000;
    static thread_local Sample last{-kOften, 0, 0};
    if (wall - last.wall > kOften) last = read(wall);
    return last;
  }
};

// Whether the system kept the calling thread from its core for long between `start` and `end`, the
// present. `before` is the recent sample at `start`. Short times need no second sample.
inline bool lost_core(const Sample& before, int64_t start, int64_t end) {
  constexpr int64_t kLost = 2'000'000;
  if (end - start <= kLost) return false;
  const Sample after = Sample::read(end);
  return after.preemptions > before.preemptions &&
         after.wall - before.wall - (after.cpu - before.cpu) > kLost;
}

// A thread's part of a loop: its numbers, which other threads may take too, and its times, which only
// the thread itself writes. A thread that the team lacks has `finished` 0.
struct alignas(64) Part {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
  int64_t began = 0, finished = 0;
  bool lost = false;
};

// Whether a thread was kept from its core while others waited for it, in a loop that ended at `end`.
// The first part is the caller's. That the caller waits is not enough: calls may be uneven.
inline bool team_was_late(const std::vector<Part>& parts, int64_t end) {
  constexpr int64_t kLate = 500'000;
  const Part& caller = parts[0];
  bool late = caller.lost;
  int64_t last = caller.finished;
  for (size_t p = 1; p < parts.size(); ++p) {
    const Part& part = parts[p];
    // A thread that begins while the caller still works does no harm: alone, the caller is slower.
    late |= part.began - caller.finished > kLate;
    late |= part.lost && part.finished - caller.finished > kLate;
    last = std::max(last, part.finished);
  }
  // All threads were done, but one lost its core before the team's end.
  return late || end - last > kLate;
}

// Notes a loop that ended at `end`. A machine that stays busy is asked ever more rarely.
inline void note_end(bool late, int64_t end) {
  constexpr int64_t kShort = 8'000'000, kLong = 256'000'000;
  const int64_t last = opinfo_alone_for.load(std::memory_order_relaxed);
  if (late) {
    const int64_t next = std::min(std::max(2 * last, kShort), kLong);
    opinfo_alone_for.store(next, std::memory_order_relaxed);
    opinfo_alone_until.store(end + next, std::memory_order_relaxed);
  } else if (last && end - opinfo_alone_until.load(std::memory_order_relaxed) > kLong) {
    opinfo_alone_for.store(0, std::memory_order_relaxed);
  }
}

// A function that is called for a number; whoever takes one is compiled once for all.
class Each {
 public:
  template <typename Function>
  Each(const Function& function)
      : function_(&function),
        call_([](const void* f, int64_t k) { (*static_cast<const Function*>(f))(k); }) {}
  void operator()(int64_t k) const { call_(function_, k); }

 private:
  const void* function_;
  void (*call_)(const void*, int64_t);
};

// A loop whose numbers threads share.
struct SharedLoop {
  const Each each;
  std::vector<Part> parts;
  const int64_t start;
  const Sample at_start;  // of the caller, who may lose its core before its part begins
  std::mutex mutex;
  std::exception_ptr error;

  void run() {
    const size_t own = omp_get_thread_num();
    const int64_t began = own == 0 ? start : nanoseconds();
    const Sample before = own == 0 ? at_start : Sample::recent(began);
    try {
      for (size_t p = 0; p < parts.size(); ++p) {
        Part& part = parts[(own + p) % parts.size()];
        for (int64_t k; (k = part.next++) < part.end;) each(k);
      }
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex);
      error = std::current_exception();
    }
    Part& part = parts[own];
    part.began = began;
    part.finished = nanoseconds();
    part.lost = lost_core(before, began, part.finished);
  }
};

// Calls for 0, 1, ... before `count`, by as many threads as there may be. Each thread has a part of
// the numbers, which it goes through in order, and then helps with those of other threads.
[[maybe_unused]] __attribute__((noinline)) void in_parallel(int64_t count, Each each) {
  const auto threads = static_cast<int>(std::min<int64_t>(most_threads(), count));
  const int64_t start = threads > 1 ? nanoseconds() : 0;
  if (threads <= 1 || start < opinfo_alone_until.load(std::memory_order_relaxed)) {
    for (int64_t k = 0; k < count; ++k) each(k);
    return;
  }
  SharedLoop loop{each, std::vector<Part>(threads), start, Sample::recent(start), {}, {}};
  for (int64_t p = 0; p < threads; ++p) {
    loop.parts[p].next = count * p / threads;
    loop.parts[p].end = count * (p + 1) / threads;
  }
  GOMP_parallel([](void* shared) { static_cast<SharedLoop*>(shared)->run(); }, &loop, threads, 0);
  const int64_t end = nanoseconds();
  note_end(team_was_late(loop.parts, end), end);
  if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace
}  // namespace opinfo
