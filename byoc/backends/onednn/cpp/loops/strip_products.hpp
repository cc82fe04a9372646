
// Products of many rows with constant weights. It follows tile_products.hpp.
namespace opinfo_loops {
namespace {

// Terms that are summed up before those of the next strip: the weights of a panel stay in the first
// cache, and the strips of a block in the second one.
constexpr int64_t kStripTerms = 512;

// c = start + a b for one tile, where `a` is a strip.
template <int rows>
void multiply_strip(const float* a, const float* b, int64_t depth, const float* start,
                    int64_t start_row, float* c, int64_t c_row) {
  Lanes sums[rows * kTileVectors];
  times<rows * kTileVectors>([&](auto k) OPINFO_ALWAYS {
    sums[k] = load(start + k / kTileVectors * start_row + k % kTileVectors * kLanes);
  });
#pragma GCC unroll 4
  for (int64_t d = 0; d < depth; ++d, a += rows, b += kTileColumns) {
    Lanes right[kTileVectors];
    times<kTileVectors>([&](auto j) OPINFO_ALWAYS { right[j] = load(b + j * kLanes); });
    times<rows>([&](auto i) OPINFO_ALWAYS {
      const Lanes left = all_of(a[i]);
      times<kTileVectors>([&](auto j) OPINFO_ALWAYS {
        sums[i * kTileVectors + j] += left * right[j];
      });
    });
  }
  times<rows * kTileVectors>([&](auto k) OPINFO_ALWAYS {
    store(c + k / kTileVectors * c_row + k % kTileVectors * kLanes, sums[k]);
  });
}

using StripProduct = void (*)(const float*, const float*, int64_t, const float*, int64_t, float*,
                              int64_t);

template <int... k>
StripProduct strip_product(int64_t rows, std::integer_sequence<int, k...>) {
  static constexpr StripProduct all[] = {multiply_strip<k + 1>...};
  return all[rows - 1];
}

// A tile of the result: the terms from `d` on are added to what is there, the first ones to the bias.
inline void multiply_tile_of(const Strips& s, int64_t strip, int64_t panel, int64_t d) {
  const int64_t row = s.first(strip), rows = s.first(strip + 1) - row, j = panel * kTileColumns;
  const int64_t depth = lesser(kStripTerms, s.depth - d), columns = lesser(kTileColumns, s.columns - j);
  const auto product = strip_product(rows, std::make_integer_sequence<int, kTileRows>());
  const float *a = s.packed + d * s.rows + depth * row, *b = s.weights + j * s.depth + d * kTileColumns;
  const float* start = d > 0 ? s.out + row * s.out_row + j : s.bias + j;
  const int64_t start_row = d > 0 ? s.out_row : 0;
  float* to = s.out + row * s.out_row + j;
  if (columns == kTileColumns) return product(a, b, depth, start, start_row, to, s.out_row);
  float some[kTileRows * kTileColumns] = {};
  for (int64_t i = 0; i < rows; ++i) memcpy(some + i * kTileColumns, start + i * start_row, 4 * columns);
  product(a, b, depth, some, kTileColumns, some, kTileColumns);
  for (int64_t i = 0; i < rows; ++i) memcpy(to + i * s.out_row, some + i * kTileColumns, 4 * columns);
}

// Copies some terms of a strip: all rows of one term, then those of the next. Four rows are transposed
// at a time; the last four may have rows in common with the first.
inline void pack_terms(const Matrix& from, int64_t rows, int64_t depth, float* to) {
  static_assert(kTileRows <= 8, "two transposes of four rows reach all rows of a strip");
  int64_t k = 0;
  for (; from.column == 1 && rows >= 4 && k + 4 <= depth; k += 4, to += 4 * rows) {
    transpose_four(from.at(0, k), from.row, to, rows);
    if (rows > 4) transpose_four(from.at(rows - 4, k), from.row, to + rows - 4, rows);
  }
  for (; k < depth; ++k)
    for (int64_t i = 0; i < rows; ++i) *to++ = *from.at(i, k);
}

}  // namespace
}  // namespace opinfo_loops

OPINFO_LINKAGE void OPINFO_RUNTIME(pack_strip)(const opinfo_loops::Strips& s, int64_t strip) {
  using namespace opinfo_loops;
  const int64_t row = s.first(strip), rows = s.first(strip + 1) - row;
  for (int64_t d = 0; d < s.depth; d += kStripTerms) {
    const int64_t depth = lesser(kStripTerms, s.depth - d);
    pack_terms({s.src.at(row, d), s.src.row, s.src.column}, rows, depth,
               s.packed + d * s.rows + depth * row);
  }
}

OPINFO_LINKAGE void OPINFO_RUNTIME(multiply_strips)(const opinfo_loops::Strips& s, int64_t first,
                                                    int64_t end) {
  using namespace opinfo_loops;
  const int64_t strips = s.strips();
  for (int64_t d = 0; d < s.depth; d += kStripTerms) {
    const int64_t depth = lesser(kStripTerms, s.depth - d), each = (depth + strips - 1) / strips;
    for (int64_t panel = first; panel < end; ++panel) {
      // The next panel is requested line by line, some for each tile.
      const float* next = s.weights + ((panel + 1) * s.depth + d) * kTileColumns;
      for (int64_t strip = 0; strip < strips; ++strip) {
        for (int64_t k = strip * each; k < lesser(strip * each + each, depth); ++k)
          for (int64_t line = 0; line < kTileColumns; line += 16)
            __builtin_prefetch(next + k * kTileColumns + line);
        multiply_tile_of(s, strip, panel, d);
      }
    }
  }
}
