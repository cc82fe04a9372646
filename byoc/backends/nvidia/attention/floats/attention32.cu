// Attention in float32, o = softmax(scale q kᵀ + mask) v, by a block of threads for BR queries.
//
// Dao et al., FlashAttention-2, 2023: keys come in tiles of BC; the largest score m, the sum l of
// the weights and the result are corrected when a tile raises m. Without tensor cores, which would
// round operands. A thread has rows ty + 8 r of a tile, and its columns tx + 16 c.
//
// Defined by the host: D, the elements of a head, a multiple of 16; RM, rows of a thread;
// CAUSAL and MASKED, 0 or 1. It follows attention32.h.
#define BR (8 * RM)
#define BC 64
#define LD (D + 4)
#define LP (BC + 4)
#define CO (D / 16)
#define V (CO % 4 == 0 ? 4 : CO % 2 == 0 ? 2 : 1)
#define NONE (-__int_as_float(0x7f800000))
#define LOG2E 1.4426950408889634f
// Whether registers suffice to fetch values and the next keys while products are computed.
#define AHEAD (RM * D <= 256)

__device__ inline float highest(float x) {
  for (int k = 8; k > 0; k >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, k));
  return x;
}

__device__ inline float added(float x) {
  for (int k = 8; k > 0; k >>= 1) x += __shfl_xor_sync(0xffffffff, x, k);
  return x;
}

// Rows on their way to shared memory: all are asked for before the first is awaited.
template <int ROWS>
struct Rows {
  static constexpr int N = (ROWS * (D / 4) + 127) / 128;
  float4 x[N];

  // Zeros after the last row.
  __device__ inline void fetch(const float* from, long long step, int first, int count) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int i = threadIdx.x + 128 * n, row = first + i / (D / 4), at = i % (D / 4) * 4;
      x[n] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (row < count && i < ROWS * (D / 4))
        x[n] = *reinterpret_cast<const float4*>(from + row * step + at);
    }
  }

  __device__ inline void put(float* to) const {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int i = threadIdx.x + 128 * n;
      if (i < ROWS * (D / 4))
        *reinterpret_cast<float4*>(to + i / (D / 4) * LD + i % (D / 4) * 4) = x[n];
    }
  }
};

// The same in turns, which takes few registers: other blocks compute meanwhile.
template <int ROWS>
__device__ inline void load(float* to, const float* from, long long step, int first, int count,
                            float scale) {
  for (int i = threadIdx.x; i < ROWS * (D / 4); i += 128) {
    const int row = i / (D / 4), at = i % (D / 4) * 4;
    float4 x = make_float4(0.f, 0.f, 0.f, 0.f);
    if (first + row < count)
      x = *reinterpret_cast<const float4*>(from + (first + row) * step + at);
    x.x *= scale, x.y *= scale, x.z *= scale, x.w *= scale;
    *reinterpret_cast<float4*>(to + row * LD + at) = x;
  }
}

// A tile with up to 16 C keys. `rows` are its values, and then the next keys, if fetched ahead.
template <int C>
__device__ inline void tile(const Attention32& a, const float* Q, float* K, float* W,
                            const float* mask, int row0, int key0, float (&m)[RM], float (&l)[RM],
                            float (&o)[RM][CO], Rows<BC>& rows, const float* keys) {
  const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
  float s[RM][C];
#pragma unroll
  for (int r = 0; r < RM; ++r)
#pragma unroll
    for (int c = 0; c < C; ++c) s[r][c] = 0.f;
#pragma unroll 2
  for (int d = 0; d < D; d += 4) {
    float4 k[C];
#pragma unroll
    for (int c = 0; c < C; ++c) k[c] = *reinterpret_cast<const float4*>(K + (tx + 16 * c) * LD + d);
#pragma unroll
    for (int r = 0; r < RM; ++r) {
      const float4 q = *reinterpret_cast<const float4*>(Q + (ty + 8 * r) * LD + d);
#pragma unroll
      for (int c = 0; c < C; ++c) {
        s[r][c] = fmaf(q.x, k[c].x, s[r][c]);
        s[r][c] = fmaf(q.y, k[c].y, s[r][c]);
        s[r][c] = fmaf(q.z, k[c].z, s[r][c]);
        s[r][c] = fmaf(q.w, k[c].w, s[r][c]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < RM; ++r) {
    const int row = row0 + ty + 8 * r;
    float best = m[r];
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const int key = key0 + tx + 16 * c;
      if (MASKED && row < a.queries && key < a.keys)
        s[r][c] += mask[row * a.mask_row + key * a.mask_key];
      if (key >= a.keys || (CAUSAL && key > row + a.shift)) s[r][c] = NONE;
      best = fmaxf(best, s[r][c]);
    }
    best = highest(best);
    const float base = best == NONE ? 0.f : best, factor = exp2f((m[r] - base) * LOG2E);
    m[r] = best;
    l[r] *= factor;
#pragma unroll
    for (int c = 0; c < C; ++c) {
      s[r][c] = exp2f((s[r][c] - base) * LOG2E);
      l[r] += s[r][c];
    }
#pragma unroll
    for (int c = 0; c < CO; ++c) o[r][c] *= factor;
  }
  __syncthreads();  // the weights take the place of the keys
#pragma unroll
  for (int r = 0; r < RM; ++r)
#pragma unroll
    for (int c = 0; c < C; ++c) K[(ty + 8 * r) * LP + tx + 16 * c] = s[r][c];
  if (AHEAD) {
    rows.put(W);
    __syncthreads();
    rows.fetch(keys, a.k_row, key0 + BC, a.keys);
  } else {
    __syncwarp();  // a row is written and read by the same half of a warp
  }
#pragma unroll 2
  for (int j = 0; j < 16 * C; j += 4) {
    float v[4][CO];
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int c = 0; c < CO; c += V)
#pragma unroll
        for (int i = 0; i < V; ++i) v[n][c + i] = W[(j + n) * LD + tx * V + 16 * c + i];
#pragma unroll
    for (int r = 0; r < RM; ++r) {
      const float4 p = *reinterpret_cast<const float4*>(K + (ty + 8 * r) * LP + j);
#pragma unroll
      for (int c = 0; c < CO; ++c) {
        o[r][c] = fmaf(p.x, v[0][c], o[r][c]);
        o[r][c] = fmaf(p.y, v[1][c], o[r][c]);
        o[r][c] = fmaf(p.z, v[2][c], o[r][c]);
        o[r][c] = fmaf(p.w, v[3][c], o[r][c]);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(128) attention32(Attention32 a) {
  extern __shared__ float4 room[];
  float* Q = reinterpret_cast<float*>(room);
  float* K = Q + BR * LD;
  float* W = K + (BC * LD > BR * LP ? BC * LD : BR * LP);
  const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
  const int tiles = (a.queries + BR - 1) / BR;
  const int row0 = blockIdx.x % tiles * BR, batch = blockIdx.x / tiles;
  const long long at[3] = {batch / (a.second * a.third), batch / a.third % a.second,
                           batch % a.third};
  long long q = 0, k = 0, v = 0, out = 0, mask = 0;
  for (int n = 0; n < 3; ++n) {
    q += at[n] * a.q_batch[n], k += at[n] * a.k_batch[n], v += at[n] * a.v_batch[n];
    out += at[n] * a.o_batch[n], mask += at[n] * a.mask_batch[n];
  }
  float m[RM], l[RM], o[RM][CO];
#pragma unroll
  for (int r = 0; r < RM; ++r) {
    m[r] = NONE, l[r] = 0.f;
#pragma unroll
    for (int c = 0; c < CO; ++c) o[r][c] = 0.f;
  }
  load<BR>(Q, a.q + q, a.q_row, row0, a.queries, a.scale);
  int end = a.keys;
  if (CAUSAL) end = min(end, row0 + BR + a.shift);
  Rows<BC> rows;
  if (AHEAD) rows.fetch(a.k + k, a.k_row, 0, a.keys);
  for (int key0 = 0; key0 < end; key0 += BC) {
    __syncthreads();
    if (AHEAD) {
      rows.put(K);
      rows.fetch(a.v + v, a.v_row, key0, a.keys);
    } else {
      load<BC>(K, a.k + k, a.k_row, key0, a.keys, 1.f);
      load<BC>(W, a.v + v, a.v_row, key0, a.keys, 1.f);
    }
    __syncthreads();
    const int groups = (min(end - key0, BC) + 15) / 16;
    if (groups == 1)
      tile<1>(a, Q, K, W, a.mask + mask, row0, key0, m, l, o, rows, a.k + k);
    else if (groups == 2)
      tile<2>(a, Q, K, W, a.mask + mask, row0, key0, m, l, o, rows, a.k + k);
    else if (groups == 3)
      tile<3>(a, Q, K, W, a.mask + mask, row0, key0, m, l, o, rows, a.k + k);
    else
      tile<4>(a, Q, K, W, a.mask + mask, row0, key0, m, l, o, rows, a.k + k);
  }
#pragma unroll
  for (int r = 0; r < RM; ++r) {
    const int row = row0 + ty + 8 * r;
    const float sum = added(l[r]), weight = 1.f / sum;
    if (row >= a.queries) continue;
    float* to = a.o + out + row * a.o_row + tx * V;
#pragma unroll
    for (int c = 0; c < CO; c += V)
#pragma unroll
      for (int i = 0; i < V; ++i) to[16 * c + i] = o[r][c + i] * weight;
  }
}
