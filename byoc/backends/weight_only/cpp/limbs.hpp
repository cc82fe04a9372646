// Products of integers with AVX-512 VNNI, as accurate as float32: the values of a block of
// activations become integers of 24 bits, and these three digits of a base of 256. The products of
// digits and weights are summed without rounding.
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
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
};

// Write the digits of a row; false if a value is infinite or NaN.
inline bool split(const Weights& w, const float* x, int8_t* digits, BlockOf* of) {
  for (int64_t b = 0; b < w.blocks; ++b, digits += kLimbs * w.block) {
    const float* from = x + b * w.block;
    __m512i largest = _mm512_setzero_si512();
    for (int64_t k = 0; k < w.block; k += 16) {
      const __mmask16 m = w.block - k >= 16 ? 0xffff : (1u << (w.block - k)) - 1;
      const __m512i value = _mm512_maskz_loadu_epi32(m, from + k);
      largest = _mm512_max_epi32(largest, _mm512_and_si512(value, _mm512_set1_epi32(0x7fffffff)));
    }
    const int32_t most = _mm512_reduce_max_epi32(largest);
    if (most >= 0x7f800000) return false;
    const int exponent = std::max((most >> 23) - 126, -100);  // every value is below 2^exponent
    const __m512 factor = _mm512_set1_ps(std::ldexp(1.f, kExponent - exponent));
    const __m512i half = _mm512_set1_epi32(128);
    __m512i sums[kLimbs] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    for (int64_t k = 0; k < w.block; k += 16) {
      const __mmask16 m = w.block - k >= 16 ? 0xffff : (1u << (w.block - k)) - 1;
      __m512i rest = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(m, from + k), factor));
      for (int limb = 0; limb < kLimbs; ++limb) {
        const __m512i above = _mm512_srai_epi32(_mm512_add_epi32(rest, half), 8);
        const __m512i digit = _mm512_sub_epi32(rest, _mm512_slli_epi32(above, 8));
        sums[limb] = _mm512_add_epi32(sums[limb], digit);
        _mm_mask_storeu_epi8(digits + limb * w.block + k, m, _mm512_cvtepi32_epi8(digit));
        rest = above;
      }
    }
    of[b].unit = std::ldexp(1.f, exponent - kExponent);
    double total = 0;
    for (int limb = kLimbs; limb-- > 0;) {
      const int32_t sum = _mm512_reduce_add_epi32(sums[limb]);
      of[b].start[limb] = w.zeros == nullptr ? -w.offset * sum : 0;
      total = total * 256 + sum;
    }
    of[b].sum = static_cast<float>(total);
  }
  return true;
}

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

}  // namespace
}  // namespace opinfo_weight_only
#endif
