// Threads of a runtime beside those of other code in the same library. Threads that wait for work spin
// for some milliseconds, on the cores that those of another pool need. It follows common/threads.hpp.
#include <sched.h>

#include <condition_variable>
#include <mutex>

// Defined where other code of the library uses GNU OpenMP, and where it uses OpenVINO.
extern "C" {
extern char opinfo_has_team __attribute__((weak));
extern char opinfo_has_openvino __attribute__((weak));
}

namespace {

// Whether other code of this library computes in several threads of GNU OpenMP.
bool beside_team() { return &opinfo_has_team != nullptr && opinfo::most_threads() > 1; }

// Whether other code of this library computes in threads of OpenVINO's.
bool beside_openvino() { return &opinfo_has_openvino != nullptr; }

// `work()`, for which another pool of threads needs the cores: meanwhile, the other threads of GNU
// OpenMP yield theirs, and sleep if it takes long. They come back a little before the next loop.
template <typename Work>
int while_team_yields(const Work& work) {
  if (!beside_team()) return work();
  constexpr int kYields = 1 << 12;
  struct Meanwhile {
    const Work& work;
    int code = 0;
    std::atomic<bool> done{false};
    std::mutex mutex;
    std::condition_variable over;

    void run() {
      if (omp_get_thread_num() == 0) {
        code = work();
        std::lock_guard<std::mutex> lock(mutex);
        done = true;
        over.notify_all();
        return;
      }
      for (int k = 0; k < kYields && !done; ++k) sched_yield();
      std::unique_lock<std::mutex> lock(mutex);
      over.wait(lock, [this] { return done.load(); });
    }
  } meanwhile{work};
  GOMP_parallel([](void* m) { static_cast<Meanwhile*>(m)->run(); }, &meanwhile,
                opinfo::most_threads(), 0);
  return meanwhile.code;
}

}  // namespace
