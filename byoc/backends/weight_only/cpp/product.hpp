// Products of activations with a matrix of weights of few bits. It follows views.hpp, threads.hpp,
// panels.hpp, floats.hpp and limbs.hpp.
#include <memory>

namespace opinfo_weight_only {
namespace {

constexpr int kRows = 4;          // that share an unpacked word
constexpr int64_t kRowsAtOnce = 64;  // whose digits stay in the second cache
constexpr int64_t kSegment = 8;   // panels of a task, at most
constexpr int64_t kSerial = 1 << 16;  // multiplications that are not worth a second thread

// What follows a product, for `n` columns of a row: operand k has p[k][j * s[k]] beside column j.
using Finish = void(float* out, const float* const* p, const int64_t* s, int64_t n);

// The kernels for some bits and a dtype of the scales.
struct Kernels {
  void (*floats[kRows])(const Weights&, int64_t, const float* const*, const float*,
                        float (*)[kColumns]);
#ifdef OPINFO_LIMBS
  void (*limbs[kRows])(const Weights&, int64_t, const int8_t* const*, const BlockOf* const*,
                       float (*)[kColumns]);
#endif
};

template <int bits, typename S>
const Kernels kernels = {
    {float_tile<bits, S, 1>, float_tile<bits, S, 2>, float_tile<bits, S, 3>, float_tile<bits, S, 4>},
#ifdef OPINFO_LIMBS
    {limb_tile<bits, S, 1>, limb_tile<bits, S, 2>, limb_tile<bits, S, 3>, limb_tile<bits, S, 4>},
#endif
};

inline float value_of(const float* p) { return *p; }
inline float value_of(const uint16_t* p) {
#if defined(__F16C__)
  return _cvtsh_ss(*p);
#else
  const uint16_t all[kColumns] = {*p};
  return widened(all)[0];
#endif
}

// float32 as float16, rounded to the nearest, ties to even.
inline uint16_t narrowed(float value) {
#if defined(__F16C__)
  return _cvtss_sh(value, 0);
#else
  uint32_t all;
  std::memcpy(&all, &value, 4);
  const uint32_t sign = all >> 16 & 0x8000, magnitude = all & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude < 0x38800000) {  // counts units of 2^-24
    float small;
    std::memcpy(&small, &magnitude, 4);
    return sign | static_cast<uint16_t>(std::nearbyint(small * 0x1p24f));
  }
  return sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
#endif
}

// Floats from a row of either dtype, and the other way.
inline void read_row(const float* from, int64_t n, float* to) { std::memcpy(to, from, 4 * n); }
inline void read_row(const uint16_t* from, int64_t n, float* to) {
  int64_t k = 0;
  for (; k + kColumns <= n; k += kColumns) *reinterpret_cast<Floats*>(to + k) = widened(from + k);
  for (; k < n; ++k) to[k] = value_of(from + k);
}
inline void write_row(const float* from, int64_t n, float* to) { std::memcpy(to, from, 4 * n); }
inline void write_row(const float* from, int64_t n, uint16_t* to) {
  for (int64_t k = 0; k < n; ++k) to[k] = narrowed(from[k]);
}

// Calls for 0, 1, ... before `count`, by several threads if `parallel`.
template <typename Each>
void each_of(int64_t count, bool parallel, const Each& each) {
  if (parallel) return opinfo::in_parallel(count, each);
  for (int64_t k = 0; k < count; ++k) each(k);
}

// Some rows of activations as the kernels read them; `start(r)` is where one is.
class Rows {
 public:
  template <typename Row>
  Rows(const Weights& w, int64_t count, bool parallel, const Row& start)
      : width_(w.blocks * w.block),
        floats_(new float[count * width_]),
        units_(new float[count]),
        of_(new bool[count]) {
#ifdef OPINFO_LIMBS
    digits_.reset(new int8_t[count * width_ * kLimbs]);
    blocks_.reset(new BlockOf[count * w.blocks]);
#endif
    each_of(count, parallel, [&](int64_t r) {
      float* row = floats_.get() + r * width_;
      for (int64_t b = 0; b < w.blocks; ++b, row += w.block) {
        const int64_t values = w.count(b);
        read_row(start(r) + w.first(b), values, row);
        std::fill(row + values, row + w.block, 0.f);
      }
      row = floats_.get() + r * width_;
      of_[r] = false;
#ifdef OPINFO_LIMBS
      of_[r] = split(w, row, digits_.get() + r * width_ * kLimbs, blocks_.get() + r * w.blocks);
      if (of_[r]) return;
#endif
      units_[r] = shrunk(row);
    });
  }

  // How many rows from `r` on, at most `most`, one kernel computes.
  int64_t alike(int64_t r, int64_t most) const {
    int64_t n = 1;
    while (n < most && of_[r + n] == of_[r]) ++n;
    return n;
  }

  void multiply(const Weights& w, const Kernels& by, int64_t panel, int64_t r, int64_t n,
                float (*y)[kColumns]) const {
#ifdef OPINFO_LIMBS
    if (of_[r]) {
      const int8_t* x[kRows];
      const BlockOf* of[kRows];
      for (int64_t k = 0; k < n; ++k) {
        x[k] = digits_.get() + (r + k) * width_ * kLimbs;
        of[k] = blocks_.get() + (r + k) * w.blocks;
      }
      return by.limbs[n - 1](w, panel, x, of, y);
    }
#endif
    const float* x[kRows];
    for (int64_t k = 0; k < n; ++k) x[k] = floats_.get() + (r + k) * width_;
    by.floats[n - 1](w, panel, x, units_.get() + r, y);
  }

 private:
  // Divide a row by what is returned, so that no sum of its products with integers overflows.
  float shrunk(float* row) const {
    float largest = 0;
    for (int64_t k = 0; k < width_; ++k) largest = std::max(largest, std::abs(row[k]));
    if (largest < 1e30f) return 1;
    for (int64_t k = 0; k < width_; ++k) row[k] *= 0x1p-40f;
    return 0x1p40f;
  }

  int64_t width_;
  std::unique_ptr<float[]> floats_, units_;
  std::unique_ptr<bool[]> of_;  // whether a row has digits, as all its values are finite
#ifdef OPINFO_LIMBS
  std::unique_ptr<int8_t[]> digits_;
  std::unique_ptr<BlockOf[]> blocks_;
#endif
};

// Operands of what follows a product: where each row of the result finds its own.
struct Others {
  std::vector<const char*> rows;  // by row and operand
  std::vector<int64_t> steps;     // of columns
  const bool* half;               // whether an operand is float16, else it is float32
  int64_t number;

  Others(const View& out, int64_t count, const View* all, const bool* half_, int n)
      : half(half_), number(n) {
    std::vector<View> views;
    for (int k = 0; k < n; ++k) views.push_back(all[k].over(out));
    for (const View& v : views) steps.push_back(v.steps[out.rank - 1]);
    steps.push_back(0);
    rows.reserve(count * n);
    for (int64_t r = 0; r < count; ++r)
      for (int k = 0; k < n; ++k) {
        int64_t at = 0, rest = r;
        for (int d = out.rank - 1; d-- > 0; rest /= out.dims[d])
          at += rest % out.dims[d] * views[k].steps[d];
        rows.push_back(views[k].data + at * (half[k] ? 2 : 4));
      }
  }

  // Those beside `n` columns of a row from column `at` on, as floats, perhaps in `room`.
  void beside(int64_t row, int64_t at, int64_t n, float* room, const float** p) const {
    for (int64_t k = 0; k < number; ++k, room += n) {
      const char* from = rows[row * number + k] + at * steps[k] * (half[k] ? 2 : 4);
      p[k] = half[k] ? room : reinterpret_cast<const float*>(from);
      for (int64_t j = 0; half[k] && j < (steps[k] ? n : 1); ++j)
        room[j] = value_of(reinterpret_cast<const uint16_t*>(from) + j);
    }
  }
};

// Which rows of a result are computed, and from which rows of activations, of which there may be fewer.
struct Chosen {
  const int64_t* rows;  // null for the first ones
  int64_t sources;

  int64_t to(int64_t r) const { return rows == nullptr ? r : rows[r]; }
  int64_t from(int64_t r) const { return to(r) % sources; }
};

// What follows a product for `n` columns of some rows from column `at` on, and their place in `out`.
template <typename Y>
struct Written {
  const Chosen& chosen;
  const Others& others;
  Finish* finish;
  Y* out;
  int64_t columns, at, n;
  std::vector<float> room = std::vector<float>(others.number * n);
  std::vector<const float*> p = std::vector<const float*>(others.number + 1);

  void operator()(int64_t r, float* values) {
    const int64_t row = chosen.to(r);
    if (finish != nullptr) {
      others.beside(row, at, n, room.data(), p.data());
      finish(values, p.data(), others.steps.data(), n);
    }
    write_row(values, n, out + row * columns + at);
  }
};

// out = finish(x w) for `count` rows. X and Y are float, or uint16_t for float16.
template <typename X, typename Y>
void product(const Weights& w, const Kernels& by, const X* x, Y* out, int64_t count,
             const Chosen& chosen, const Others& others, Finish* finish) {
  if (count == 0 || w.columns == 0) return;
  const bool parallel = count * w.depth * w.columns > kSerial;
  const int64_t segment = std::clamp<int64_t>(w.panels() / 16, 1, kSegment);
  const int64_t tasks = (w.panels() + segment - 1) / segment;
  for (int64_t top = 0; top < count; top += kRowsAtOnce) {
    const int64_t some = std::min(kRowsAtOnce, count - top);
    const Rows rows(w, some, parallel && some > 8,
                    [&](int64_t r) { return x + chosen.from(top + r) * w.depth; });
    each_of(tasks, parallel, [&](int64_t task) {
      const int64_t first = task * segment, last = std::min(first + segment, w.panels());
      const int64_t column = first * kColumns, n = std::min(last * kColumns, w.columns) - column;
      float values[kRows][kSegment * kColumns], tile[kRows][kColumns];
      Written<Y> written{chosen, others, finish, out, w.columns, column, n};
      for (int64_t r = 0, height; r < some; r += height) {
        height = rows.alike(r, std::min<int64_t>(kRows, some - r));
        for (int64_t panel = first; panel < last; ++panel) {
          rows.multiply(w, by, panel, r, height, tile);
          for (int64_t k = 0; k < height; ++k)
            std::memcpy(values[k] + (panel - first) * kColumns, tile[k], sizeof tile[k]);
        }
        for (int64_t k = 0; k < height; ++k) written(top + r + k, values[k]);
      }
    });
  }
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
