// Rows of activations, and what follows a product. It follows views.hpp, threads.hpp and panels.hpp.
#include <memory>

namespace opinfo_weight_only {
namespace {

constexpr int64_t kSerial = 1 << 16;  // multiplications that are not worth a second thread

// What follows a product, for `n` columns of a row: operand k has p[k][j * s[k]] beside column j.
using Finish = void(float* out, const float* const* p, const int64_t* s, int64_t n);

inline float value_of(const float* p) { return *p; }
inline float value_of(const uint16_t* p) {
#if defined(__F16C__)
  return _cvtsh_ss(*p);
#else
  const uint16_t all[kColumns] = {*p};
  return widened(all)[0];
#endif
}

// float32 as float16, rounded to the nearest, ties to even.
inline uint16_t narrowed(float value) {
#if defined(__F16C__)
  return _cvtss_sh(value, 0);
#else
  uint32_t all;
  std::memcpy(&all, &value, 4);
  const uint32_t sign = all >> 16 & 0x8000, magnitude = all & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude < 0x38800000) {  // counts units of 2^-24
    float small;
    std::memcpy(&small, &magnitude, 4);
    return sign | static_cast<uint16_t>(std::nearbyint(small * 0x1p24f));
  }
  return sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
#endif
}

// Floats from a row of either dtype, and the other way.
inline void read_row(const float* from, int64_t n, float* to) { std::memcpy(to, from, 4 * n); }
inline void read_row(const uint16_t* from, int64_t n, float* to) {
  int64_t k = 0;
  for (; k + kColumns <= n; k += kColumns) *reinterpret_cast<Floats*>(to + k) = widened(from + k);
  for (; k < n; ++k) to[k] = value_of(from + k);
}
inline void write_row(const float* from, int64_t n, float* to) { std::memcpy(to, from, 4 * n); }
inline void write_row(const float* from, int64_t n, uint16_t* to) {
  for (int64_t k = 0; k < n; ++k) to[k] = narrowed(from[k]);
}

// Calls for 0, 1, ... before `count`, by several threads if `parallel`.
template <typename Each>
void each_of(int64_t count, bool parallel, const Each& each) {
  if (parallel) return opinfo::in_parallel(count, each);
  for (int64_t k = 0; k < count; ++k) each(k);
}

// Operands of what follows a product: where each row of the result finds its own.
struct Others {
  std::vector<const char*> rows;  // by row and operand
  std::vector<int64_t> steps;     // of columns
  const bool* half;               // whether an operand is float16, else it is float32
  int64_t number;

  Others(const View& out, int64_t count, const View* all, const bool* half_, int n)
      : half(half_), number(n) {
    std::vector<View> views;
    for (int k = 0; k < n; ++k) views.push_back(all[k].over(out));
    for (const View& v : views) steps.push_back(v.steps[out.rank - 1]);
    steps.push_back(0);
    rows.reserve(count * n);
    for (int64_t r = 0; r < count; ++r)
      for (int k = 0; k < n; ++k) {
        int64_t at = 0, rest = r;
        for (int d = out.rank - 1; d-- > 0; rest /= out.dims[d])
          at += rest % out.dims[d] * views[k].steps[d];
        rows.push_back(views[k].data + at * (half[k] ? 2 : 4));
      }
  }

  // Those beside `n` columns of a row from column `at` on, as floats, perhaps in `room`.
  void beside(int64_t row, int64_t at, int64_t n, float* room, const float** p) const {
    for (int64_t k = 0; k < number; ++k, room += n) {
      const char* from = rows[row * number + k] + at * steps[k] * (half[k] ? 2 : 4);
      p[k] = half[k] ? room : reinterpret_cast<const float*>(from);
      for (int64_t j = 0; half[k] && j < (steps[k] ? n : 1); ++j)
        room[j] = value_of(reinterpret_cast<const uint16_t*>(from) + j);
    }
  }
};

// Which rows of a result are computed, and from which rows of activations, of which there may be fewer.
struct Chosen {
  const int64_t* rows;  // null for the ones from `first` on
  int64_t sources, first = 0;

  int64_t to(int64_t r) const { return rows == nullptr ? first + r : rows[first + r]; }
  Chosen from_row(int64_t r) const { return {rows, sources, first + r}; }
  int64_t from(int64_t r) const { return to(r) % sources; }
};

// What follows a product for `n` columns of some rows from column `at` on, and their place in `out`.
template <typename Y>
struct Written {
  const Chosen& chosen;
  const Others& others;
  Finish* finish;
  Y* out;
  int64_t columns, at, n;
  std::vector<float> room = std::vector<float>(others.number * n);
  std::vector<const float*> p = std::vector<const float*>(others.number + 1);

  void operator()(int64_t r, float* values) {
    const int64_t row = chosen.to(r);
    if (finish != nullptr) {
      others.beside(row, at, n, room.data(), p.data());
      finish(values, p.data(), others.steps.data(), n);
    }
    write_row(values, n, out + row * columns + at);
  }
};

}  // namespace
}  // namespace opinfo_weight_only
