// What runs the parallel loops of TVM's code: the threads of GNU OpenMP, where the library has them.
// TVM's own pool would be one more, whose threads spin on the cores that the others need. It follows
// common/threads.hpp.
#include <cstdint>

extern "C" void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);

// Defined where other code of the library uses GNU OpenMP; the process may have it for others.
extern "C" {
extern char opinfo_has_team __attribute__((weak));
}

// As in tvm/runtime/c_backend_api.h.
struct TVMParallelGroupEnv {
  void* sync_handle;
  int32_t num_task;
};
using Task = int (*)(int task, TVMParallelGroupEnv* group, void* data);

namespace {

int launch(Task task, void* data, int count) {
  const bool team = &opinfo_has_team != nullptr;
  TVMParallelGroupEnv group{nullptr, count > 0 ? count : team ? opinfo::most_threads() : 1};
  std::atomic<int> code{0};
  const auto run = [&](int64_t k) {
    if (const int failed = task(static_cast<int>(k), &group, data)) code = failed;
  };
  if (team)
    opinfo::in_parallel(group.num_task, run);
  else
    for (int k = 0; k < group.num_task; ++k) run(k);
  if (code != 0)  // the thread that failed had the error for itself
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", "a parallel loop failed");
  return code;
}

}  // namespace

// Code of TVM calls what this points to. It is hidden, so that TVM, which would let it point to its
// own pool when it loads the library, does not find it.
extern "C" {
__attribute__((visibility("hidden"))) void* __TVMBackendParallelLaunch =
    reinterpret_cast<void*>(&launch);
}
