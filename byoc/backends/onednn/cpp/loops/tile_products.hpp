
// Products of matrices, tile by tile. It follows vectors.hpp.
namespace opinfo_loops {
namespace {

// c = a b, or c += a b, for one tile. The columns of `a`, `b` and `c` lie next to each other.
template <int rows, int vectors>
void multiply_tile(const float* a, int64_t a_row, const float* b, int64_t b_row, int64_t depth,
                   float* c, int64_t c_row, bool more) {
  Lanes sums[rows * vectors];
  times<rows * vectors>([&](auto k) OPINFO_ALWAYS {
    const float* from = c + k / vectors * c_row + k % vectors * kLanes;
    sums[k] = more ? load(from) : all_of(0);
  });
  for (int64_t d = 0; d < depth; ++d, b += b_row) {
    Lanes right[vectors];
    times<vectors>([&](auto j) OPINFO_ALWAYS { right[j] = load(b + j * kLanes); });
    times<rows>([&](auto i) OPINFO_ALWAYS {
      const Lanes left = all_of(a[i * a_row + d]);
      times<vectors>([&](auto j) OPINFO_ALWAYS { sums[i * vectors + j] += left * right[j]; });
    });
  }
  times<rows * vectors>([&](auto k) OPINFO_ALWAYS {
    store(c + k / vectors * c_row + k % vectors * kLanes, sums[k]);
  });
}

using TileProduct = void (*)(const float*, int64_t, const float*, int64_t, int64_t, float*, int64_t,
                             bool);

template <int... k>
TileProduct tile_product(int rows, int vectors, std::integer_sequence<int, k...>) {
  static constexpr TileProduct all[] = {
      multiply_tile<k / kTileVectors + 1, k % kTileVectors + 1>...};
  return all[(rows - 1) * kTileVectors + vectors - 1];
}

// c = a b, or c += a b, for any number of rows and at most `kTileColumns` columns, rounded up to
// whole vectors.
inline void multiply_panel(const float* a, int64_t a_row, int64_t rows, const float* b,
                           int64_t b_row, int64_t columns, int64_t depth, float* c, int64_t c_row,
                           bool more) {
  const int vectors = static_cast<int>(whole_vectors(columns) / kLanes);
  for (int64_t i = 0; i < rows; i += kTileRows) {
    const int count = static_cast<int>(lesser(kTileRows, rows - i));
    const TileProduct product = tile_product(
        count, vectors, std::make_integer_sequence<int, kTileRows * kTileVectors>());
    product(a + i * a_row, a_row, b, b_row, depth, c + i * c_row, c_row, more);
  }
}

}  // namespace
}  // namespace opinfo_loops
