
// Vectors of floats. It follows interface.hpp.
#include <string.h>

#include <utility>

namespace opinfo_loops {
namespace {

#define OPINFO_ALWAYS __attribute__((always_inline))
#define OPINFO_INLINE inline OPINFO_ALWAYS

typedef float Lanes __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

template <int value>
using At = std::integral_constant<int, value>;

template <typename Each, int... k>
OPINFO_INLINE void each_of(const Each& each, std::integer_sequence<int, k...>) {
  (each(At<k>()), ...);
}

// Not one call within another: each would be inlined again with all that it contains.
template <int count, typename Each>
OPINFO_INLINE void times(const Each& each) {
  each_of(each, std::make_integer_sequence<int, count>());
}

OPINFO_INLINE int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
OPINFO_INLINE Lanes all_of(float value) { return value - Lanes{}; }
OPINFO_INLINE Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }
OPINFO_INLINE void store(float* to, const Lanes& v) { *reinterpret_cast<Lanes*>(to) = v; }

typedef float Quad __attribute__((vector_size(16), aligned(4), may_alias));

#if defined(__clang__) || __GNUC__ >= 12
#define OPINFO_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define OPINFO_SHUFFLE(a, b, ...) \
  __builtin_shuffle(a, b, (int __attribute__((vector_size(16)))){__VA_ARGS__})
#endif

// Copies the transpose of 4 x 4 elements.
OPINFO_INLINE void transpose_four(const float* from, int64_t from_row, float* to, int64_t to_row) {
  Quad r[4];
  times<4>([&](auto i) OPINFO_ALWAYS {
    r[i] = *reinterpret_cast<const Quad*>(from + i * from_row);
  });
  const Quad a = OPINFO_SHUFFLE(r[0], r[1], 0, 4, 1, 5), b = OPINFO_SHUFFLE(r[2], r[3], 0, 4, 1, 5),
             c = OPINFO_SHUFFLE(r[0], r[1], 2, 6, 3, 7), d = OPINFO_SHUFFLE(r[2], r[3], 2, 6, 3, 7);
  *reinterpret_cast<Quad*>(to) = OPINFO_SHUFFLE(a, b, 0, 1, 4, 5);
  *reinterpret_cast<Quad*>(to + to_row) = OPINFO_SHUFFLE(a, b, 2, 3, 6, 7);
  *reinterpret_cast<Quad*>(to + 2 * to_row) = OPINFO_SHUFFLE(c, d, 0, 1, 4, 5);
  *reinterpret_cast<Quad*>(to + 3 * to_row) = OPINFO_SHUFFLE(c, d, 2, 3, 6, 7);
}

// exp(x) by 2^n exp(r), |r| <= log(2) / 2, with a polynomial for exp(r).
OPINFO_INLINE Lanes exponential(const Lanes& given) {
  typedef int Bits __attribute__((vector_size(4 * kLanes)));
  const Lanes low = all_of(-87), high = all_of(88);
  Lanes x = given < low ? low : given;
  x = x > high ? high : x;
  const Lanes shifted = x * 1.44269504f + 12582912.f;  // n in the last bits
  const Lanes n = shifted - 12582912.f;
  const Lanes r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Lanes p = all_of(1.9875691500e-4f);
  for (float factor : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, .5f})
    p = p * r + factor;
  p = p * r * r + r + 1;
  const Lanes y = reinterpret_cast<Lanes>(reinterpret_cast<Bits>(p) +
                                          (reinterpret_cast<Bits>(shifted) << 23));
  return given == given ? y : given;  // a NaN has no exponent to add to
}

}  // namespace
}  // namespace opinfo_loops
