
// Caches and threads of loops that are not the library's. It follows common/threads.hpp.
#include <unistd.h>

namespace opinfo_onednn {
namespace {

using opinfo::in_parallel;
using opinfo::most_threads;

// The bytes of the second cache.
inline int64_t second_cache() {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? bytes : 1 << 20;
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
