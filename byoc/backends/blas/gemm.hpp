// What the generated functions of the blas backend share: products of batches of matrices, and a
// loop over the rows of a result with what follows. It follows views.hpp.
#include <cblas.h>

#include <limits>

#ifdef OPENBLAS_USE64BITINT
#define OPINFO_CBLAS(name) scipy_cblas_##name##64_
#else
#define OPINFO_CBLAS(name) scipy_cblas_##name
#endif

namespace {

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

}  // namespace
