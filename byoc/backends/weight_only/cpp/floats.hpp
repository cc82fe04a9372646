// Products in float32 for CPUs of any vectors, and for rows with infinity and NaN.
namespace opinfo_weight_only {
namespace {

// `rows` of a product with one panel: x[r] has the blocks of a row, in units of unit[r]; y[r] gets 16
// columns.
template <int bits, typename S, int rows>
void float_tile(const Weights& w, int64_t panel, const float* const* x, const float* unit,
                float (*y)[kColumns]) {
  constexpr int per = 8 / bits;
  constexpr uint32_t mask = (1u << bits) - 1;
  const int64_t words = w.block / (4 * per);
  const uint8_t* q = w.data + panel * w.blocks * words * 64;
  const S* scale = static_cast<const S*>(w.scales) + panel * w.blocks * kColumns;
  const S* zero = static_cast<const S*>(w.zeros);
  if (zero != nullptr) zero += panel * w.blocks * kColumns;
  Floats total[rows] = {};
  for (int64_t b = 0, at = 0; b < w.blocks; ++b) {
    const Floats zeros = zero == nullptr ? all_of(w.offset) : widened(zero + b * kColumns);
    Floats sum[rows] = {};
    for (int64_t k = 0; k < words; ++k, q += 64) {
      __builtin_prefetch(q + kAhead, 0, 2);
      const Words all = *reinterpret_cast<const Words*>(q);
#pragma GCC unroll 8
      for (int j = 0; j < per; ++j)
#pragma GCC unroll 4
        for (int e = 0; e < 4; ++e, ++at) {
          const Numbers value = reinterpret_cast<Numbers>((all >> (8 * e + bits * j)) & mask);
          const Floats weight = __builtin_convertvector(value, Floats) - zeros;
#pragma GCC unroll 4
          for (int r = 0; r < rows; ++r) sum[r] += weight * x[r][at];
        }
    }
    const Floats factor = widened(scale + b * kColumns);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) total[r] += sum[r] * (factor * unit[r]);
  }
  for (int r = 0; r < rows; ++r) *reinterpret_cast<Floats*>(y[r]) = total[r];
}

}  // namespace
}  // namespace opinfo_weight_only
