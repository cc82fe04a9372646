// Weights of few bits in panels of 16 columns, as `weight_panels.py` writes them. It follows abi.hpp.
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace opinfo_weight_only {
namespace {

constexpr int kColumns = 16;  // of a panel
// Bytes of weights that are requested before they are used. They go into the second cache: the
// first one would not keep so many.
constexpr int kAhead = 12288;
// Sixteen values; where vectors are narrower, the compiler keeps them in memory.
typedef float Floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t Numbers __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t Halves __attribute__((vector_size(32), aligned(2), may_alias));

// The widest vector that is in a register.
#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
typedef float Lanes __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
typedef uint32_t LaneWords __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
typedef int32_t LaneNumbers __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

// A matrix of `depth` rows and `columns` columns. In the data of a panel, word `n` of 16 has four
// values of column `n` in a row, and `8 / bits` such quads one above the other in each byte. A block
// has one scale for each column, in `scales` by panel, block and column; `zeros` are alike.
struct Weights {
  int64_t depth, columns;
  int64_t group;   // values with one scale, the last group perhaps has fewer
  int64_t block;   // values of a block with those that fill it up; a group may be several blocks
  int64_t part;    // values of a block without those
  int64_t blocks;  // of a panel
  int32_t offset;  // subtracted from all values, if there are no zeros
  const uint8_t* data;
  const void *scales, *zeros;

  int64_t panels() const { return (columns + kColumns - 1) / kColumns; }
  // The first value of a block in the matrix, and how many there are.
  int64_t first(int64_t b) const {
    const int64_t parts = (group + part - 1) / part;
    return b / parts * group + b % parts * part;
  }
  int64_t count(int64_t b) const {
    const int64_t at = first(b), parts = (group + part - 1) / part;
    return std::min({part, group - b % parts * part, depth - at});
  }
};

inline Floats all_of(float value) { return value - Floats{}; }

// Sixteen floats from memory: float32, or float16 by bits.
inline Floats widened(const float* from) { return *reinterpret_cast<const Floats*>(from); }
inline Floats widened(const uint16_t* from) {
#if defined(__AVX512F__)
  return reinterpret_cast<Floats>(_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)from)));
#elif defined(__F16C__)
  union { __m256 halves[2]; Floats all; } out;
  out.halves[0] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from));
  out.halves[1] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(from + 8)));
  return out.all;
#else
  const Words h = __builtin_convertvector(*reinterpret_cast<const Halves*>(from), Words);
  // A normal number has its exponent moved by 112; infinity and NaN by another 112.
  const Words magnitude = (h & 0x7fff) << 13, sign = (h & 0x8000) << 16;
  const Words special = magnitude >= 0x0f800000 ? Words{} + 0x38000000 : Words{};
  const Floats normal = reinterpret_cast<Floats>(magnitude + 0x38000000 + special);
  const Floats small = __builtin_convertvector(reinterpret_cast<Numbers>(h & 0x3ff), Floats) * 0x1p-24f;
  const Floats out = magnitude < 0x00800000 ? small : normal;
  return reinterpret_cast<Floats>(reinterpret_cast<Words>(out) | sign);
#endif
}

// Vectors of floats from memory, which have a multiple of sixteen.
template <int count>
inline void read_lanes(const float* from, Lanes (&to)[count]) {
#pragma GCC unroll 4
  for (int v = 0; v < count; ++v) to[v] = *reinterpret_cast<const Lanes*>(from + v * kLanes);
}
template <int count>
inline void read_lanes(const uint16_t* from, Lanes (&to)[count]) {
#if defined(__AVX512F__) || !defined(__F16C__)
  for (int k = 0; k < count * kLanes; k += kColumns) {
    const Floats all = widened(from + k);
    std::memcpy(to + k / kLanes, &all, sizeof all);
  }
#else
#pragma GCC unroll 4
  for (int v = 0; v < count; ++v)
    to[v] = reinterpret_cast<Lanes>(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(from + v * kLanes))));
#endif
}

}  // namespace
}  // namespace opinfo_weight_only
