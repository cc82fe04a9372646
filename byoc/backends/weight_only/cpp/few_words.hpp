// Few rows times a stored matrix of few bits, if the words of a column follow each other: a vector
// of words of a column is multiplied at once, and nothing is copied. It follows stored_words.hpp.
namespace opinfo_weight_only {
namespace {

// Element `lane` is from[at[lane]].
inline Lanes picked(const float* from, LaneNumbers at) {
  const Lanes all = *reinterpret_cast<const Lanes*>(from);
#if defined(__AVX512F__)
  return (Lanes)_mm512_permutexvar_ps((__m512i)at, (__m512)all);
#else
  return __builtin_shuffle(all, at);
#endif
}

// Words in lanes; zeros behind the last of `count`.
template <typename T>
LaneWords lanes(const T* from, int64_t count) {
  typedef T Narrow __attribute__((vector_size(kLanes * sizeof(T))));
  Narrow all{};
  if (count >= kLanes) std::memcpy(&all, from, sizeof all);
  else std::memcpy(&all, from, count * sizeof(T));
  return __builtin_convertvector(all, LaneWords);
}

template <typename Matrix, typename Word, int bits, bool has_zeros>
struct FewRows {
  static constexpr int64_t kMost = 8;      // rows
  static constexpr int kAtOnce = 4;        // columns
  static constexpr int kTall = kLanes == 16 ? 4 : 2;  // rows whose sums are in registers
  static constexpr float kLargest = 1e30f; // of a value whose sums with digits do not overflow

  // `rows` rows of x are `step` apart.
  FewRows(const Matrix& w, const float* x, int64_t step, int64_t rows) : rows_(rows) {
    used_ = rows <= kMost;
    for (int64_t r = 0; used_ && r < rows; ++r)
      for (int64_t k = 0; k < w.depth; ++k) used_ &= std::abs(x[r * step + k]) < kLargest;
    if (!used_) return;
    blocks_ = (w.words.rows + kLanes - 1) / kLanes;
    x_.assign(rows * blocks_ * w.per * kLanes, 0.f);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = 0; k < w.depth; ++k) {
        const int64_t word = k / w.per, block = r * blocks_ + word / kLanes;
        x_[(block * w.per + k % w.per) * kLanes + word % kLanes] = x[r * step + k];
      }
    const int64_t words = w.group / w.per;
    for (int64_t b = 0; b < blocks_; ++b) {
      first_.push_back(b * kLanes / words);
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const int64_t group = std::min((b * kLanes + lane) / words, w.scales.rows - 1);
        group_.push_back(static_cast<int32_t>(group - first_[b]));
      }
    }
  }

  // Add the products with a panel to sums, or return false, having changed nothing.
  bool operator()(const Matrix& w, int64_t panel, float* sums) const {
    if (!used_) return false;
    const int64_t from = panel * kWide, columns = std::min<int64_t>(kWide, w.columns - from);
    const int64_t groups = w.scales.rows, room = groups + 2 * kColumns;
    std::vector<float> scales(columns * room), zeros((has_zeros ? columns : 1) * room, w.offset);
    Floats finite{};
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t g = 0; g < groups; g += kColumns) {
        const Floats scale = w.scales.some(from + c, g);
        *reinterpret_cast<Floats*>(&scales[c * room + g]) = scale;
        finite += scale * 0;
        if (!has_zeros) continue;
        const Floats zero = w.zeros.some(from + c, g) + w.offset;
        *reinterpret_cast<Floats*>(&zeros[c * room + g]) = zero;
        finite += zero * 0;
      }
    for (int lane = 0; lane < kColumns; ++lane)
      if (finite[lane] != 0) return false;  // infinity and NaN become NaN
    for (int64_t c = 0; c < columns; c += kAtOnce) {
      const Word* words[kAtOnce];
      const float *scale[kAtOnce], *zero[kAtOnce];
      for (int64_t k = 0; k < kAtOnce; ++k) {
        const int64_t column = std::min(c + k, columns - 1);
        words[k] = reinterpret_cast<const Word*>(w.words.data) + (from + column) * w.words.rows;
        scale[k] = &scales[column * room], zero[k] = &zeros[has_zeros ? column * room : 0];
      }
      const int n = static_cast<int>(std::min<int64_t>(kAtOnce, columns - c));
      for (int64_t r = 0; r < rows_;) {
        float* to = sums + r * kWide + c;
        const int64_t height = rows_ - r >= kTall ? kTall : rows_ - r >= 2 ? 2 : 1;
        const auto each = height == kTall ? tile<kTall> : height == 2 ? tile<2> : tile<1>;
        each(*this, w, words, scale, zero, r, n, to);
        r += height;
      }
    }
    return true;
  }

 private:
  template <int rows>
  static void tile(const FewRows& of, const Matrix& w, const Word* const* words,
                   const float* const* scale, const float* const* zero, int64_t r, int n,
                   float* to) {
    constexpr uint32_t mask = (1u << bits) - 1;
    constexpr int per = 8 * sizeof(Word) / bits;
    const int64_t next = of.blocks_ * per * kLanes;  // to the next row of x
    Lanes values{};  // of digits
    for (int lane = 0; lane < kLanes; ++lane) values[lane] = lane - w.offset;
    Lanes total[rows][kAtOnce] = {};
    const float* x = &of.x_[r * next];
    for (int64_t b = 0; b < of.blocks_; ++b) {
      const LaneNumbers group = *reinterpret_cast<const LaneNumbers*>(&of.group_[b * kLanes]);
      LaneWords digits[kAtOnce];
      Lanes minus[kAtOnce], sum[rows][kAtOnce] = {};
#pragma GCC unroll 4
      for (int c = 0; c < kAtOnce; ++c) {
        digits[c] = lanes(words[c] + b * kLanes, w.words.rows - b * kLanes);
        minus[c] = has_zeros ? picked(zero[c] + of.first_[b], group) : w.offset - Lanes{};
      }
#pragma GCC unroll 16
      for (int t = 0; t < per; ++t, x += kLanes) {
#pragma GCC unroll 4
        for (int c = 0; c < kAtOnce; ++c) {
          const LaneWords digit = digits[c] >> static_cast<uint32_t>(bits * t);
          Lanes value;
#if defined(__AVX512F__)
          if (bits == 4 && !has_zeros)  // the digit is the lowest bits
            value = (Lanes)_mm512_permutexvar_ps((__m512i)digit, (__m512)values);
          else
#endif
            value = __builtin_convertvector((LaneNumbers)(digit & mask), Lanes) - minus[c];
#pragma GCC unroll 4
          for (int k = 0; k < rows; ++k)
            sum[k][c] += value * *reinterpret_cast<const Lanes*>(x + k * next);
        }
      }
#pragma GCC unroll 4
      for (int c = 0; c < kAtOnce; ++c) {
        const Lanes factor = picked(scale[c] + of.first_[b], group);
#pragma GCC unroll 4
        for (int k = 0; k < rows; ++k) total[k][c] += sum[k][c] * factor;
      }
    }
    for (int k = 0; k < rows; ++k)
      for (int c = 0; c < n; ++c)
        for (int lane = 0; lane < kLanes; ++lane) to[k * kWide + c] += total[k][c][lane];
  }

  int64_t rows_, blocks_ = 0;
  bool used_;
  std::vector<float> x_;        // by row, block, place in a word, and word
  std::vector<int64_t> first_;  // the group of the first word of a block
  std::vector<int32_t> group_;  // by block and word: its group after that one
};

}  // namespace
}  // namespace opinfo_weight_only
