// Kernels on the host: a block's threads are fibers, which change at each barrier. KERNEL is the file
// with their source, which ends with EMULATED_KERNEL(name, type of the argument) for each of them.
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

using std::min;

#define EMULATED
#define __device__
#define __global__
#define __shared__
#define __launch_bounds__(n)
#define __syncthreads() emulated::wait()
#define __syncwarp() emulated::wait()
#define __shfl_xor_sync(mask, x, k) emulated::exchange(x, k)
#define __int_as_float(bits) std::numeric_limits<float>::infinity()
#define __umulhi(a, b) static_cast<unsigned>(static_cast<uint64_t>(a) * (b) >> 32)

struct float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
struct uint2 {
  unsigned x, y;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
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
// Halves as bits, by the number of their format: 1 is float16, 2 bfloat16.
inline float wide(unsigned short x, int format) {
  if (format == 1) {
    _Float16 half;
    std::memcpy(&half, &x, 2);
    return static_cast<float>(half);
  }
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float y;
  std::memcpy(&y, &bits, 4);
  return y;
}
inline unsigned short narrow(float x, int format) {
  unsigned short y;
  if (format == 1) {
    const _Float16 half = static_cast<_Float16>(x);
    std::memcpy(&y, &half, 2);
    return y;
  }
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<unsigned short>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// c += a b, of 16 x 16 and 16 x 8 halves: mma.m16n8k16 of PTX, whose documentation says which elements
// a lane has. All warps multiply equally often.
inline void multiply(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                     unsigned b1, int format) {
  static unsigned given[kThreads][6];
  const unsigned own[6] = {a0, a1, a2, a3, b0, b1};
  std::copy(own, own + 6, given[threadIdx.x]);
  wait();
  const unsigned warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
  const auto half = [&](unsigned from, int word, int k) {
    return wide(static_cast<unsigned short>(given[warp + from][word] >> 16 * (k % 2)), format);
  };
  for (int n = 0; n < 4; ++n) {
    const unsigned row = lane / 4 + n / 2 * 8, column = lane % 4 * 2 + n % 2;
    for (int k = 0; k < 16; ++k)
      c[n] += half(row % 8 * 4 + k % 8 / 2, (row >= 8) + 2 * (k >= 8), k) *
              half(column * 4 + k % 8 / 2, 4 + (k >= 8), k);
  }
  wait();
}

inline int launch(void (*thread)(), unsigned blocks, unsigned y, unsigned z, unsigned threads,
                  unsigned bytes) {
  if (y != 1 || z != 1 || threads != kThreads || bytes > sizeof(room)) return 1;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    // What a block leaves behind must not be read by the next one.
    std::fill_n(reinterpret_cast<float*>(room), bytes / 4, std::nanf(""));
    for (int k = 0; k < kThreads; ++k) {
      done[k] = false;
      getcontext(&fibers[k]);
      fibers[k].uc_stack.ss_sp = &stacks[k * kStack];
      fibers[k].uc_stack.ss_size = kStack;
      makecontext(&fibers[k], thread, 0);
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

inline void end() {
  done[current] = true;
  setcontext(&scheduler);
}
}  // namespace emulated

#define EMULATED_KERNEL(name, Argument)                                                        \
  static Argument name##_argument;                                                             \
  extern "C" unsigned bytes_##name;                                                            \
  unsigned bytes_##name = sizeof(Argument);                                                    \
  static void name##_thread() {                                                                \
    name(name##_argument);                                                                     \
    emulated::end();                                                                           \
  }                                                                                            \
  extern "C" int launch_##name(unsigned blocks, unsigned y, unsigned z, unsigned threads,      \
                               unsigned bytes, void** arguments) {                             \
    name##_argument = *static_cast<Argument*>(arguments[0]);                                   \
    return emulated::launch(name##_thread, blocks, y, z, threads, bytes);                      \
  }

#include KERNEL
