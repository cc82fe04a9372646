
// Hyperbolic tangents of elements, and GELUs by them. It follows vectors.hpp.
namespace opinfo_loops {
namespace {

// An odd polynomial near 0, where 1 - 2 / (exp(2 x) + 1) cancels; x itself where its cube is less
// than a rounding, which keeps the sign of 0.
OPINFO_INLINE Lanes tangent(const Lanes& x) {
  const Lanes size = x < 0.f ? -x : x, square = x * x;
  Lanes p = all_of(-5.70498872745e-3f);
  for (float factor : {2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f})
    p = p * square + factor;
  const Lanes near = x + x * (square * p), far = 1.f - 2.f / (exponential(x + x) + 1.f);
  const Lanes most = size < .625f ? near : far;
  return size < 1e-4f ? x : most;
}

// x (1 + tanh(u)) / 2 = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3). Below -10.05 that
// exponential is not a float any more, and the product of x and 0 is what the tangent gives.
OPINFO_INLINE Lanes gelu_by_tangent(const Lanes& x) {
  const Lanes twice = x * (x * x * -7.13548162726e-2f + -1.59576912161f);
  const Lanes y = x / (exponential(twice) + 1.f);
  return x < -10.05f ? x * 0.f : y;
}

template <typename Function>
OPINFO_INLINE void each_element(const float* from, float* to, int64_t count, Function function) {
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) store(to + k, function(load(from + k)));
  if (k == count) return;
  float some[kLanes] = {};
  memcpy(some, from + k, sizeof(float) * (count - k));
  store(some, function(load(some)));
  memcpy(to + k, some, sizeof(float) * (count - k));
}

}  // namespace
}  // namespace opinfo_loops

OPINFO_LINKAGE void OPINFO_RUNTIME(tangents)(const float* from, float* to, int64_t count,
                                             bool gelu) {
  using namespace opinfo_loops;
  if (gelu)
    each_element(from, to, count, [](const Lanes& x) OPINFO_ALWAYS { return gelu_by_tangent(x); });
  else
    each_element(from, to, count, [](const Lanes& x) OPINFO_ALWAYS { return tangent(x); });
}
