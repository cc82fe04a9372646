// What runs the parallel loops of TVM's code in libraries whose other code runs on the threads of GNU
// OpenMP: the same threads. TVM's own pool would be one more, whose threads spin on the cores that
// the others need. It follows common/threads.hpp.
#include <cstdint>

// As in tvm/ffi/c_api.h. Each thread has its own raised error.
extern "C" {
void TVMFFIErrorMoveFromRaised(void** error);
void TVMFFIErrorSetRaised(void* error);
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
int TVMFFIObjectDecRef(void* object);
}

// As in tvm/runtime/c_backend_api.h.
struct TVMParallelGroupEnv {
  void* sync_handle;
  int32_t num_task;
};
using Task = int (*)(int task, TVMParallelGroupEnv* group, void* data);

namespace {

// Tasks may run one after the other, so they cannot wait for each other: no code with barriers is
// linked with this.
int launch(Task task, void* data, int count) {
  TVMParallelGroupEnv group{nullptr, count > 0 ? count : opinfo::most_threads()};
  std::atomic<int> code{0};
  std::atomic<void*> error{nullptr};  // the first one
  opinfo::in_parallel(group.num_task, [&](int64_t k) {
    const int failed = task(static_cast<int>(k), &group, data);
    if (!failed) return;
    void *raised = nullptr, *none = nullptr;
    TVMFFIErrorMoveFromRaised(&raised);
    if (raised && !error.compare_exchange_strong(none, raised)) TVMFFIObjectDecRef(raised);
    code = failed;
  });
  if (void* raised = error) {
    TVMFFIErrorSetRaised(raised);
    TVMFFIObjectDecRef(raised);
  } else if (code != 0) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", "a parallel loop failed");
  }
  return code;
}

}  // namespace

// Code of TVM calls what this points to. It is hidden, so that TVM, which would let it point to its
// own pool when it loads the library, does not find it.
extern "C" {
__attribute__((visibility("hidden"))) void* __TVMBackendParallelLaunch =
    reinterpret_cast<void*>(&launch);
}
