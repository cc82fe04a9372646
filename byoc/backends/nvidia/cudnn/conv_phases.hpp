// A transposed convolution as one of stride 1, whose results are the phases of a pixel. It follows
// epilogue.hpp.
//
//   y[t] = sum over i, k with stride i + k = t + padding of x[i] w[k]
//
// With t + padding = stride q + r and k = r + stride j, that is the sum over j of x[q - j] w[r + stride j]:
// for each of `stride` phases r a convolution with the same window, so all of them are one convolution
// with as many times the channels. Weights beyond the last one are 0.
namespace opinfo_nvidia {
namespace {

// Of one axis of pixels.
struct PhasedAxis {
  int64_t stride = 1, taps = 1;
  int64_t padding = 0;  // before and after x
  int64_t count = 0;    // the results of the convolution
  int64_t shift = 0;    // pixel t of y is phase (t + shift) % stride of result (t + shift) / stride
};

inline PhasedAxis phased_axis(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                              int64_t padding) {
  const int64_t taps = (kernel + stride - 1) / stride;
  const int64_t begin = padding / stride, end = (out - 1 + padding) / stride;  // of q
  // cuDNN pads both sides alike: what is computed beside `begin` to `end` is not read.
  const int64_t pad = std::max({taps - 1 - begin, end - (in - 1), int64_t{0}});
  const int64_t first = taps - 1 - pad;
  return {stride, taps, pad, in + 2 * pad - taps + 1, padding - first * stride};
}

// Rows and columns. Channels are the last axis of its tensors: images, results, channels of x; weights,
// (phases and channels of y), taps, channels of x.
struct ConvPhases {
  PhasedAxis axes[2];
  int64_t images = 0, in = 0, out = 0;

  int64_t phases() const { return axes[0].stride * axes[1].stride; }
  std::vector<int64_t> weights() const {
    return {phases() * out, in, axes[0].taps, axes[1].taps};
  }
  std::vector<int64_t> results() const {
    return {images, phases() * out, axes[0].count, axes[1].count};
  }

  // `columns`, `pixels`: of an image of y.
  Phases kernel(int64_t columns, int64_t pixels) const {
    Phases p{EpilogueKernels::divisor(columns), EpilogueKernels::divisor(pixels), {}, {}, {}};
    for (int k = 0; k < 2; ++k) {
      p.strides[k] = EpilogueKernels::divisor(axes[k].stride);
      p.shifts[k] = static_cast<unsigned>(axes[k].shift);
      p.counts[k] = static_cast<unsigned>(axes[k].count);
    }
    return p;
  }

  // `sizes`: pixels of the weights `from`, whose last axis is channels of y if `last`.
  Arrangement arrangement(const void* from, void* to, const int64_t* sizes, bool last) const {
    Arrangement a{};
    a.from = from, a.to = to, a.last = last;
    a.count = static_cast<unsigned>(phases() * out * axes[0].taps * axes[1].taps * in);
    a.in = EpilogueKernels::divisor(in), a.out = EpilogueKernels::divisor(out);
    for (int k = 0; k < 2; ++k) {
      a.taps[k] = EpilogueKernels::divisor(axes[k].taps);
      a.strides[k] = EpilogueKernels::divisor(axes[k].stride);
      a.sizes[k] = static_cast<unsigned>(sizes[k]);
    }
    return a;
  }
};

}  // namespace
}  // namespace opinfo_nvidia
