// Tensors as strided views, checks of arguments, and scalar functions, for generated functions that
// compute themselves. It follows codegen/abi.hpp.
#include <algorithm>
#include <cmath>

namespace {

constexpr int MOST = 8;
opinfo::Constants weights;

// A tensor; steps are in elements.
struct View {
  char* data = nullptr;
  int rank = 0;
  int64_t dims[MOST] = {}, steps[MOST] = {};

  View permuted(const char* axes) const {
    View v = *this;
    for (int k = 0; k < rank; ++k) {
      v.dims[k] = dims[axes[k] - '0'];
      v.steps[k] = steps[axes[k] - '0'];
    }
    return v;
  }

  // Over the axes of a larger tensor: it repeats along those that it has one element of.
  View over(const View& all) const {
    View v = all;
    v.data = data;
    for (int k = 0; k < all.rank; ++k) {
      const int own = k - (all.rank - rank);
      v.dims[k] = own < 0 ? 1 : dims[own];
      v.steps[k] = own < 0 || dims[own] == 1 ? 0 : steps[own];
    }
    return v;
  }
};

[[maybe_unused]] View plain(const DLTensor* t) {
  View v;
  v.data = opinfo::data(t);
  v.rank = t->ndim;
  int64_t step = 1;
  for (int k = v.rank; k-- > 0; step *= t->shape[k]) {
    v.dims[k] = t->shape[k];
    v.steps[k] = step;
  }
  return v;
}

[[maybe_unused]] View constant(size_t k) { return plain(weights[k]); }

std::string shown(const int64_t* row) {
  std::string out = "[";
  for (int64_t k = 0; k < row[0]; ++k)
    out += (k ? ", " : "") + (row[k + 2] < 0 ? std::string("?") : std::to_string(row[k + 2]));
  return out + "]";
}

// The arguments as views; an error if one is not a plain tensor of the CPU of its shape and type.
// `rows` has the rank, the bits of a float, negative for those of an integer, less 256 if it has no
// sign, and the extents of each, -1 for unknown ones.
[[maybe_unused]] __attribute__((noinline)) int given(View* out, const char* name,
                                                     const TVMFFIAny* args, int32_t count,
                                                     int expected, const int64_t* rows) {
  if (count != expected)
    return opinfo::fail("TypeError", std::string(name) + ": " + std::to_string(count) +
                                         " arguments, expected " + std::to_string(expected));
  for (int k = 0; k < count; rows += *rows + 2, ++k) {
    const DLTensor* t = opinfo::tensor(args[k]);
    const bool integer = rows[1] < 0, unsign = rows[1] < -256;
    const int64_t bits = std::abs(rows[1]) % 256;
    bool fits = t != nullptr && t->device.device_type == kDLCPU &&
                t->dtype.code == (unsign ? kDLUInt : integer ? kDLInt : kDLFloat) &&
                t->dtype.bits == bits && t->dtype.lanes == 1 && t->ndim == rows[0];
    for (int d = 0; fits && d < t->ndim; ++d)
      fits = rows[d + 2] < 0 || t->shape[d] == rows[d + 2];
    if (!fits || !opinfo::is_compact(t))
      return opinfo::fail("TypeError", std::string(name) + ": argument " + std::to_string(k) +
                                           " must be a plain CPU tensor of " +
                                           (unsign ? "u" : integer ? "i" : "f") +
                                           std::to_string(bits) + shown(rows));
    out[k] = plain(t);
  }
  return 0;
}

// As Relax has them: NaN stays NaN.
template <typename T>
[[maybe_unused]] T larger(T x, T y) { return x > y || x != x ? x : y; }
template <typename T>
[[maybe_unused]] T smaller(T x, T y) { return x < y || x != x ? x : y; }
template <typename T>
[[maybe_unused]] T sigmoid(T x) { return T(1) / (T(1) + std::exp(-x)); }
template <typename T>
[[maybe_unused]] T softplus(T x) { return larger(x, T(0)) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace
