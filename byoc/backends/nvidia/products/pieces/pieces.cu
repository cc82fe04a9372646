// Numbers of float32 as three pieces of bfloat16, x = x0 + x1 + x2, and rows that have no such pieces. It
// follows pieces.h. Blocks have 128 threads.
struct Pieces {
  unsigned short at[3];
};

#ifdef EMULATED
__device__ inline unsigned short narrow(float x) { return emulated::narrow(x, 2); }
__device__ inline float wide(unsigned short x) { return emulated::wide(x, 2); }
#else
__device__ inline unsigned short narrow(float x) {
  unsigned short y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
__device__ inline float wide(unsigned short x) {
  return __uint_as_float(static_cast<unsigned>(x) << 16);
}
#endif

// Each piece is what is nearest to the rest. Rests are exact.
__device__ inline Pieces cut(float x) {
  Pieces out;
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    out.at[k] = narrow(x);
    x -= wide(out.at[k]);
  }
  return out;
}

// Infinite if it is not finite.
__device__ inline float magnitude(float x) {
  x = fabsf(x);
  return x <= 3.402823466e38f ? x : __int_as_float(0x7f800000);
}

// Writes the largest number of a block's threads.
__device__ inline void write_largest(float x, float* to) {
  extern __shared__ float4 room[];
  float* warps = reinterpret_cast<float*>(room);
#pragma unroll
  for (int k = 16; k > 0; k /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, k));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0) *to = fmaxf(fmaxf(warps[0], warps[1]), fmaxf(warps[2], warps[3]));
}

// Rows of the first operand, whose numbers are side by side and a multiple of 4; a block has one.
extern "C" __global__ void __launch_bounds__(128) cut_rows(Cuts c) {
  const unsigned units = c.depth / 4;
  const float4* from = reinterpret_cast<const float4*>(c.from + blockIdx.x * c.row);
  uint2* to = reinterpret_cast<uint2*>(c.to) + static_cast<long long>(blockIdx.x) * 6 * units;
  constexpr int kPlaces[6] = {2, 0, 1, 1, 0, 0};
  float largest = 0.f;
  for (unsigned k = threadIdx.x; k < units; k += 128) {
    const float4 x = from[k];
    const Pieces p[4] = {cut(x.x), cut(x.y), cut(x.z), cut(x.w)};
    largest = fmaxf(largest, fmaxf(fmaxf(magnitude(x.x), magnitude(x.y)),
                                   fmaxf(magnitude(x.z), magnitude(x.w))));
#pragma unroll
    for (int place = 0; place < 6; ++place) {
      const int n = kPlaces[place];
      to[place * units + k] = make_uint2(p[0].at[n] | static_cast<unsigned>(p[1].at[n]) << 16,
                                         p[2].at[n] | static_cast<unsigned>(p[3].at[n]) << 16);
    }
  }
  write_largest(largest, c.largest + blockIdx.x);
}

// Columns of the second operand, which lie anywhere; a block has one.
extern "C" __global__ void __launch_bounds__(128) cut_columns(Cuts c) {
  const float* from = c.from + blockIdx.x * c.row;
  unsigned short* to = c.to + static_cast<long long>(blockIdx.x) * 6 * c.depth;
  constexpr int kPlaces[6] = {0, 2, 1, 0, 1, 0};
  float largest = 0.f;
  for (unsigned k = threadIdx.x; k < c.depth; k += 128) {
    const float x = from[k * c.step];
    const Pieces p = cut(x);
    largest = fmaxf(largest, magnitude(x));
#pragma unroll
    for (int place = 0; place < 6; ++place) to[place * c.depth + k] = p.at[kPlaces[place]];
  }
  write_largest(largest, c.largest + blockIdx.x);
}

// Comparisons keep what is not a number.
__device__ inline float activated(int after, float x) {
  if (after == kReluAfter) return x < 0.f ? 0.f : x;
  if (after == kGeluAfter)
    return 0.5f * x * (1.f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
  return x;
}

// A block has 32 rows and 512 columns. Nearly all blocks find nothing to do.
extern "C" __global__ void __launch_bounds__(128) repair_rows(Repair r) {
  constexpr unsigned kRows = 32, kEach = 4, kColumns = 128 * kEach;
  const unsigned parts = (r.columns + kColumns - 1) / kColumns;
  const unsigned row0 = blockIdx.x / parts * kRows, column0 = blockIdx.x % parts * kColumns;
  unsigned bad = 0;
#pragma unroll
  for (unsigned k = 0; k < kRows; ++k) {
    if (row0 + k >= r.rows) continue;
    const float largest = r.largest[row0 + k];
    const bool fits = largest == 0.f || (largest >= r.least && largest <= r.most);
    bad |= static_cast<unsigned>(!fits) << k;
  }
  for (unsigned row = row0; bad != 0; ++row, bad >>= 1) {
    if (bad % 2 == 0) continue;
    const float* a = r.a + static_cast<long long>(row) * r.depth;
    const float* b[kEach];
    float sums[kEach] = {};
#pragma unroll
    for (unsigned n = 0; n < kEach; ++n)
      b[n] = r.b + min(column0 + threadIdx.x + 128 * n, r.columns - 1) * r.column;
    for (unsigned k = 0; k < r.depth; ++k)
#pragma unroll
      for (unsigned n = 0; n < kEach; ++n) sums[n] = fmaf(a[k], b[n][k * r.step], sums[n]);
#pragma unroll
    for (unsigned n = 0; n < kEach; ++n) {
      const unsigned column = column0 + threadIdx.x + 128 * n;
      if (column >= r.columns) continue;
      const long long place = static_cast<long long>(row) * r.columns + column;
      float value = r.alpha * sums[n];
      if (r.residual != nullptr) value += r.residual[place];
      if (r.bias != nullptr) value += r.bias[column];
      r.d[place] = activated(r.after, value);
    }
  }
}
