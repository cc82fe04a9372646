// Products of activations with a matrix of weights of few bits. It follows limbs.hpp, operands.hpp and
// unpacked.hpp.
namespace opinfo_weight_only {
namespace {

#ifdef OPINFO_LIMBS
constexpr int kRows = 4;             // that share an unpacked word
constexpr int64_t kRowsAtOnce = 64;  // whose digits stay in the second cache
constexpr int64_t kSegment = 8;      // panels of a task, at most
#endif

// The kernels for some bits and a dtype of the scales.
struct Kernels {
  Unpack* unpack;
#ifdef OPINFO_LIMBS
  int64_t most;  // rows that are multiplied as digits
  void (*limbs[kRows])(const Weights&, int64_t, const int8_t* const*, const BlockOf* const*,
                       float (*)[kColumns]);
#endif
};

template <int bits, typename S>
const Kernels kernels = {
    unpack<bits, S>,
#ifdef OPINFO_LIMBS
    kMostLimbRows<bits>,
    {limb_tile<bits, S, 1>, limb_tile<bits, S, 2>, limb_tile<bits, S, 3>, limb_tile<bits, S, 4>},
#endif
};

#ifdef OPINFO_LIMBS
// Some rows of activations as digits; `start(r)` is where one is.
class Rows {
 public:
  template <typename Row>
  Rows(const Weights& w, int64_t count, bool parallel, const Row& start)
      : width_(w.blocks * w.block),
        digits_(new int8_t[count * width_ * kLimbs]),
        blocks_(new BlockOf[count * w.blocks]) {
    std::unique_ptr<float[]> floats(new float[count * width_]);
    std::unique_ptr<bool[]> of(new bool[count]);
    each_of(count, parallel, [&](int64_t r) {
      float* row = floats.get() + r * width_;
      spread(w, start(r), row);
      of[r] = split(w, row, digits_.get() + r * width_ * kLimbs, blocks_.get() + r * w.blocks);
    });
    finite_ = std::all_of(of.get(), of.get() + count, [](bool each) { return each; });
  }

  // Whether all values are, so that there are digits.
  bool finite() const { return finite_; }

  void multiply(const Weights& w, const Kernels& by, int64_t panel, int64_t r, int64_t n,
                float (*y)[kColumns]) const {
    const int8_t* x[kRows];
    const BlockOf* of[kRows];
    for (int64_t k = 0; k < n; ++k) {
      x[k] = digits_.get() + (r + k) * width_ * kLimbs;
      of[k] = blocks_.get() + (r + k) * w.blocks;
    }
    by.limbs[n - 1](w, panel, x, of, y);
  }

 private:
  int64_t width_;
  std::unique_ptr<int8_t[]> digits_;
  std::unique_ptr<BlockOf[]> blocks_;
  bool finite_;
};
#endif

// out = finish(x w) for `count` rows. X and Y are float, or uint16_t for float16.
template <typename X, typename Y>
void product(const Weights& w, const Kernels& by, const X* x, Y* out, int64_t count,
             const Chosen& chosen, const Others& others, Finish* finish) {
  if (count == 0 || w.columns == 0) return;
  const Unpacked floats{w.depth, w.columns, w, by.unpack};
#ifdef OPINFO_LIMBS
  if (count > by.most) return product(floats, x, out, count, chosen, others, finish);
  const bool parallel = count * w.depth * w.columns > kSerial;
  const int64_t segment = std::clamp<int64_t>(w.panels() / 16, 1, kSegment);
  const int64_t tasks = (w.panels() + segment - 1) / segment;
  for (int64_t top = 0; top < count; top += kRowsAtOnce) {
    const int64_t some = std::min(kRowsAtOnce, count - top);
    const Chosen these = chosen.from_row(top);
    const Rows rows(w, some, parallel && some > 8,
                    [&](int64_t r) { return x + these.from(r) * w.depth; });
    if (!rows.finite()) {
      product(floats, x, out, some, these, others, finish);
      continue;
    }
    each_of(tasks, parallel, [&](int64_t task) {
      const int64_t first = task * segment, last = std::min(first + segment, w.panels());
      const int64_t column = first * kColumns, n = std::min(last * kColumns, w.columns) - column;
      float values[kRows][kSegment * kColumns], tile[kRows][kColumns];
      Written<Y> written{these, others, finish, out, w.columns, column, n};
      for (int64_t r = 0, height; r < some; r += height) {
        height = std::min<int64_t>(kRows, some - r);
        for (int64_t panel = first; panel < last; ++panel) {
          rows.multiply(w, by, panel, r, height, tile);
          for (int64_t k = 0; k < height; ++k)
            std::memcpy(values[k] + (panel - first) * kColumns, tile[k], sizeof tile[k]);
        }
        for (int64_t k = 0; k < height; ++k) written(r + k, values[k]);
      }
    });
  }
#else
  product(floats, x, out, count, chosen, others, finish);
#endif
}

// The same for all rows of the activations' last axis.
template <typename X, typename Y>
void product(const Weights& w, const Kernels& by, const View& x, const View& out, const View* all,
             const bool* half, int number, Finish* finish) {
  int64_t count = 1;
  for (int k = 0; k + 1 < out.rank; ++k) count *= out.dims[k];
  if (count == 0) return;
  product(w, by, reinterpret_cast<const X*>(x.data), reinterpret_cast<Y*>(out.data), count,
          Chosen{nullptr, count}, Others(out, count, all, half, number), finish);
}

}  // namespace
}  // namespace opinfo_weight_only
