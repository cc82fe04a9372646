// A product as cuBLASLt takes it: its descriptors, algorithms and launches. It follows kept_texts.hpp.
#include <cublasLt.h>

#include <array>

namespace opinfo_nvidia {
namespace {

inline void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    OPINFO_THROW(RuntimeError) << what << ": " << cublasLtGetStatusString(status);
}

// d = act(alpha a b + bias + residual) over row-major tensors; a batch of `a` may be rows. Products
// of int8 are exact sums of int32, those of float8 are multiplied by `scales`, of one element each.
struct Gemm {
  cudaDataType_t type = CUDA_R_32F, result = CUDA_R_32F;
  Operand a, b, d, bias, residual, scales[2];
  bool turned_a = false, turned_b = false, merge = false;
  float alpha = 1.0f;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int pieces = -1;    // the number of the constant that is compiled from pieces.cu, if it may be used
  float most = 0.0f;  // the largest magnitude of `a` in a row that is cut into pieces

  bool integers() const { return type == CUDA_R_8I; }

  // The bytes that all addresses must be multiples of.
  int least() const { return type == CUDA_R_8F_E4M3 ? 16 : integers() ? 4 : 1; }
};

// The same with the other order of `b` in memory.
inline Gemm with_turned_weights(Gemm g) {
  g.turned_b = !g.turned_b;
  return g;
}

// Of a product: `rows` x `sum` times `sum` x `cols`, `batch` times. The steps of `a` and `b` from one
// matrix to the next count elements, 0 where all of the batch meets the same one.
struct Sizes {
  int64_t rows, cols, sum, batch, step_a, step_b;
};

// Where the operands of a launch are.
struct Addresses {
  const void *a, *b, *bias, *residual, *scales[2];  // null for none
  void* d;
};

inline Addresses addresses(const Gemm& g, void* const* data) {
  const auto in = [data](const Operand& t) { return t ? t.in(data) : nullptr; };
  return {in(g.a), in(g.b), in(g.bias), in(g.residual), {in(g.scales[0]), in(g.scales[1])}, in(g.d)};
}

// `bytes`: of its workspace. `waves`: how often it fills the device, with the sizes that it was named or
// checked for. `pieces`: it multiplies those of a PieceProduct.
struct Algorithm {
  cublasLtMatmulAlgo_t algo;
  size_t bytes = 0;
  float waves = 0.0f;
  bool pieces = false;
};

// Whether an algorithm takes operands at addresses with this alignment, in bytes.
inline bool is_aligned(const Algorithm& by, int alignment) {
  for (auto which :
       {CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES}) {
    uint32_t least = 0;
    size_t written = 0;
    if (cublasLtMatmulAlgoCapGetAttribute(&by.algo, which, &least, sizeof(least), &written) !=
            CUBLAS_STATUS_SUCCESS ||
        least > static_cast<uint32_t>(alignment))
      return false;
  }
  return true;
}

inline cublasLtHandle_t handle_on(int device) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> all;
  std::lock_guard<std::mutex> lock(mutex);
  cublasLtHandle_t& h = all[device];
  if (h == nullptr) check(cublasLtCreate(&h), "cublasLtCreate");
  return h;
}

// The library's matrices are column-major, so d' = b' a' is what it is asked for.
class Product {
 public:
  // `at`: of some call.
  Product(const Gemm& g, const Sizes& s, int device, const Addresses& at)
      : handle_(handle_on(device)), alpha_(g.alpha), adds_(g.residual), integers_(g.integers()),
        known_{at.bias, at.scales[0], at.scales[1]} {
    check(integers_ ? cublasLtMatmulDescInit(&desc_, CUBLAS_COMPUTE_32I, CUDA_R_32I)
                    : cublasLtMatmulDescInit(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "matmul");
    set(CUBLASLT_MATMUL_DESC_TRANSA, g.turned_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, g.turned_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, g.epilogue);
    if (at.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, g.result);
    for (size_t k = 0; k < known_.size(); ++k)
      if (known_[k] != nullptr) address_in(desc_, kPointers[k], known_[k]);
    matrix(b_, g.type, g.turned_b ? s.sum : s.cols, g.turned_b ? s.cols : s.sum, s.batch, s.step_b);
    matrix(a_, g.type, g.turned_a ? s.rows : s.sum, g.turned_a ? s.sum : s.rows, s.batch, s.step_a);
    matrix(d_, g.result, s.cols, s.rows, s.batch, s.batch > 1 ? s.rows * s.cols : 0);
  }

  // Threads may call it at once.
  cublasStatus_t run(const Addresses& at, cudaStream_t stream, const Algorithm& by,
                     void* room) const {
    static constexpr int32_t kOne = 1, kNone = 0;
    const float beta = adds_ ? 1.0f : 0.0f;
    cublasLtMatmulDescOpaque_t desc = desc_;  // with this call's bias: others may run beside it
    const std::array<const void*, 3> now{at.bias, at.scales[0], at.scales[1]};
    for (size_t k = 0; k < now.size(); ++k)
      if (now[k] != known_[k]) address_in(desc, kPointers[k], now[k]);
    const void* alpha = integers_ ? static_cast<const void*>(&kOne) : &alpha_;
    return cublasLtMatmul(handle_, &desc, alpha, at.b, &b_, at.a, &a_,
                          integers_ ? static_cast<const void*>(&kNone) : &beta,
                          adds_ ? at.residual : at.d, &d_, at.d, &d_, &by.algo, room, by.bytes,
                          stream);
  }

  // At most `most` algorithms that the library names for addresses with this alignment, the one
  // that it estimates the fastest first. Raises if there is none.
  std::vector<Algorithm> named(const char* name, int alignment, int most) const {
    std::array<cublasLtMatmulHeuristicResult_t, kMany> results;
    int count = 0;
    const auto wish = preference(alignment);
    const auto status = cublasLtMatmulAlgoGetHeuristic(handle_, &desc_, &b_, &a_, &d_, &d_, wish.get(),
                                                       std::min(most, kMany), results.data(), &count);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0)
      OPINFO_THROW(RuntimeError) << name << ": cuBLASLt has no algorithm for it: "
                                 << cublasLtGetStatusString(status);
    std::vector<Algorithm> out;
    for (int k = 0; k < count; ++k)
      out.push_back({results[k].algo, results[k].workspaceSize, results[k].wavesCount});
    return out;
  }

  // Whether an algorithm that was named for other sizes runs for these. If so, `by` gets the waves and the
  // bytes of the workspace that it needs here.
  bool takes(Algorithm& by) const {
    cublasLtMatmulHeuristicResult_t result;
    if (cublasLtMatmulAlgoCheck(handle_, &desc_, &b_, &a_, &d_, &d_, &by.algo, &result) !=
            CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > kWorkspace)
      return false;
    by.bytes = result.workspaceSize;
    by.waves = result.wavesCount;
    return true;
  }

  // Bytes of the largest workspace.
  static constexpr size_t kWorkspace = size_t{32} << 20;

 private:
  static constexpr int kMany = 32;
  static constexpr std::array kPointers{CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                        CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                                        CUBLASLT_MATMUL_DESC_B_SCALE_POINTER};

  using Preference = std::remove_pointer_t<cublasLtMatmulPreference_t>;

  static std::unique_ptr<Preference, decltype(&cublasLtMatmulPreferenceDestroy)> preference(
      int alignment) {
    cublasLtMatmulPreference_t raw = nullptr;
    check(cublasLtMatmulPreferenceCreate(&raw), "preference");
    std::unique_ptr<Preference, decltype(&cublasLtMatmulPreferenceDestroy)> out(
        raw, cublasLtMatmulPreferenceDestroy);
    const auto put = [raw](cublasLtMatmulPreferenceAttributes_t which, auto value) {
      cublasLtMatmulPreferenceSetAttribute(raw, which, &value, sizeof(value));
    };
    put(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    for (auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      put(which, static_cast<uint32_t>(alignment));
    // Parts of a sum are added in float32, whatever the result's type.
    put(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_INPLACE |
                              CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    return out;
  }

  template <typename T>
  void set(cublasLtMatmulDescAttributes_t which, T value) {
    check(cublasLtMatmulDescSetAttribute(&desc_, which, &value, sizeof(value)), "matmul");
  }

  static void address_in(cublasLtMatmulDescOpaque_t& desc, cublasLtMatmulDescAttributes_t which,
                         const void* address) {
    check(cublasLtMatmulDescSetAttribute(&desc, which, &address, sizeof(address)), "address");
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

  cublasLtHandle_t handle_;
  float alpha_;
  bool adds_, integers_;
  std::array<const void*, 3> known_;  // by `kPointers`
  mutable cublasLtMatmulDescOpaque_t desc_;  // only read, by an interface without const
  mutable cublasLtMatrixLayoutOpaque_t a_, b_, d_;
};

}  // namespace
}  // namespace opinfo_nvidia
