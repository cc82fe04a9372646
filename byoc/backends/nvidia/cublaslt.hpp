// cuBLASLt: one matmul with its epilogue.
#include <cublasLt.h>

namespace opinfo_nvidia {
namespace {

inline void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    OPINFO_THROW(RuntimeError) << what << ": " << cublasLtGetStatusString(status);
}

// d = act(alpha a b + bias + residual) over row-major tensors; a batch of `a` may be rows.
struct Gemm {
  cudaDataType_t type = CUDA_R_32F, result = CUDA_R_32F;
  Operand a, b, d, bias, residual;
  bool turned_a = false, turned_b = false, merge = false;
  float alpha = 1.0f;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
};

inline cublasLtHandle_t handle_on(int device) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> all;
  std::lock_guard<std::mutex> lock(mutex);
  cublasLtHandle_t& h = all[device];
  if (h == nullptr) check(cublasLtCreate(&h), "cublasLtCreate");
  return h;
}

// The library's matrices are column-major, so d' = b' a' is what it is asked for.
class Matmul : public Kernel {
 public:
  Matmul(const Context& c, const Gemm& g) : g_(g), device_(c.device), handle_(handle_on(device_)) {
    const Extents& out = g.d.extents;
    const int64_t cols = g.d.last(1), sum = g.turned_a ? g.a.last(2) : g.a.last(1);
    const int64_t rows = g.merge ? g.d.count() / cols : g.d.last(2);
    const int64_t batch = g.d.count() / (rows * cols);
    agree(c, sum * rows * batch, sum * cols * batch, sum * rows, sum * cols, cols);
    check(cublasLtMatmulDescInit(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "matmul");
    set(CUBLASLT_MATMUL_DESC_TRANSA, g.turned_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, g.turned_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, g.epilogue);
    if (g.bias) {
      bias_in(desc_, g.bias.in(c.data));
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, g.result);
    }
    matrix(b_, g.type, g.turned_b ? sum : cols, g.turned_b ? cols : sum, batch, stride(g.b));
    matrix(a_, g.type, g.turned_a ? rows : sum, g.turned_a ? sum : rows, batch,
           g.merge ? 0 : stride(g.a));
    matrix(d_, g.result, cols, rows, batch, out.size() > 2 && !g.merge ? rows * cols : 0);
    choose(c);
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    const float beta = g_.residual ? 1.0f : 0.0f;
    cublasLtMatmulDescOpaque_t desc = desc_;  // with this call's bias: others may run beside it
    if (g_.bias.from >= 0) bias_in(desc, g_.bias.in(data));
    void* out = g_.d.in(data);
    check(cublasLtMatmul(handle_, &desc, &g_.alpha, g_.b.in(data), &b_, g_.a.in(data), &a_, &beta,
                         g_.residual ? g_.residual.in(data) : out, &d_, out, &d_, &algo_,
                         workspace(device_, stream, bytes_), bytes_, stream),
          "cublasLtMatmul");
  }

 private:
  static constexpr size_t kWorkspace = size_t{32} << 20;

  // Elements from one matrix of the batch to the next; 0 where all of it meets the same one.
  static int64_t stride(const Operand& t) {
    const int64_t one = t.last(1) * t.last(2);
    return t.count() == one ? 0 : one;
  }

  // The numbers of elements fit each other: extents known at run time may not.
  void agree(const Context& c, int64_t a, int64_t b, int64_t one_a, int64_t one_b,
             int64_t cols) const {
    const bool fits = a > 0 && (g_.a.count() == a || g_.a.count() == one_a) &&
                      (g_.b.count() == b || g_.b.count() == one_b) &&
                      g_.b.last(g_.turned_b ? 2 : 1) == cols &&
                      (!g_.bias || g_.bias.count() == cols) &&
                      (!g_.residual || g_.residual.extents == g_.d.extents);
    if (!fits)
      OPINFO_THROW(ValueError) << c.name << ": the extents of the operands do not fit each other";
  }

  template <typename T>
  void set(cublasLtMatmulDescAttributes_t which, T value) {
    check(cublasLtMatmulDescSetAttribute(&desc_, which, &value, sizeof(value)), "matmul");
  }

  static void bias_in(cublasLtMatmulDescOpaque_t& desc, const void* address) {
    check(cublasLtMatmulDescSetAttribute(&desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address,
                                         sizeof(address)),
          "bias");
  }

  static void matrix(cublasLtMatrixLayoutOpaque_t& m, cudaDataType_t type, int64_t rows,
                     int64_t cols, int64_t batch, int64_t stride) {
    const int32_t count = static_cast<int32_t>(batch);
    check(cublasLtMatrixLayoutInit(&m, type, rows, cols, rows), "matrix");
    check(cublasLtMatrixLayoutSetAttribute(&m, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                           sizeof(count)),
          "batch");
    check(cublasLtMatrixLayoutSetAttribute(&m, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &stride, sizeof(stride)),
          "batch");
  }

  // The best algorithm by the library's own estimate, for addresses as aligned as these.
  void choose(const Context& c) {
    cublasLtMatmulPreference_t wish = nullptr;
    check(cublasLtMatmulPreferenceCreate(&wish), "preference");
    const size_t most = kWorkspace;
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                         sizeof(most));
    const uint32_t alignment = static_cast<uint32_t>(c.alignment);
    for (auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      cublasLtMatmulPreferenceSetAttribute(wish, which, &alignment, sizeof(alignment));
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    const auto status = cublasLtMatmulAlgoGetHeuristic(handle_, &desc_, &b_, &a_, &d_, &d_, wish,
                                                       1, &best, &found);
    cublasLtMatmulPreferenceDestroy(wish);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0)
      OPINFO_THROW(RuntimeError) << c.name << ": cuBLASLt has no algorithm for it: "
                                  << cublasLtGetStatusString(status);
    algo_ = best.algo;
    bytes_ = best.workspaceSize;
  }

  Gemm g_;
  int device_;
  cublasLtHandle_t handle_;
  cublasLtMatmulDescOpaque_t desc_;
  mutable cublasLtMatrixLayoutOpaque_t a_, b_, d_;  // only read, by an interface without const
  cublasLtMatmulAlgo_t algo_;
  size_t bytes_ = 0;
};

OPINFO_UNUSED std::unique_ptr<Kernel> matmul(const Context& c, const Gemm& g) {
  return std::make_unique<Matmul>(c, g);
}

}  // namespace
}  // namespace opinfo_nvidia

using namespace opinfo_nvidia;
