// attention32.cu on the host: a block's threads are fibers, which change at each barrier. KERNEL is
// the file with its source.
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using std::min;

#define __device__
#define __global__
#define __shared__
#define __launch_bounds__(n)
#define __syncthreads() emulated::wait()
#define __syncwarp() emulated::wait()
#define __shfl_xor_sync(mask, x, k) emulated::exchange(x, k)
#define __int_as_float(bits) std::numeric_limits<float>::infinity()

struct float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct Index {
  unsigned x = 0;
};
Index threadIdx, blockIdx;
alignas(16) float4 room[(128 << 10) / sizeof(float4)];

namespace emulated {
constexpr int kThreads = 128, kStack = 64 << 10;
ucontext_t scheduler, fibers[kThreads];
std::vector<char> stacks(kThreads* kStack);
bool done[kThreads];
float slots[kThreads];
int current = 0;

inline void wait() {
  const unsigned thread = threadIdx.x;
  swapcontext(&fibers[current], &scheduler);
  threadIdx.x = thread;
}

inline float exchange(float x, int k) {
  slots[threadIdx.x] = x;
  wait();
  const float other = slots[threadIdx.x ^ k];
  wait();
  return other;
}
}  // namespace emulated

#include KERNEL

static Attention32 argument;
static void run() {
  attention32(argument);
  emulated::done[emulated::current] = true;
  setcontext(&emulated::scheduler);
}

extern "C" int launch(unsigned blocks, unsigned y, unsigned z, unsigned threads,
                      unsigned bytes, void** arguments) {
  using namespace emulated;
  if (y != 1 || z != 1 || threads != kThreads || bytes > sizeof(room)) return 1;
  argument = *static_cast<Attention32*>(arguments[0]);
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    // What a block leaves behind must not be read by the next one.
    std::fill_n(reinterpret_cast<float*>(room), bytes / 4, std::nanf(""));
    for (int k = 0; k < kThreads; ++k) {
      done[k] = false;
      getcontext(&fibers[k]);
      fibers[k].uc_stack.ss_sp = &stacks[k * kStack];
      fibers[k].uc_stack.ss_size = kStack;
      makecontext(&fibers[k], run, 0);
    }
    while (!std::all_of(done, done + kThreads, [](bool d) { return d; }))
      for (current = 0; current < kThreads; ++current)
        if (!done[current]) {
          threadIdx.x = current;
          swapcontext(&scheduler, &fibers[current]);
        }
  }
  return 0;
}