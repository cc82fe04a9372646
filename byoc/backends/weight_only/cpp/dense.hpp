// Products with float32 or float16 matrices in panels of 32 columns, as `expert_panels.py` writes
// them, or in panels that are copied from plain matrices at each call. It follows operands.hpp.
namespace opinfo_weight_only {
namespace {

constexpr int kWide = 2 * kColumns;     // of a panel
constexpr int64_t kPart = 256;          // values whose sum is added to the others, for accuracy
constexpr int64_t kMostRows = 96;       // whose sums stay in the first cache
// Vectors of a tile, and its rows: the sums are in registers, with the weights and a value. Without
// AVX, half of them would do, but float16 is read by sixteen.
#if defined(__AVX512F__)
constexpr int kVectors = 2, kHeight = 12;
#elif defined(__AVX__)
constexpr int kVectors = 2, kHeight = 6;
#else
constexpr int kVectors = 4, kHeight = 2;
#endif

// A kernel for few rows; this one leaves all panels to the tiles.
struct NoFewRows {
  template <typename Matrix>
  NoFewRows(const Matrix&, const float*, int64_t, int64_t) {}
  template <typename Matrix>
  bool operator()(const Matrix&, int64_t, float*) const { return false; }
};

// A matrix of `depth` rows: element (k, j) is data[j / 32][k][j % 32].
template <typename W>
struct Dense {
  using Value = W;
  struct Room {};
  using Few = NoFewRows;
  int64_t depth, columns;
  const W* data;

  int64_t panels() const { return (columns + kWide - 1) / kWide; }
  Dense of(int64_t expert) const { return {depth, columns, data + expert * panels() * depth * kWide}; }
  // Rows `k` to `k + count` of a panel.
  const W* part(int64_t panel, int64_t k, int64_t, Room&) const {
    return data + (panel * depth + k) * kWide;
  }
};

// A matrix of `depth` rows: element (k, j) is data[k * columns + j], or data[j * depth + k] if
// `transposed`. Parts of its panels are copied to the caches, where all rows of an expert read them.
template <typename W>
struct Plain {
  using Value = W;
  struct Room {
    alignas(64) W values[kPart * kWide];
  };
  using Few = NoFewRows;
  int64_t depth, columns;
  const W* data;
  bool transposed;

  int64_t panels() const { return (columns + kWide - 1) / kWide; }
  Plain of(int64_t expert) const {
    return {depth, columns, data + expert * depth * columns, transposed};
  }
  const W* part(int64_t panel, int64_t k, int64_t count, Room& room) const {
    const int64_t first = panel * kWide, n = std::min<int64_t>(kWide, columns - first);
    W* to = room.values;
    if (n < kWide) std::fill(to, to + count * kWide, W(0));
    if (transposed) {
      constexpr int64_t line = 64 / sizeof(W);
      for (int64_t top = 0; top < count; top += line)
        for (int64_t j = 0; j < n; ++j) {
          const W* from = data + (first + j) * depth + k + top;
          __builtin_prefetch(from + 4 * line, 0, 2);
          for (int64_t i = 0; i < std::min(line, count - top); ++i)
            to[(top + i) * kWide + j] = from[i];
        }
    } else {
      for (int64_t i = 0; i < count; ++i) {
        const W* from = data + (k + i) * columns + first;
        __builtin_prefetch(from + 16 * columns, 0, 2);
        __builtin_prefetch(from + 16 * columns + 64 / sizeof(W), 0, 2);
        std::copy(from, from + n, to + i * kWide);
      }
    }
    return to;
  }
};

// Add the product of `rows` rows with `count` rows of a panel to y.
template <typename W, int rows>
void dense_tile(const W* w, const float* x, int64_t step, int64_t count, float* y) {
  for (int first = 0; first < kWide; first += kVectors * kLanes) {
    Lanes sum[rows][kVectors] = {};
    const W* at = w + first;
    for (int64_t k = 0; k < count; ++k, at += kWide) {
      // Few rows wait for memory; the other lines of it are requested with the next vectors.
      if (rows <= 4 && first == 0)
        for (size_t line = 0; line < kWide * sizeof(W); line += 64)
          __builtin_prefetch(reinterpret_cast<const char*>(at) + kAhead + line, 0, 2);
      Lanes weight[kVectors];
      read_lanes(at, weight);
#pragma GCC unroll 12
      for (int r = 0; r < rows; ++r) {
        const Lanes value = x[r * step + k] - Lanes{};
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[r][v] += value * weight[v];
      }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        *reinterpret_cast<Lanes*>(y + r * kWide + first + v * kLanes) += sum[r][v];
  }
}

template <typename W>
using Tile = void (*)(const W*, const float*, int64_t, int64_t, float*);

template <typename W, size_t... rows>
Tile<W> tile_of(size_t height, std::index_sequence<rows...>) {
  static constexpr Tile<W> all[] = {dense_tile<W, rows + 1>...};
  return all[height - 1];
}

// The rows of a matrix as its parts have them, and a row of activations beside them.
template <typename Matrix>
int64_t rows_of(const Matrix& w) { return w.depth; }
template <typename Matrix, typename X>
void read_terms(const Matrix& w, const X* from, float* to) { read_row(from, w.depth, to); }

// out = finish(x w) for `count` rows. X and Y are float, or uint16_t for float16.
template <typename Matrix, typename X, typename Y, typename W = typename Matrix::Value>
void product(const Matrix& w, const X* x, Y* out, int64_t count, const Chosen& chosen,
             const Others& others, Finish* finish) {
  const bool parallel = count * w.depth * w.columns > kSerial;
  // Rows that are a power of two apart would be in the same places of a cache.
  const int64_t terms = rows_of(w), step = terms / kColumns * kColumns + 2 * kColumns;
  std::unique_ptr<float[]> rows(new float[std::min(count, kMostRows) * step]);
  for (int64_t top = 0; top < count; top += kMostRows) {
    const int64_t some = std::min(kMostRows, count - top);
    each_of(some, parallel && some > 8, [&](int64_t r) {
      read_terms(w, x + chosen.from(top + r) * w.depth, rows.get() + r * step);
    });
    const int64_t tiles = (some + kHeight - 1) / kHeight, height = (some + tiles - 1) / tiles;
    const typename Matrix::Few few(w, rows.get(), step, some);
    each_of(w.panels(), parallel, [&](int64_t panel) {
      alignas(64) float sums[kMostRows * kWide];
      std::fill(sums, sums + some * kWide, 0.f);
      typename Matrix::Room room;
      const int64_t depth = few(w, panel, sums) ? 0 : terms;
      for (int64_t k = 0; k < depth; k += kPart) {
        const int64_t length = std::min(kPart, depth - k);
        const W* part = w.part(panel, k, length, room);
        for (int64_t r = 0; r < some; r += height)
          tile_of<W>(std::min(height, some - r), std::make_index_sequence<kHeight>())(
              part, rows.get() + r * step + k, step, length, sums + r * kWide);
      }
      const int64_t column = panel * kWide, n = std::min<int64_t>(kWide, w.columns - column);
      Written<Y> written{chosen, others, finish, out, w.columns, column, n};
      for (int64_t r = 0; r < some; ++r) written(top + r, sums + r * kWide);
    });
  }
}

// out = finish(x w) for all rows.
template <typename X, typename Y, typename Matrix>
void all_rows(const Matrix& w, const View& x, const View& out, const View* operands,
              const bool* half, int number, Finish* finish) {
  int64_t count = 1;
  for (int k = 0; k + 1 < out.rank; ++k) count *= out.dims[k];
  const Others others(out, count, operands, half, number);
  product(w, reinterpret_cast<const X*>(x.data), reinterpret_cast<Y*>(out.data), count,
          Chosen{nullptr, count}, others, finish);
}

}  // namespace
}  // namespace opinfo_weight_only
