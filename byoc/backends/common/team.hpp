// In code whose loops run on GNU OpenMP's threads: tells other code of the same library that they do.
// A weak definition, as several files may have it.
extern "C" {
__attribute__((weak, visibility("hidden"))) char opinfo_has_team = 1;
}

// A fork has the thread that forked and no others, but GNU OpenMP would wait for them. So a thread
// ends those of its team before it forks; they start again with the next loop, in both processes.
#include <pthread.h>

extern "C" {
__attribute__((weak)) int omp_pause_resource_all(int);
}

namespace {
[[maybe_unused]] const int ends_team_before_forks = pthread_atfork(
    [] {
      constexpr int kHard = 2;  // omp_pause_hard
      if (omp_pause_resource_all) omp_pause_resource_all(kHard);
    },
    nullptr, nullptr);
}  // namespace
