// CUTLASS: one GEMM with its epilogue, compiled for the types and the alignment of its operands.
#include <cutlass/epilogue/thread/linear_combination.h>
#include <cutlass/epilogue/thread/linear_combination_gelu.h>
#include <cutlass/epilogue/thread/linear_combination_relu.h>
#include <cutlass/epilogue/thread/linear_combination_sigmoid.h>
#include <cutlass/epilogue/thread/linear_combination_silu.h>
#include <cutlass/gemm/device/gemm_universal.h>

namespace opinfo_nvidia {
namespace {

inline void check(cutlass::Status status, const char* what) {
  if (status != cutlass::Status::kSuccess)
    OPINFO_THROW(RuntimeError) << what << ": " << cutlassGetStatusString(status);
}

// d = act(alpha a b + added) over row-major tensors; `added` is a row for all rows, or a matrix.
struct Gemm {
  Operand a, b, d, added;
  bool merge = false;
  float alpha = 1.0f;
};

using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;

// Tiles of halves on tensor cores, for addresses that are multiples of `kA`, `kB`, `kD` elements.
template <typename T, typename LayoutA, typename LayoutB, int kA, int kB,
          template <typename, int> class Epilogue, int kD>
using Halves = cutlass::gemm::device::GemmUniversal<
    T, LayoutA, T, LayoutB, T, RowMajor, float, cutlass::arch::OpClassTensorOp,
    cutlass::arch::Sm80, cutlass::gemm::GemmShape<128, 128, 32>,
    cutlass::gemm::GemmShape<64, 64, 32>, cutlass::gemm::GemmShape<16, 8, 16>, Epilogue<T, kD>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>, 4, kA, kB>;

// Tiles of float32 on plain cores: products are not rounded to tf32.
template <typename T, typename LayoutA, typename LayoutB, int, int,
          template <typename, int> class Epilogue, int>
using Floats = cutlass::gemm::device::GemmUniversal<
    T, LayoutA, T, LayoutB, T, RowMajor, float, cutlass::arch::OpClassSimt, cutlass::arch::Sm80,
    cutlass::gemm::GemmShape<128, 128, 8>, cutlass::gemm::GemmShape<32, 64, 8>,
    cutlass::gemm::GemmShape<1, 1, 1>, Epilogue<T, 1>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>, 4, 1, 1>;

namespace epilogue {
using namespace cutlass::epilogue::thread;
template <typename T, int k> using Identity = LinearCombination<T, k, float, float>;
template <typename T, int k> using Relu = LinearCombinationRelu<T, k, float, float>;
template <typename T, int k> using Gelu = LinearCombinationGELU<T, k, float, float>;
template <typename T, int k> using Silu = LinearCombinationSilu<T, k, float, float>;
template <typename T, int k> using Sigmoid = LinearCombinationSigmoid<T, k, float, float>;
}  // namespace epilogue

template <typename Op>
class Product : public Kernel {
 public:
  // `aligned`: bytes that every address must be a multiple of.
  Product(const Context& c, const Gemm& g, int aligned) : g_(g), device_(c.device) {
    const bool row_a = std::is_same<typename Op::LayoutA, RowMajor>::value;
    const bool row_b = std::is_same<typename Op::LayoutB, RowMajor>::value;
    cols_ = g.d.last(1);
    sum_ = row_a ? g.a.last(1) : g.a.last(2);
    rows_ = g.merge ? g.d.count() / cols_ : g.d.last(2);
    batch_ = g.d.count() / (rows_ * cols_);
    lda_ = g.a.last(1);
    ldb_ = g.b.last(1);
    step_a_ = g.merge ? 0 : stride(g.a);
    step_b_ = stride(g.b);
    agree(c, g.b.last(row_b ? 1 : 2) == cols_);
    if (c.alignment < aligned)
      OPINFO_THROW(ValueError) << c.name << ": addresses are multiples of " << c.alignment
                                << " bytes, expected " << aligned;
    bytes_ = Op::get_workspace_size(arguments(c.data));
    check(Op::can_implement(arguments(c.data)), c.name);
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    Op op;
    check(op(arguments(data), workspace(device_, stream, bytes_), stream), "CUTLASS");
  }

 private:
  static int64_t stride(const Operand& t) {
    const int64_t one = t.last(1) * t.last(2);
    return t.count() == one ? 0 : one;
  }

  void agree(const Context& c, bool columns) const {
    const int64_t a = rows_ * sum_, b = cols_ * sum_, n = g_.added ? g_.added.count() : cols_;
    const bool fits = columns && a * b > 0 && (g_.a.count() == a || g_.a.count() == a * batch_) &&
                      (g_.b.count() == b || g_.b.count() == b * batch_) &&
                      (n == cols_ || n == g_.d.count());
    if (!fits)
      OPINFO_THROW(ValueError) << c.name << ": the extents of the operands do not fit each other";
  }

  typename Op::Arguments arguments(void* const* data) const {
    using T = typename Op::ElementC;
    const bool matrix = g_.added && g_.added.count() == g_.d.count();
    void* out = g_.d.in(data);
    const void* added = g_.added ? g_.added.in(data) : out;
    return typename Op::Arguments(
        cutlass::gemm::GemmUniversalMode::kBatched,
        {static_cast<int>(rows_), static_cast<int>(cols_), static_cast<int>(sum_)},
        static_cast<int>(batch_), {g_.alpha, g_.added ? 1.0f : 0.0f}, g_.a.in(data), g_.b.in(data),
        static_cast<const T*>(added), out, step_a_, step_b_, matrix ? rows_ * cols_ : 0,
        rows_ * cols_, lda_, ldb_, matrix || !g_.added ? cols_ : 0, cols_);
  }

  Gemm g_;
  int device_;
  int64_t rows_, cols_, sum_, batch_, lda_, ldb_, step_a_, step_b_;
  size_t bytes_ = 0;
};

template <typename Op>
std::unique_ptr<Kernel> product(const Context& c, const Gemm& g, int aligned) {
  return std::make_unique<Product<Op>>(c, g, aligned);
}

}  // namespace
}  // namespace opinfo_nvidia

using namespace opinfo_nvidia;
