
// What attention needs of rows and tiles of matrices. It follows tile_products.hpp.
namespace opinfo_loops {
namespace {

inline void clear(float* from, const float* to) {
  while (from < to) *from++ = 0;
}

// Copies rows and columns of a matrix to rows of `width` elements, the last ones of them 0.
inline void pack(const Matrix& from, int64_t rows, int64_t columns, float* to, int64_t width) {
  if (from.column == 1) {
    for (int64_t i = 0; i < rows; ++i, to += width) {
      memcpy(to, from.at(i, 0), 4 * columns);
      clear(to + columns, to + width);
    }
    return;
  }
  int64_t i = 0;
  for (; from.row == 1 && i + 4 <= rows; i += 4) {
    int64_t j = 0;
    for (; j + 4 <= columns; j += 4) transpose_four(from.at(i, j), from.column, to + i * width + j, width);
    for (int64_t k = i; k < i + 4; ++k) {
      for (int64_t c = j; c < columns; ++c) to[k * width + c] = *from.at(k, c);
      clear(to + k * width + columns, to + (k + 1) * width);
    }
  }
  for (; i < rows; ++i)
    for (int64_t j = 0; j < width; ++j) to[i * width + j] = j < columns ? *from.at(i, j) : 0.f;
}

// Copies rows times a number, next to each other.
inline void pack_scaled(const Matrix& from, int64_t rows, int64_t columns, float factor, float* to) {
  for (int64_t i = 0; i < rows; ++i, to += columns) {
    int64_t j = 0;
    for (; from.column == 1 && j + kLanes <= columns; j += kLanes)
      store(to + j, load(from.at(i, j)) * factor);
    for (; j < columns; ++j) to[j] = *from.at(i, j) * factor;
  }
}

// The sum or the largest of the lanes, by `both`, of each quarter of a vector.
template <typename Both>
OPINFO_INLINE Quad in_quad(const Lanes& v, Both both) {
  alignas(64) float parts[kLanes];
  store(parts, v);
  Quad out = *reinterpret_cast<const Quad*>(parts);
  for (int k = 4; k < kLanes; k += 4) out = both(out, *reinterpret_cast<const Quad*>(parts + k));
  return out;
}

template <typename Both>
OPINFO_INLINE float reduced(const Lanes& v, Both both) {
  const Quad all = in_quad(v, both);
  return both(both(all[0], all[1]), both(all[2], all[3]));
}

constexpr auto greater = [](auto a, auto b) OPINFO_ALWAYS { return a > b ? a : b; };
constexpr auto plus = [](auto a, auto b) OPINFO_ALWAYS { return a + b; };

// A row times rows of another matrix, whose columns lie next to each other.
inline void multiply_rows(const float* a, const Matrix& b, int64_t rows, int64_t depth, float* to) {
  for (int64_t j = 0; j < rows; j += 4) {
    Quad sums[4];
    times<4>([&](auto k) OPINFO_ALWAYS {
      const float* other = b.at(lesser(j + k, rows - 1), 0);
      Lanes sum = all_of(0);
      int64_t d = 0;
      for (; d + kLanes <= depth; d += kLanes) sum += load(a + d) * load(other + d);
      sums[k] = in_quad(sum, plus);
      for (; d < depth; ++d) sums[k][0] += a[d] * other[d];
    });
    alignas(16) float parts[16], turned[16];
    times<4>([&](auto k) OPINFO_ALWAYS { *reinterpret_cast<Quad*>(parts + 4 * k) = sums[k]; });
    transpose_four(parts, 4, turned, 4);
    const Quad* t = reinterpret_cast<const Quad*>(turned);
    const Quad sum = (t[0] + t[1]) + (t[2] + t[3]);
    for (int64_t k = 0; k < lesser(4, rows - j); ++k) to[j + k] = sum[k];
  }
}

// Adds terms to a row of scores in whole vectors, and returns the largest sum. The last vector's
// further elements become -inf.
inline float add_terms(float* row, int64_t keys, const RowTerm* terms, size_t count) {
  const int64_t full = keys / kLanes * kLanes;
  Lanes most = all_of(-__builtin_inff());
  const auto add = [&](int64_t j, const auto& read) OPINFO_ALWAYS {
    Lanes v = load(row + j);
    for (size_t k = 0; k < count; ++k) v += terms[k].each ? read(terms[k]) : all_of(*terms[k].data);
    return v;
  };
  for (int64_t j = 0; j < full; j += kLanes) {
    const Lanes v = add(j, [&](const RowTerm& t) OPINFO_ALWAYS { return load(t.data + j); });
    if (count > 0) store(row + j, v);
    most = greater(v, most);
  }
  if (full < keys) {
    store(row + full, add(full, [&](const RowTerm& t) OPINFO_ALWAYS {
      alignas(64) float some[kLanes] = {};
      memcpy(some, t.data + full, 4 * (keys - full));
      return load(some);
    }));
    for (int64_t j = keys; j < full + kLanes; ++j) row[j] = -__builtin_inff();
    most = greater(load(row + full), most);
  }
  return reduced(most, greater);
}

// exp(s - largest) for a row of scores in whole vectors, in place; returns the sum.
inline float exponentials(float* row, int64_t keys, float largest) {
  const Lanes low = all_of(-87);
  Lanes sum = all_of(0);
  for (int64_t j = 0; j < keys; j += kLanes) {
    const Lanes x = load(row + j) - largest, e = exponential(x);
    const Lanes y = x < low ? all_of(0) : e;
    store(row + j, y);
    sum += y;
  }
  return reduced(sum, plus);
}

}  // namespace
}  // namespace opinfo_loops
