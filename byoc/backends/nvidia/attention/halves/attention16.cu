// Attention in half precision, o = softmax(scale q kᵀ + mask) v, for few queries and keys: by tensor cores, from
// memory to registers.
//
// Dao et al., FlashAttention-2, 2023: keys come in tiles; the largest score m, the sum l of the weights
// and the result are corrected when a tile raises m. A warp has 16 queries. `splits` warps of a block
// divide the keys among them, as few heads leave multiprocessors idle, and add their results at the end.
//
// Products do not depend on the order in which elements are added, so each thread reads 16 bytes side by
// side, of a row of queries, keys or values, and what lies where in a fragment follows from that.
//
// Defined by the host: D, the elements of a head, a multiple of 32; BFLOAT16 and MASKED, 0 or 1. It
// follows tensor_cores.cuh and attention16.h. Blocks have 4 warps.
#define TILE 32
#define PARTS (TILE / 8)
#define GROUPS (D / 32)
#define CO (D / 8)
#define LD (D + 4)
#define NONE (-__int_as_float(0x7f800000))
#define LOG2E 1.4426950408889634f
using Element = unsigned short;

// Two numbers as halves.
__device__ inline unsigned pair(float low, float high) {
#ifdef EMULATED
  return emulated::narrow(low, 1 + BFLOAT16) |
         static_cast<unsigned>(emulated::narrow(high, 1 + BFLOAT16)) << 16;
#else
  unsigned out;
#if BFLOAT16
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
#else
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
#endif
  return out;
#endif
}

__device__ inline float wide(Element x) {
#ifdef EMULATED
  return emulated::wide(x, 1 + BFLOAT16);
#elif BFLOAT16
  return __uint_as_float(static_cast<unsigned>(x) << 16);
#else
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
#endif
}

__device__ inline uint4 eight(const Element* from, bool inside) {
  return inside ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
}

// CO elements side by side.
__device__ inline void several(unsigned (&to)[CO / 2], const Element* from, bool inside) {
#pragma unroll
  for (int k = 0; k < CO / 2; k += CO % 8 == 0 ? 4 : 2) {
    if constexpr (CO % 8 == 0) {
      const uint4 x = eight(from + 2 * k, inside);
      to[k] = x.x, to[k + 1] = x.y, to[k + 2] = x.z, to[k + 3] = x.w;
    } else {
      const uint2 x = inside ? *reinterpret_cast<const uint2*>(from + 2 * k) : make_uint2(0, 0);
      to[k] = x.x, to[k + 1] = x.y;
    }
  }
}

// Of the four threads that have a row.
__device__ inline float highest(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

__device__ inline float added(float x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}

extern "C" __global__ void __launch_bounds__(128) attention16(Attention16 a) {
  extern __shared__ float4 room[];
  float* all = reinterpret_cast<float*>(room);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, quad = lane & 3, line = lane >> 2;
  const int part = warp % a.splits, rows = 64 / a.splits;
  const int blocks = (a.queries + rows - 1) / rows, both = blockIdx.x / blocks;
  const int row0 = blockIdx.x % blocks * rows, first = row0 + warp / a.splits * 16;
  const int head = both % a.heads, batch = both / a.heads;
  const Element* q = static_cast<const Element*>(a.q) + batch * a.q_steps[0] + head * a.q_steps[1];
  const Element* k = static_cast<const Element*>(a.k) + batch * a.k_steps[0] +
                     head / a.keys_shared * a.k_steps[1] + quad * 8;
  const Element* v = static_cast<const Element*>(a.v) + batch * a.v_steps[0] +
                     head / a.values_shared * a.v_steps[1] + line * CO;
  const Element* mask = static_cast<const Element*>(a.mask);
  if (MASKED) mask += batch * a.mask_steps[0] + head * a.mask_steps[1];
  uint4 queries[2][GROUPS];
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
      const int row = first + line + 8 * r;
      queries[r][g] = eight(q + row * a.q_steps[2] + g * 32 + quad * 8, row < a.queries);
    }
  float m[2] = {NONE, NONE}, l[2] = {0.f, 0.f}, o[CO][4];
#pragma unroll
  for (int j = 0; j < CO; ++j)
#pragma unroll
    for (int c = 0; c < 4; ++c) o[j][c] = 0.f;
  // All warps take as many turns.
  const int end = a.causal != 0 ? min(a.keys, row0 + rows + a.shift) : a.keys;
  for (int begin = 0; begin < end; begin += TILE * a.splits) {
    const int key0 = begin + part * TILE;
    // Asked for before they are needed.
    unsigned values[TILE / 4][CO / 2];
#pragma unroll
    for (int n = 0; n < TILE / 4; ++n) {
      const int key = key0 + n / 2 * 8 + quad * 2 + n % 2;
      several(values[n], v + key * a.v_steps[2], key < a.keys);
    }
    float s[PARTS][4];
#pragma unroll
    for (int n = 0; n < PARTS; ++n) {
      const int key = key0 + n * 8 + line;
#pragma unroll
      for (int c = 0; c < 4; ++c) s[n][c] = 0.f;
#pragma unroll
      for (int g = 0; g < GROUPS; ++g) {
        const uint4 x = eight(k + key * a.k_steps[2] + g * 32, key < a.keys);
        const uint4 &up = queries[0][g], &low = queries[1][g];
        multiply(s[n], up.x, low.x, up.y, low.y, x.x, x.y);
        multiply(s[n], up.z, low.z, up.w, low.w, x.z, x.w);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first + line + 8 * r;
      float best = m[r];
#pragma unroll
      for (int n = 0; n < PARTS; ++n)
#pragma unroll
        for (int c = 2 * r; c < 2 * r + 2; ++c) {
          const int key = key0 + n * 8 + quad * 2 + c % 2;
          const bool hidden = key >= a.keys || (a.causal != 0 && key > row + a.shift);
          float x = s[n][c] * a.scale;
          if (MASKED && key < a.keys && row < a.queries)
            x += wide(mask[row * a.mask_steps[2] + key * a.mask_steps[3]]);
          s[n][c] = hidden ? NONE : x * LOG2E;
          best = fmaxf(best, s[n][c]);
        }
      best = highest(best);
      const float base = best == NONE ? 0.f : best, factor = exp2f(m[r] - base);
      m[r] = best;
      l[r] *= factor;
#pragma unroll
      for (int n = 0; n < PARTS; ++n)
#pragma unroll
        for (int c = 2 * r; c < 2 * r + 2; ++c) {
          s[n][c] = exp2f(s[n][c] - base);
          l[r] += s[n][c];
        }
#pragma unroll
      for (int j = 0; j < CO; ++j)
#pragma unroll
        for (int c = 2 * r; c < 2 * r + 2; ++c) o[j][c] *= factor;
    }
#pragma unroll
    for (int n = 0; n < PARTS; n += 2) {
      const unsigned a0 = pair(s[n][0], s[n][1]), a1 = pair(s[n][2], s[n][3]),
                     a2 = pair(s[n + 1][0], s[n + 1][1]), a3 = pair(s[n + 1][2], s[n + 1][3]);
#pragma unroll
      for (int j = 0; j < CO; ++j) {
        const unsigned w = values[2 * n][j / 2], x = values[2 * n + 1][j / 2],
                       y = values[2 * n + 2][j / 2], z = values[2 * n + 3][j / 2];
        const bool low = j % 2 == 0;
        multiply(o[j], a0, a1, a2, a3, low ? (w & 0xffffu) | x << 16 : w >> 16 | (x & 0xffff0000u),
                 low ? (y & 0xffffu) | z << 16 : y >> 16 | (z & 0xffff0000u));
      }
    }
  }
  float* sums = all + 64 * LD;  // the largest score and the sum of each row
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = warp * 16 + line + 8 * r;
    const float sum = added(l[r]);
    if (quad == 0) sums[2 * row] = m[r], sums[2 * row + 1] = sum;
#pragma unroll
    for (int j = 0; j < CO; ++j) {
      all[row * LD + 2 * quad * CO + j] = o[j][2 * r];
      all[row * LD + (2 * quad + 1) * CO + j] = o[j][2 * r + 1];
    }
  }
  __syncthreads();
  const int group = warp - part;  // the first warp with these queries
  for (int n = part * 32 + lane; n < 16 * (D / 8); n += 32 * a.splits) {
    const int line_of = n / (D / 8), at = n % (D / 8) * 8, row = first + line_of;
    if (row >= a.queries) continue;
    float best = NONE, total = 0.f, x[8] = {};
    for (int w = 0; w < a.splits; ++w)
      best = fmaxf(best, sums[2 * ((group + w) * 16 + line_of)]);
    for (int w = 0; w < a.splits; ++w) {
      const int from = (group + w) * 16 + line_of;
      const float weight = exp2f(sums[2 * from] - best);
      total += weight * sums[2 * from + 1];
#pragma unroll
      for (int c = 0; c < 8; ++c) x[c] += weight * all[from * LD + at + c];
    }
#pragma unroll
    for (int c = 0; c < 8; ++c) x[c] /= total;
    Element* to = static_cast<Element*>(a.o) + batch * a.o_steps[0] + head * a.o_steps[1] +
                  row * a.o_steps[2] + at;
    *reinterpret_cast<uint4*>(to) =
        make_uint4(pair(x[0], x[1]), pair(x[2], x[3]), pair(x[4], x[5]), pair(x[6], x[7]));
  }
}
