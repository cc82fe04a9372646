// What the generated functions of the blas backend share: tensors as strided views, products of
// batches of matrices, and a loop over the rows of a result with what follows.
#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <limits>

#ifdef OPENBLAS_USE64BITINT
#define OPINFO_CBLAS(name) scipy_cblas_##name##64_
#else
#define OPINFO_CBLAS(name) scipy_cblas_##name
#endif

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

View plain(const DLTensor* t) {
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

View constant(size_t k) { return plain(weights[k]); }

std::string shown(const int64_t* shape) {
  std::string out = "[";
  for (int64_t k = 0; k < shape[0]; ++k)
    out += (k ? ", " : "") + (shape[k + 1] < 0 ? std::string("?") : std::to_string(shape[k + 1]));
  return out + "]";
}

// The arguments as views; an error if one is not a plain tensor of the CPU of its shape and type.
template <typename T>
__attribute__((noinline)) int given(View* out, const char* name, const TVMFFIAny* args, int32_t count, int expected,
          const int64_t* shapes) {
  if (count != expected)
    return opinfo::fail("TypeError", std::string(name) + ": " + std::to_string(count) +
                                         " arguments, expected " + std::to_string(expected));
  for (int k = 0; k < count; shapes += *shapes + 1, ++k) {
    const DLTensor* t = opinfo::tensor(args[k]);
    bool fits = t != nullptr && t->device.device_type == kDLCPU && t->dtype.code == kDLFloat &&
                t->dtype.bits == 8 * sizeof(T) && t->dtype.lanes == 1 && t->ndim == shapes[0];
    for (int d = 0; fits && d < t->ndim; ++d)
      fits = shapes[d + 1] < 0 || t->shape[d] == shapes[d + 1];
    if (!fits || !opinfo::is_compact(t))
      return opinfo::fail("TypeError", std::string(name) + ": argument " + std::to_string(k) +
                                           " must be a plain CPU tensor of f" +
                                           std::to_string(8 * sizeof(T)) + shown(shapes));
    out[k] = plain(t);
  }
  return 0;
}

void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k, const float* a,
          blasint lda, const float* b, blasint ldb, float* c) {
  OPINFO_CBLAS(sgemm)(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, n);
}
void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k, const double* a,
          blasint lda, const double* b, blasint ldb, double* c) {
  OPINFO_CBLAS(dgemm)(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, n);
}

// The last two axes as BLAS takes them: as they lie, or transposed.
struct Matrix {
  CBLAS_TRANSPOSE how;
  int64_t lead;

  explicit Matrix(const View& v) {
    const int64_t *dims = v.dims + v.rank - 2, *steps = v.steps + v.rank - 2;
    const bool rows = steps[1] == 1 || dims[1] == 1;
    how = rows ? CblasNoTrans : CblasTrans;
    lead = rows ? std::max(dims[0] == 1 ? 1 : steps[0], dims[1])
                : std::max(dims[1] == 1 ? 1 : steps[1], dims[0]);
  }
};

// Where some tensors stand while the leading axes of a result are counted up.
struct Counter {
  const View* all;
  int axes;
  std::vector<View> of;
  std::vector<int64_t> at;
  int64_t index[MOST] = {};

  Counter(const View& all_, int axes_, const View* given, int number) : all(&all_), axes(axes_) {
    for (int k = 0; k < number; ++k) of.push_back(given[k].over(all_));
    at.assign(number, 0);
  }

  void next() {
    for (int d = axes; d-- > 0;) {
      for (size_t k = 0; k < of.size(); ++k) at[k] += of[k].steps[d];
      if (++index[d] < all->dims[d]) return;
      for (size_t k = 0; k < of.size(); ++k) at[k] -= of[k].steps[d] * all->dims[d];
      index[d] = 0;
    }
  }
};

// Whether the leading axes and the rows of a tensor are one axis of rows.
bool is_one_matrix(const View& v) {
  for (int k = 0; k + 2 < v.rank; ++k)
    if (v.dims[k] != 1 && v.steps[k] != v.dims[k + 1] * v.steps[k + 1]) return false;
  return v.steps[v.rank - 1] == 1 && v.steps[v.rank - 2] == v.dims[v.rank - 1];
}

// What follows a product, for a row of `n` elements: operand k has p[k][j * s[k]] beside element j.
template <typename T>
using Finish = void(T* out, const T* const* p, const int64_t* s, int64_t n);

// c = a b by batch, each row of it then given to `finish` with where the other operands stand.
template <typename T>
__attribute__((noinline)) int multiply(const char* name, const View& a, const View& b,
                                       const View& c, const View* others, int number,
                                       Finish<T>* finish) {
  const int rank = c.rank;
  int64_t m = c.dims[rank - 2], n = c.dims[rank - 1], k = a.dims[a.rank - 1], batches = 1;
  for (int d = 0; d + 2 < rank; ++d) batches *= c.dims[d];
  if (b.dims[b.rank - 2] != k) return opinfo::fail("ValueError", std::string(name) + ": extents");
  int64_t depth = 1;
  for (int d = 0; d + 2 < b.rank; ++d) depth *= b.dims[d];
  if (depth == 1 && a.rank == rank && is_one_matrix(a)) {
    m *= batches;
    batches = batches > 0 ? 1 : 0;
  }
  const Matrix one(a), two(b);
  const int64_t most = std::numeric_limits<blasint>::max();
  if (std::max({m, n, k, one.lead, two.lead}) > most)
    return opinfo::fail("ValueError", std::string(name) + ": a matrix is too large for BLAS");
  if (m == 0 || n == 0) return 0;
  const View factors[] = {a, b};
  Counter batch(c, rank - 2, factors, 2), row(c, rank - 1, others, number);
  std::vector<const T*> p(number + 1);
  std::vector<int64_t> s(number + 1);
  for (int x = 0; x < number; ++x) s[x] = row.of[x].steps[rank - 1];
  T* out = reinterpret_cast<T*>(c.data);
  for (int64_t x = 0; x < batches; ++x, batch.next()) {
    gemm(one.how, two.how, m, n, k, reinterpret_cast<const T*>(a.data) + batch.at[0], one.lead,
         reinterpret_cast<const T*>(b.data) + batch.at[1], two.lead, out);
    if (finish == nullptr) {
      out += m * n;
      continue;
    }
    for (int64_t i = 0; i < m; ++i, out += n, row.next()) {
      for (int y = 0; y < number; ++y)
        p[y] = reinterpret_cast<const T*>(others[y].data) + row.at[y];
      finish(out, p.data(), s.data(), n);
    }
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
