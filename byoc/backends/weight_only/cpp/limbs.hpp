// Products of weights and digits, as accurate as float32: they are summed without rounding, by AVX-512
// VNNI or AVX2. It follows digits.hpp.
#ifdef OPINFO_LIMBS

namespace opinfo_weight_only {
namespace {

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
inline __m512 as_floats(const float* p) { return _mm512_loadu_ps(p); }
inline __m512 as_floats(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

template <int bits, typename S, int rows>
void limb_tile(const Weights& w, int64_t panel, const int8_t* const* x, const BlockOf* const* of,
               float (*y)[kColumns]) {
  constexpr int per = 8 / bits;
  const __m512i mask = _mm512_set1_epi8(static_cast<char>((1 << bits) - 1));
  const int64_t words = w.block / (4 * per), quads = w.block / 4;
  const uint8_t* q = w.data + panel * w.blocks * words * 64;
  const S* scale = static_cast<const S*>(w.scales) + panel * w.blocks * kColumns;
  const S* zero = static_cast<const S*>(w.zeros);
  if (zero != nullptr) zero += panel * w.blocks * kColumns;
  __m512 total[rows];
  for (int r = 0; r < rows; ++r) total[r] = _mm512_setzero_ps();
  for (int64_t b = 0; b < w.blocks; ++b) {
    __m512i sum[rows][kLimbs];
    const int32_t* digits[rows];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      digits[r] = reinterpret_cast<const int32_t*>(x[r] + b * kLimbs * w.block);
#pragma GCC unroll 3
      for (int l = 0; l < kLimbs; ++l) sum[r][l] = _mm512_set1_epi32(of[r][b].start[l]);
    }
    for (int64_t k = 0; k < words; ++k, q += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(q) + kAhead, _MM_HINT_T1);
      const __m512i all = _mm512_loadu_si512(q);
#pragma GCC unroll 8
      for (int j = 0; j < per; ++j) {
        const __m512i value =
            bits == 8 ? all : _mm512_and_si512(j ? _mm512_srli_epi16(all, j * bits) : all, mask);
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r)
#pragma GCC unroll 3
          for (int l = 0; l < kLimbs; ++l)
            sum[r][l] = _mm512_dpbusd_epi32(
                sum[r][l], value, _mm512_set1_epi32(digits[r][l * quads + k * per + j]));
      }
    }
    _mm_prefetch(reinterpret_cast<const char*>(scale + b * kColumns) + kAhead / 8, _MM_HINT_T1);
    const __m512 factor = as_floats(scale + b * kColumns);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      __m512 value = _mm512_cvtepi32_ps(sum[r][2]);
      value = _mm512_fmadd_ps(value, _mm512_set1_ps(256), _mm512_cvtepi32_ps(sum[r][1]));
      value = _mm512_fmadd_ps(value, _mm512_set1_ps(256), _mm512_cvtepi32_ps(sum[r][0]));
      if (zero != nullptr)
        value = _mm512_fnmadd_ps(as_floats(zero + b * kColumns), _mm512_set1_ps(of[r][b].sum), value);
      const __m512 unit = _mm512_mul_ps(factor, _mm512_set1_ps(of[r][b].unit));
      total[r] = _mm512_fmadd_ps(value, unit, total[r]);
    }
  }
  for (int r = 0; r < rows; ++r) _mm512_storeu_ps(y[r], total[r]);
}

#else
inline __m256 as_floats(const float* p) { return _mm256_loadu_ps(p); }
inline __m256 as_floats(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// Two products of a byte with a digit are at most 2 * 15 * 128, and are summed up in 16 bits for so
// many words that these suffice. Of 8 bits, there are sums of the lower and of the upper four. Those of
// the two lower digits go to one sum of 32 bits.
template <int bits>
constexpr int kMostWords = bits == 4 ? 4 : 8;

template <int bits, int rows>
struct LimbSums {
  static constexpr int per = 8 / bits, pieces = bits == 8 ? 2 : per, own = bits == 8 ? 2 : 1;
  static constexpr int shift = bits == 8 ? 4 : bits;
  __m256i low[rows][2], high[rows][2];

  // Add the products of `count` words with their digits, of which each row has `limb` in a block.
  template <int count>
  __attribute__((always_inline)) void add(const uint8_t* q, const int8_t* const* digits, int64_t limb) {
    const __m256i mask = _mm256_set1_epi8(static_cast<char>((1 << shift) - 1));
    __m256i part[own][rows][kLimbs][2];
#pragma GCC unroll 8
    for (int k = 0; k < count; ++k) {
      _mm_prefetch(reinterpret_cast<const char*>(q + 64 * k) + kAhead, _MM_HINT_T1);
#pragma GCC unroll 4
      for (int j = 0; j < pieces; ++j) {
        __m256i value[2];
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) {
          const __m256i all =
              _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + 64 * k + 32 * h));
          value[h] = _mm256_and_si256(j ? _mm256_srli_epi16(all, j * shift) : all, mask);
        }
        const int place = 4 * (bits == 8 ? k : k * per + j);
#pragma GCC unroll 2
        for (int r = 0; r < rows; ++r)
#pragma GCC unroll 3
          for (int l = 0; l < kLimbs; ++l) {
            int32_t four;
            std::memcpy(&four, digits[r] + l * limb + place, 4);
#pragma GCC unroll 2
            for (int h = 0; h < 2; ++h) {
              __m256i& to = part[j % own][r][l][h];
              const __m256i more = _mm256_maddubs_epi16(value[h], _mm256_set1_epi32(four));
              to = k == 0 && j < own ? more : _mm256_add_epi16(to, more);
              // Sums that the compiler puts off would need more registers than there are.
              asm("" : "+x"(to));
            }
          }
      }
    }
#pragma GCC unroll 2
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h)
#pragma GCC unroll 2
        for (int p = 0; p < own; ++p) {
          const __m256i one = _mm256_set1_epi16(p ? 16 : 1), many = _mm256_set1_epi16(p ? 4096 : 256);
          low[r][h] = _mm256_add_epi32(low[r][h], _mm256_add_epi32(_mm256_madd_epi16(part[p][r][0][h], one),
                                                 _mm256_madd_epi16(part[p][r][1][h], many)));
          high[r][h] = _mm256_add_epi32(high[r][h], _mm256_madd_epi16(part[p][r][2][h], one));
        }
  }
};

template <int bits, typename S, int rows>
void few_limbs(const Weights& w, int64_t panel, const int8_t* const* x, const BlockOf* const* of,
              float (*y)[kColumns]) {
  constexpr int per = 8 / bits, most = kMostWords<bits>;
  const int64_t words = w.block / (4 * per), limb = w.block;
  const uint8_t* q = w.data + panel * w.blocks * words * 64;
  const S* scale = static_cast<const S*>(w.scales) + panel * w.blocks * kColumns;
  const S* zero = static_cast<const S*>(w.zeros);
  if (zero != nullptr) zero += panel * w.blocks * kColumns;
  const int8_t* digits[rows];
  __m256 total[rows][2];
#pragma GCC unroll 2
  for (int r = 0; r < rows; ++r) {
    digits[r] = x[r];
    total[r][0] = total[r][1] = _mm256_setzero_ps();
  }
  for (int64_t b = 0; b < w.blocks; ++b) {
    _mm_prefetch(reinterpret_cast<const char*>(scale + b * kColumns) + kAhead / 8, _MM_HINT_T1);
    LimbSums<bits, rows> sums;
#pragma GCC unroll 2
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        sums.low[r][h] = _mm256_set1_epi32(of[r][b].low);
        sums.high[r][h] = _mm256_set1_epi32(of[r][b].start[2]);
      }
    const uint8_t* const end = q + 64 * words;
    const auto add = [&](auto count) __attribute__((always_inline)) {
      for (; end - q >= 64 * count; q += 64 * count) {
        sums.template add<count>(q, digits, limb);
#pragma GCC unroll 2
        for (int r = 0; r < rows; ++r) digits[r] += 4 * per * count;
      }
    };
    add(std::integral_constant<int, most>());
    if constexpr (bits == 2) add(std::integral_constant<int, 2>());
    add(std::integral_constant<int, 1>());
#pragma GCC unroll 2
    for (int r = 0; r < rows; ++r) digits[r] += 2 * limb;
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const __m256 factor = as_floats(scale + b * kColumns + 8 * h);
#pragma GCC unroll 2
      for (int r = 0; r < rows; ++r) {
        __m256 value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums.high[r][h]), _mm256_set1_ps(65536),
                                       _mm256_cvtepi32_ps(sums.low[r][h]));
        if (zero != nullptr)
          value = _mm256_fnmadd_ps(as_floats(zero + b * kColumns + 8 * h),
                                   _mm256_set1_ps(of[r][b].sum), value);
        const __m256 unit = _mm256_mul_ps(factor, _mm256_set1_ps(of[r][b].unit));
        total[r][h] = _mm256_fmadd_ps(value, unit, total[r][h]);
      }
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) _mm256_storeu_ps(y[r] + 8 * h, total[r][h]);
}

// Sums of two rows have room in registers; of 8 bits, those of one.
template <int bits, typename S, int rows>
void limb_tile(const Weights& w, int64_t panel, const int8_t* const* x, const BlockOf* const* of,
               float (*y)[kColumns]) {
  constexpr int most = bits == 8 ? 1 : 2;
  if constexpr (rows > 0) {
    constexpr int some = rows < most ? rows : most;
    few_limbs<bits, S, some>(w, panel, x, of, y);
    limb_tile<bits, S, rows - some>(w, panel, x + some, of + some, y + some);
  }
}
#endif

}  // namespace
}  // namespace opinfo_weight_only
#endif
