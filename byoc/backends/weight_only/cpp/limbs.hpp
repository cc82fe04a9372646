// Products of integers, as accurate as float32: the values of a block of activations become integers
// of 24 bits, and these three digits of a base of 256. The products of digits and weights are summed
// without rounding, by AVX-512 VNNI or AVX2.
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
};

// Write the digits of a row; false if a value is infinite or NaN.
inline bool split(const Weights& w, const float* x, int8_t* digits, BlockOf* of) {
  typedef int8_t Bytes __attribute__((vector_size(16), aligned(1), may_alias));
  // Adding and subtracting it rounds to integers, ties to even.
  constexpr float kRound = 0x1.8p23f;
  for (int64_t b = 0; b < w.blocks; ++b, x += w.block, digits += kLimbs * w.block) {
    const auto part = [&](int64_t k) {
      if (k + kColumns <= w.block) return *reinterpret_cast<const Floats*>(x + k);
      Floats out = {};
      std::memcpy(&out, x + k, 4 * (w.block - k));
      return out;
    };
    Numbers largest = {};
    for (int64_t k = 0; k < w.block; k += kColumns) {
      const Numbers size = reinterpret_cast<Numbers>(part(k)) & 0x7fffffff;
      largest = size > largest ? size : largest;
    }
    int32_t most = 0;
    for (int k = 0; k < kColumns; ++k) most = std::max(most, largest[k]);
    if (most >= 0x7f800000) return false;
    const int exponent = std::max((most >> 23) - 126, -100);  // every value is below 2^exponent
    const float factor = std::ldexp(1.f, kExponent - exponent);
    Numbers sums[kLimbs] = {};
    for (int64_t k = 0; k < w.block; k += kColumns) {
      const Floats rounded = part(k) * factor + kRound;
      Numbers rest = __builtin_convertvector(rounded - kRound, Numbers);
      for (int limb = 0; limb < kLimbs; ++limb) {
        const Numbers above = (rest + 128) >> 8, digit = rest - (above << 8);
        sums[limb] += digit;
        const Bytes narrow = __builtin_convertvector(digit, Bytes);
        std::memcpy(digits + limb * w.block + k, &narrow, std::min<int64_t>(kColumns, w.block - k));
        rest = above;
      }
    }
    of[b].unit = std::ldexp(1.f, exponent - kExponent);
    double total = 0;
    for (int limb = kLimbs; limb-- > 0;) {
      int32_t sum = 0;
      for (int k = 0; k < kColumns; ++k) sum += sums[limb][k];
      of[b].start[limb] = w.zeros == nullptr ? -w.offset * sum : 0;
      total = total * 256 + sum;
    }
    of[b].sum = static_cast<float>(total);
  }
  return true;
}

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

// Half of a panel at a time. Two products of a byte with a digit are at most 2 * 15 * 128, and are
// summed up in 16 bits for so many words that these suffice. Of 8 bits, there are sums of the lower
// and of the upper four.
template <int bits, typename S, int rows>
void limb_tile(const Weights& w, int64_t panel, const int8_t* const* x, const BlockOf* const* of,
               float (*y)[kColumns]) {
  constexpr int per = 8 / bits, pieces = bits == 8 ? 2 : per, own = bits == 8 ? 2 : 1;
  constexpr int shift = bits == 8 ? 4 : bits, most = bits == 2 ? 8 : bits == 4 ? 4 : 8;
  const __m256i mask = _mm256_set1_epi8(static_cast<char>((1 << shift) - 1));
  const __m256i factors[2] = {_mm256_set1_epi16(1), _mm256_set1_epi16(16)};
  const int64_t words = w.block / (4 * per), quads = w.block / 4;
  const uint8_t* q = w.data + panel * w.blocks * words * 64;
  const S* scale = static_cast<const S*>(w.scales) + panel * w.blocks * kColumns;
  const S* zero = static_cast<const S*>(w.zeros);
  if (zero != nullptr) zero += panel * w.blocks * kColumns;
  __m256 total[rows][2];
  for (int r = 0; r < rows; ++r) total[r][0] = total[r][1] = _mm256_setzero_ps();
  for (int64_t b = 0; b < w.blocks; ++b, q += 64 * words, scale += kColumns) {
    for (int64_t k = 0; k < words; ++k)
      _mm_prefetch(reinterpret_cast<const char*>(q + 64 * k) + kAhead, _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(scale) + kAhead / 8, _MM_HINT_T1);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      __m256i sum[rows][kLimbs];
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 3
        for (int l = 0; l < kLimbs; ++l) sum[r][l] = _mm256_set1_epi32(of[r][b].start[l]);
      for (int64_t first = 0; first < words; first += most) {
        __m256i part[own][rows][kLimbs] = {};
        for (int64_t k = first; k < std::min(first + most, words); ++k) {
          const __m256i all =
              _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + 64 * k + 32 * half));
#pragma GCC unroll 4
          for (int j = 0; j < pieces; ++j) {
            const __m256i value =
                _mm256_and_si256(j ? _mm256_srli_epi16(all, j * shift) : all, mask);
            const int64_t quad = bits == 8 ? k : k * per + j;
#pragma GCC unroll 4
            for (int r = 0; r < rows; ++r)
#pragma GCC unroll 3
              for (int l = 0; l < kLimbs; ++l) {
                const int8_t* digits = x[r] + b * kLimbs * w.block + 4 * (l * quads + quad);
                int32_t four;
                std::memcpy(&four, digits, 4);
                __m256i& to = part[j % own][r][l];
                to = _mm256_add_epi16(to, _mm256_maddubs_epi16(value, _mm256_set1_epi32(four)));
              }
          }
        }
#pragma GCC unroll 2
        for (int p = 0; p < own; ++p)
#pragma GCC unroll 4
          for (int r = 0; r < rows; ++r)
#pragma GCC unroll 3
            for (int l = 0; l < kLimbs; ++l)
              sum[r][l] = _mm256_add_epi32(sum[r][l],
                                           _mm256_madd_epi16(part[p][r][l], factors[p]));
      }
      const __m256 factor = as_floats(scale + 8 * half);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        __m256 value = _mm256_cvtepi32_ps(sum[r][2]);
        value = _mm256_fmadd_ps(value, _mm256_set1_ps(256), _mm256_cvtepi32_ps(sum[r][1]));
        value = _mm256_fmadd_ps(value, _mm256_set1_ps(256), _mm256_cvtepi32_ps(sum[r][0]));
        if (zero != nullptr)
          value = _mm256_fnmadd_ps(as_floats(zero + b * kColumns + 8 * half),
                                   _mm256_set1_ps(of[r][b].sum), value);
        const __m256 unit = _mm256_mul_ps(factor, _mm256_set1_ps(of[r][b].unit));
        total[r][half] = _mm256_fmadd_ps(value, unit, total[r][half]);
      }
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int half = 0; half < 2; ++half) _mm256_storeu_ps(y[r] + 8 * half, total[r][half]);
}
#endif

}  // namespace
}  // namespace opinfo_weight_only
#endif
