
// Tiles of a picture to points and back, with what follows a convolution. Channels are innermost. It
// follows winograd_transforms.hpp.
namespace opinfo_loops {
namespace {

// Calls for vectors that cover the channels, of which there are at least as many as lanes; the last
// two overlap.
template <typename Each>
OPINFO_INLINE void over(int64_t channels, Each each) {
  for (int64_t c = 0; c < channels; c += kLanes) each(lesser(c, channels - kLanes));
}

// `others`: the operand's elements for each of the results, null outside of the picture.
template <int count>
inline void follow(const Following& f, const float* const* others, int64_t c, Lanes* y) {
  const auto each = [&](auto g) { for (int k = 0; k < count; ++k) y[k] = g(y[k]); };
  const auto both = [&](auto g) {
    for (int k = 0; k < count; ++k)
      if (others[k]) y[k] = g(y[k], f.by_channel ? load(others[k] + c) : all_of(*others[k]));
  };
  const Lanes zero = all_of(0), one = all_of(1), low = all_of(f.alpha), high = all_of(f.beta);
  switch (f.how) {
    case dnnl_eltwise_relu: return each([&](Lanes v) { return v > zero ? v : v * f.alpha; });
    case dnnl_eltwise_linear: return each([&](Lanes v) { return v * f.alpha + f.beta; });
    case dnnl_eltwise_logistic:
      return each([&](Lanes v) { return one / (one + exponential(-v)); });
    case dnnl_eltwise_swish:
      return each([&](Lanes v) { return v / (one + exponential(v * -f.alpha)); });
    case dnnl_eltwise_clip:
      return each([&](Lanes v) {
        v = v > low ? v : low;
        return v < high ? v : high;
      });
    case dnnl_eltwise_hardswish:
      return each([&](Lanes v) {
        Lanes gate = v * f.alpha + f.beta;
        gate = gate > zero ? gate : zero;
        return v * (gate < one ? gate : one);
      });
    case dnnl_binary_add: return both([](Lanes a, Lanes b) { return a + b; });
    case dnnl_binary_sub: return both([](Lanes a, Lanes b) { return a - b; });
    case dnnl_binary_mul: return both([](Lanes a, Lanes b) { return a * b; });
    case dnnl_binary_div: return both([](Lanes a, Lanes b) { return a / b; });
    case dnnl_binary_max: return both([](Lanes a, Lanes b) { return a > b ? a : b; });
    case dnnl_binary_min: return both([](Lanes a, Lanes b) { return a < b ? a : b; });
    default: return;
  }
}

// `at`: where the channels of each pixel of a tile begin. The points lie `plane` elements apart.
template <typename Rows, typename Columns>
void to_points(const float* const* at, int64_t channels, float* points, int64_t plane) {
  constexpr int height = Rows::kPoints, width = Columns::kPoints;
  over(channels, [&](int64_t c) OPINFO_ALWAYS {
    Lanes middle[height * width];
    for (int x = 0; x < width; ++x)
      transform_input<Rows>(
          [&](auto y) OPINFO_ALWAYS { return load(at[y * width + x] + c); },
          [&](auto y, const Lanes& v) OPINFO_ALWAYS { middle[y * width + x] = v; });
    for (int y = 0; y < height; ++y)
      transform_input<Columns>(
          [&](auto x) OPINFO_ALWAYS { return middle[y * width + x]; },
          [&](auto x, const Lanes& v) OPINFO_ALWAYS {
            store(points + (y * width + x) * plane + c, v);
          });
  });
}

// Whether all sums are finite.
template <typename Rows, typename Columns>
bool from_points(const float* points, int64_t plane, int64_t channels, const float* bias,
                 const Following* following, int64_t followings, const Results& results) {
  constexpr int width = Columns::kPoints;
  constexpr int down = Rows::kOut, across = Columns::kOut;
  Lanes zeros = all_of(0);  // NaN where a sum was not finite
  over(channels, [&](int64_t c) OPINFO_ALWAYS {
    Lanes middle[down * width], y[down * across];
    for (int x = 0; x < width; ++x)
      transform_output<Rows>(
          [&](auto p) OPINFO_ALWAYS { return load(points + (p * width + x) * plane + c); },
          [&](auto i, const Lanes& v) OPINFO_ALWAYS { middle[i * width + x] = v; });
    const Lanes shift = bias ? load(bias + c) : all_of(0);
    for (int i = 0; i < down; ++i)
      transform_output<Columns>(
          [&](auto p) OPINFO_ALWAYS { return middle[i * width + p]; },
          [&](auto j, const Lanes& v) OPINFO_ALWAYS {
            zeros += v - v;
            y[i * across + j] = v + shift;
          });
    for (int64_t k = 0; k < followings; ++k)
      follow<down * across>(following[k], results.others[k], c, y);
    for (int k = 0; k < down * across; ++k)
      if (results.to[k]) store(results.to[k] + c, y[k]);
  });
  float sum = 0;
  for (int k = 0; k < kLanes; ++k) sum += zeros[k];
  return sum == 0;
}

template <typename Rows, typename Columns>
const Tiles* tiles() {
  static constexpr Tiles all{{Rows::kPoints, Columns::kPoints},
          {Rows::kOut, Columns::kOut},
          {Rows::kTaps, Columns::kTaps},
          {&Rows::kWeights[0][0], &Columns::kWeights[0][0]},
          to_points<Rows, Columns>,
          from_points<Rows, Columns>};
  return &all;
}

}  // namespace
}  // namespace opinfo_loops

OPINFO_LINKAGE const opinfo_loops::Tiles* OPINFO_RUNTIME(tiles)(int outputs, bool one_axis) {
  using namespace opinfo_loops;
  if (outputs == 2)
    return one_axis ? tiles<Minimal<1>, Minimal<2>>() : tiles<Minimal<2>, Minimal<2>>();
  return one_axis ? tiles<Minimal<1>, Minimal<4>>() : tiles<Minimal<4>, Minimal<4>>();
}
