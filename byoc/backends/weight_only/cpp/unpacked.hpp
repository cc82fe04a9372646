// Products with packed weights in float32: panels are unpacked to the caches, where all rows read them. It
// follows dense.hpp and limbs.hpp.
namespace opinfo_weight_only {
namespace {

// Writes values of a panel and `count` rows from row `k` on, rows of `kWide` floats. Rows are those of
// blocks that are filled up; k and `count` are multiples of the rows in a word.
using Unpack = void(const Weights& w, int64_t panel, int64_t k, int64_t count, float* to);

template <int bits, typename S>
void unpack(const Weights& w, int64_t panel, int64_t k, int64_t count, float* to) {
  constexpr int per = 8 / bits, height = 4 * per, vectors = kColumns / kLanes;
  constexpr uint32_t mask = (1u << bits) - 1;
  const int64_t words = w.block / height, blocks = panel * w.blocks;
  const S* scales = static_cast<const S*>(w.scales) + blocks * kColumns;
  const S* zeros = w.zeros ? static_cast<const S*>(w.zeros) + blocks * kColumns : nullptr;
  const uint8_t* q = w.data + (blocks * words + k / height) * 64;
  Lanes scale[vectors], zero[vectors];
  for (int v = 0; v < vectors; ++v) zero[v] = static_cast<float>(w.offset) - Lanes{};
  for (int64_t n = k / height, end = (k + count) / height; n < end; ++n, q += 64) {
    if (n == k / height || n % words == 0) {
      read_lanes(scales + n / words * kColumns, scale);
      if (zeros) read_lanes(zeros + n / words * kColumns, zero);
    }
    __builtin_prefetch(q + kAhead, 0, 2);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      LaneWords all = *reinterpret_cast<const LaneWords*>(q + 4 * kLanes * v);
#pragma GCC unroll 16
      for (int row = 0; row < height; ++row) {
        const int place = row % 4 * 8 + row / 4 * bits;
        const LaneNumbers value = reinterpret_cast<LaneNumbers>((all >> place) & mask);
        *reinterpret_cast<Lanes*>(to + row * kWide + v * kLanes) =
            (__builtin_convertvector(value, Lanes) - zero[v]) * scale[v];
      }
    }
    to += height * kWide;
  }
}

// A row with zeros where blocks are filled up.
template <typename X>
void spread(const Weights& w, const X* from, float* to) {
  for (int64_t b = 0; b < w.blocks; ++b, to += w.block) {
    const int64_t values = w.count(b);
    read_row(from + w.first(b), values, to);
    std::fill(to + values, to + w.block, 0.f);
  }
}

// Packed weights as a matrix of floats, whose rows are those of blocks that are filled up.
struct Unpacked {
  using Value = float;
  struct Room {
    alignas(64) float values[kPart * kWide];
  };
  using Few = NoFewRows;
  int64_t depth, columns;
  const Weights& packed;
  Unpack* unpack;

  int64_t panels() const { return (columns + kWide - 1) / kWide; }
  int64_t rows() const { return packed.blocks * packed.block; }
  const float* part(int64_t panel, int64_t k, int64_t count, Room& room) const {
    for (int64_t side = 0; side < kWide / kColumns; ++side) {
      const int64_t own = panel * (kWide / kColumns) + side;
      float* to = room.values + side * kColumns;
      if (own < packed.panels()) unpack(packed, own, k, count, to);
      else for (int64_t i = 0; i < count; ++i) std::fill(to + i * kWide, to + i * kWide + kColumns, 0.f);
    }
    return room.values;
  }
};

inline int64_t rows_of(const Unpacked& w) { return w.rows(); }
template <typename X>
void read_terms(const Unpacked& w, const X* from, float* to) { spread(w.packed, from, to); }

// Rows up to which digits are faster: products of digits need no weights in floats.
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
template <int bits>
constexpr int64_t kMostLimbRows = INT64_MAX;
#else
template <int bits>
constexpr int64_t kMostLimbRows = bits == 8 ? 2 : 7;
#endif

}  // namespace
}  // namespace opinfo_weight_only
