// Activations as integers: the values of a block become integers of 24 bits, and these three digits of
// a base of 256. It follows panels.hpp.
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define OPINFO_LIMBS 1

namespace opinfo_weight_only {
namespace {

constexpr int kLimbs = 3;
constexpr int kExponent = 22;  // of the largest number; digits from -128 to 127 reach almost 2^23

// A block of one row: its digits lie elsewhere, `block` of each limb.
struct BlockOf {
  float unit;             // that the integers count
  float sum;              // of the integers
  int32_t start[kLimbs];  // the offset times the sum of the digits, negated
  int32_t low;            // start[0] + 256 * start[1]
};

// The lowest byte of each number, if that is its value.
inline void write_bytes(const LaneNumbers& from, int8_t* to, int64_t count) {
  int8_t bytes[kLanes];
#if defined(__AVX512F__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), _mm512_cvtepi32_epi8((__m512i)from));
#else
  const __m256i lowest = _mm256_set1_epi32(0x0c080400);
  const __m256i all = _mm256_shuffle_epi8((__m256i)from, lowest);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(bytes),
                   _mm_unpacklo_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
#endif
  std::memcpy(to, bytes, std::min<int64_t>(kLanes, count));
}

// 2^n, a normal number.
inline float power_of_two(int n) {
  const int32_t bits = (n + 127) << 23;
  float out;
  std::memcpy(&out, &bits, 4);
  return out;
}

// Write the digits of a row; false if a value is infinite or NaN.
inline bool split(const Weights& w, const float* x, int8_t* digits, BlockOf* of) {
  // Adding and subtracting it rounds to integers, ties to even.
  constexpr float kRound = 0x1.8p23f;
  for (int64_t b = 0; b < w.blocks; ++b, x += w.block, digits += kLimbs * w.block) {
    const auto part = [&](int64_t k) {
      if (k + kLanes <= w.block) return *reinterpret_cast<const Lanes*>(x + k);
      Lanes out = {};
      std::memcpy(&out, x + k, 4 * (w.block - k));
      return out;
    };
    LaneNumbers largest = {};
    for (int64_t k = 0; k < w.block; k += kLanes) {
      const LaneNumbers size = reinterpret_cast<LaneNumbers>(part(k)) & 0x7fffffff;
      largest = size > largest ? size : largest;
    }
    int32_t most = 0;
    for (int k = 0; k < kLanes; ++k) most = std::max(most, largest[k]);
    if (most >= 0x7f800000) return false;
    const int exponent = std::max((most >> 23) - 126, -100);  // every value is below 2^exponent
    const float factor = power_of_two(kExponent - exponent);
    LaneNumbers sums[kLimbs] = {};
    for (int64_t k = 0; k < w.block; k += kLanes) {
      const Lanes rounded = part(k) * factor + kRound;
      LaneNumbers rest = __builtin_convertvector(rounded - kRound, LaneNumbers);
#pragma GCC unroll 3
      for (int limb = 0; limb < kLimbs; ++limb) {
        const LaneNumbers above = (rest + 128) >> 8, digit = rest - (above << 8);
        sums[limb] += digit;
        write_bytes(digit, digits + limb * w.block + k, w.block - k);
        rest = above;
      }
    }
    of[b].unit = power_of_two(exponent - kExponent);
    double total = 0;
    for (int limb = kLimbs; limb-- > 0;) {
      int32_t sum = 0;
      for (int k = 0; k < kLanes; ++k) sum += sums[limb][k];
      of[b].start[limb] = w.zeros == nullptr ? -w.offset * sum : 0;
      total = total * 256 + sum;
    }
    of[b].low = of[b].start[0] + 256 * of[b].start[1];
    of[b].sum = static_cast<float>(total);
  }
  return true;
}

}  // namespace
}  // namespace opinfo_weight_only
#endif
