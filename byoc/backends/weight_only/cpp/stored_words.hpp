// Matrices of few bits that are parameters, whose values are read off their words at each call. It
// follows dense.hpp.
namespace opinfo_weight_only {
namespace {

typedef uint32_t Digits __attribute__((vector_size(4 * kColumns)));

// The value at `k` of tensors of words, scales and zero points, of types that are known later.
enum class Kind { kWord8, kWord16, kWord32, kHalf, kFloat, kNone };

// A tensor of `rows` along the depth for each column: element (k, j) is data[k * columns + j], or
// data[j * rows + k] if `transposed`.
struct Along {
  Kind kind;
  const char* data;
  int64_t rows;

  // Elements (k, j) to (k, j + n), and zeros up to `kColumns`.
  template <typename T, typename Vector>
  void read(int64_t k, int64_t j, int64_t n, int64_t columns, bool transposed, Vector& to) const {
    const T* from = reinterpret_cast<const T*>(data) + (transposed ? j * rows + k : k * columns + j);
    const int64_t step = transposed ? rows : 1;
#if defined(__AVX512F__)
    if (sizeof(T) == 4 && n == kColumns && step < int64_t{1} << 26) {
      const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
      const __m512i at = _mm512_mullo_epi32(lane, _mm512_set1_epi32(static_cast<int>(step)));
      to = (Vector)_mm512_i32gather_epi32(at, from, 4);
      return;
    }
#endif
    std::remove_reference_t<decltype(to[0])> all[kColumns] = {};
    for (int64_t c = 0; c < n; ++c) all[c] = from[c * step];
    std::memcpy(&to, all, sizeof all);
  }
  Digits words(int64_t k, int64_t j, int64_t n, int64_t columns, bool transposed) const {
    Digits out{};
    if (kind == Kind::kWord32) read<uint32_t>(k, j, n, columns, transposed, out);
    if (kind == Kind::kWord16) read<uint16_t>(k, j, n, columns, transposed, out);
    if (kind == Kind::kWord8) read<uint8_t>(k, j, n, columns, transposed, out);
    return out;
  }
  Floats floats(int64_t k, int64_t j, int64_t n, int64_t columns, bool transposed) const {
    alignas(64) uint16_t halves[kColumns] = {};
    Floats out{};
    if (kind == Kind::kFloat) read<float>(k, j, n, columns, transposed, out);
    if (kind != Kind::kHalf) return out;
    const uint16_t* from =
        reinterpret_cast<const uint16_t*>(data) + (transposed ? j * rows + k : k * columns + j);
    for (int64_t c = 0; c < n; ++c) halves[c] = from[c * (transposed ? rows : 1)];
    return widened(halves);
  }
  // Rows k to k + 16 of column j, if `transposed`; zeros behind the last row.
  Floats some(int64_t j, int64_t k) const {
    const int64_t count = std::min<int64_t>(kColumns, rows - k);
    const char* from = data + (j * rows + k) * bytes();
    alignas(64) char all[4 * kColumns] = {};
    std::memcpy(all, from, count * bytes());
    return kind == Kind::kHalf ? widened(reinterpret_cast<const uint16_t*>(all))
                               : widened(reinterpret_cast<const float*>(all));
  }
  int64_t bytes() const {
    return kind == Kind::kWord8 ? 1 : kind == Kind::kWord32 || kind == Kind::kFloat ? 4 : 2;
  }
  Along of(int64_t expert, int64_t columns) const {
    return {kind, data + expert * rows * columns * bytes(), rows};
  }
};

// A matrix of `depth` rows: element (k, j) is (digit - offset - zero) * scale, where the digit is
// `width` bits of a word that has those of `per` rows, and scales and zero points are of `group` rows.
template <typename Matrix, typename Word, int bits, bool zeros>
struct FewRows;

// `Word` and `has_zeros` repeat what the fields say. Few rows have a kernel of their own if `few`.
template <typename W, typename Word, int width, bool has_zeros, bool few>
struct Stored {
  using Value = W;
  struct Room {
    alignas(64) W values[kPart * kWide];
  };
  using Few = std::conditional_t<few, FewRows<Stored, Word, width, has_zeros>, NoFewRows>;
  int64_t depth, columns;
  Along words, scales, zeros;
  int64_t per, group;
  float offset;
  bool transposed;

  int64_t panels() const { return (columns + kWide - 1) / kWide; }
  Stored of(int64_t expert) const {
    Stored out = *this;
    for (Along* along : {&out.words, &out.scales, &out.zeros}) *along = along->of(expert, columns);
    return out;
  }
  const W* part(int64_t panel, int64_t k, int64_t count, Room& room) const {
    for (int64_t side = 0; side < kWide; side += kColumns)
      read(panel * kWide + side, k, count, room.values + side);
    return room.values;
  }

 private:
  // `count` values from row k on of the columns from j on; zeros beyond the last column.
  void read(int64_t j, int64_t k, int64_t count, W* to) const {
    const int64_t n = std::clamp<int64_t>(columns - j, 0, kColumns);
    constexpr uint32_t mask = static_cast<uint32_t>((uint64_t{1} << width) - 1);
    constexpr int vectors = kColumns / kLanes;
    int64_t in_word = k % per, in_group = k % group;
    LaneWords digits[vectors];
    Lanes scale[vectors], zero[vectors];
    if (transposed) request(j, n, k + count);
    for (int64_t i = k; i < k + count;) {
      if (i == k || in_word == per) {
        in_word %= per;
        in_lanes(words.words(i / per, j, n, columns, transposed), digits);
        for (int v = 0; v < vectors; ++v) digits[v] >>= static_cast<uint32_t>(width * in_word);
      }
      if (i == k || in_group == group) {
        in_group %= group;
        in_lanes(scales.floats(i / group, j, n, columns, transposed), scale);
        in_lanes(zeros.floats(i / group, j, n, columns, transposed) + offset, zero);
      }
      const int64_t some = std::min({per - in_word, group - in_group, k + count - i});
      for (int64_t t = 0; t < some; ++t, to += kWide)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          const LaneNumbers digit = reinterpret_cast<LaneNumbers>(digits[v] & mask);
          *reinterpret_cast<Lanes*>(to + v * kLanes) =
              (__builtin_convertvector(digit, Lanes) - zero[v]) * scale[v];
          digits[v] >>= width % 32;
        }
      in_word += some, in_group += some, i += some;
    }
  }
  template <typename Vector, typename Lane>
  static void in_lanes(const Vector& all, Lane (&to)[kColumns / kLanes]) {
    std::memcpy(to, &all, sizeof all);
  }
  // The words of `n` columns for `kPart` rows from row k on, which the processor does not expect.
  void request(int64_t j, int64_t n, int64_t k) const {
    const int64_t word = words.bytes(), row = words.rows * word;
    const int64_t first = k / per * word;
    for (int64_t c = j; c < j + n; ++c)
      for (int64_t at = first; at < std::min(first + kPart / per * word, row); at += 64)
        __builtin_prefetch(words.data + c * row + at, 0, 2);
  }
};

}  // namespace
}  // namespace opinfo_weight_only
