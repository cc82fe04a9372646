// Elements of tensors as numbers, and what follows a convolution. All is computed in float32, and rounded
// once.
//
// Defined by the host: ELEMENT, which is 0 for float32, 1 for float16, 2 for bfloat16. It follows
// epilogue.h.
#if ELEMENT == 0
using Element = float;
__device__ inline float wide(Element x) { return x; }
__device__ inline Element narrow(float x) { return x; }
#else
using Element = unsigned short;
#ifdef EMULATED
__device__ inline float wide(Element x) { return emulated::wide(x, ELEMENT); }
__device__ inline Element narrow(float x) { return emulated::narrow(x, ELEMENT); }
#elif ELEMENT == 1
__device__ inline float wide(Element x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
__device__ inline Element narrow(float x) {
  Element y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#else
__device__ inline float wide(Element x) { return __uint_as_float(static_cast<unsigned>(x) << 16); }
__device__ inline Element narrow(float x) {
  Element y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#endif
#endif

// Elements that are read at once.
template <int N>
struct alignas(N * sizeof(Element)) Part {
  Element at[N];
};
constexpr int kWidth = 16 / sizeof(Element);

__device__ inline unsigned quotient(unsigned n, const Divisor& d) {
  return (__umulhi(n, d.factor) + n) >> d.shift;
}

// Comparisons keep what is not a number.
__device__ inline float activated(const Epilogue& e, float x) {
  switch (e.activation) {
    case kRelu:
      x = x < 0.f ? 0.f : x;
      return e.limit > 0.f && x > e.limit ? e.limit : x;
    case kSigmoid:
      return 1.f / (1.f + expf(-x));
    case kTanh:
      return tanhf(x);
    case kSilu:
      return x / (1.f + expf(-x));
    case kHardSwish: {
      float gate = x + *e.offset;
      gate = gate < 0.f ? 0.f : gate;
      return x * (gate > e.limit ? e.limit : gate) * *e.factor;
    }
    case kLeakyRelu:
      return x > 0.f ? x : x * e.slope;
    default:
      return x;
  }
}
