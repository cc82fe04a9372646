// cuBLASLt: one matmul with its epilogue.
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
    const int64_t cols = g.d.last(1), sum = g.turned_a ? g.a.last(2) : g.a.last(1);
    const int64_t rows = g.merge ? g.d.count() / cols : g.a.last(g.turned_a ? 1 : 2);
    const int64_t batch = g.d.count() / (rows * cols);
    agree(c, sum * rows * batch, sum * cols * batch, sum * rows, sum * cols, cols);
    if (c.alignment < least())
      OPINFO_THROW(ValueError) << c.name << ": addresses are multiples of " << c.alignment
                                << " bytes, expected " << least();
    check(integers() ? cublasLtMatmulDescInit(&desc_, CUBLAS_COMPUTE_32I, CUDA_R_32I)
                     : cublasLtMatmulDescInit(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "matmul");
    set(CUBLASLT_MATMUL_DESC_TRANSA, g.turned_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, g.turned_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, g.epilogue);
    if (g.bias) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, g.result);
    addresses_in(desc_, c.data, true);
    matrix(b_, g.type, g.turned_b ? sum : cols, g.turned_b ? cols : sum, batch, stride(g.b));
    matrix(a_, g.type, g.turned_a ? rows : sum, g.turned_a ? sum : rows, batch,
           g.merge ? 0 : stride(g.a));
    matrix(d_, g.result, cols, rows, batch, batch > 1 ? rows * cols : 0);
    choose(c);
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    check(run(data, stream, algo_, bytes_, workspace(device_, stream, bytes_)), "cublasLtMatmul");
  }

 private:
  static constexpr size_t kWorkspace = size_t{32} << 20, kKept = 4096;
  static constexpr int kMany = 32, kRounds = 5, kCalls = 20, kFew = 4;

  cublasStatus_t run(void* const* data, cudaStream_t stream, const cublasLtMatmulAlgo_t& algo,
                     size_t bytes, void* room) const {
    static constexpr int32_t kOne = 1, kNone = 0;
    const float beta = g_.residual ? 1.0f : 0.0f;
    cublasLtMatmulDescOpaque_t desc = desc_;  // with this call's bias: others may run beside it
    addresses_in(desc, data, false);
    void* out = g_.d.in(data);
    const void* alpha = integers() ? static_cast<const void*>(&kOne) : &g_.alpha;
    return cublasLtMatmul(handle_, &desc, alpha, g_.b.in(data), &b_, g_.a.in(data), &a_,
                          integers() ? static_cast<const void*>(&kNone) : &beta,
                          g_.residual ? g_.residual.in(data) : out, &d_, out, &d_, &algo, room,
                          bytes, stream);
  }

  bool integers() const { return g_.type == CUDA_R_8I; }

  // The bytes that all addresses must be multiples of.
  int least() const { return g_.type == CUDA_R_8F_E4M3 ? 16 : integers() ? 4 : 1; }

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
                      (!g_.scales[0] || g_.scales[0].count() == 1) &&
                      (!g_.scales[1] || g_.scales[1].count() == 1) &&
                      (!g_.residual || g_.residual.count() == g_.d.count());
    if (!fits)
      OPINFO_THROW(ValueError) << c.name << ": the extents of the operands do not fit each other";
  }

  template <typename T>
  void set(cublasLtMatmulDescAttributes_t which, T value) {
    check(cublasLtMatmulDescSetAttribute(&desc_, which, &value, sizeof(value)), "matmul");
  }

  // The bias and the scales, those that are constants only if `fixed`.
  void addresses_in(cublasLtMatmulDescOpaque_t& desc, void* const* data, bool fixed) const {
    const std::pair<cublasLtMatmulDescAttributes_t, const Operand*> all[] = {
        {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g_.bias},
        {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &g_.scales[0]},
        {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &g_.scales[1]}};
    for (const auto& [which, operand] : all) {
      if (!*operand || (operand->from < 0 && !fixed)) continue;
      const void* address = operand->in(data);
      check(cublasLtMatmulDescSetAttribute(&desc, which, &address, sizeof(address)), "address");
    }
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

  // The algorithm that is fastest here, of those that the library names for addresses as aligned as
  // these: measured once for each product, for all regions with it. If it may not be measured, as in
  // a capture, the first one, which the library estimates so. If a request waits, few are measured,
  // which takes as long as a call of a model with twelve layers.
  void choose(const Context& c) {
    static std::mutex mutex;
    static std::map<std::vector<int64_t>, cublasLtMatmulHeuristicResult_t> fastest;
    const auto key = problem(c);
    const std::lock_guard<std::mutex> alone(mutex);  // nothing else is timed meanwhile
    const auto known = fastest.find(key);
    if (known != fastest.end()) return take(known->second);
    std::array<cublasLtMatmulHeuristicResult_t, kMany> named;
    const int count = heuristics(c, named);
    take(named[0]);
    const cudaStream_t stream = stream_of(device_);
    void* out = g_.d.in(c.data);
    const bool in_place = g_.residual && g_.residual.in(c.data) == out;
    if (count == 1 || in_place || Capture(stream).id() != 0) return;
    if (fastest.size() > kKept) fastest.clear();
    take(fastest.emplace(key, raced(c, stream, named.data(), count)).first->second);
  }

  // The algorithms that the library names, the one that it estimates the fastest first.
  int heuristics(const Context& c, std::array<cublasLtMatmulHeuristicResult_t, kMany>& named) {
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
    // Parts of a sum are added in float32, whatever the result's type.
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_INPLACE |
                                CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                         &reductions, sizeof(reductions));
    int count = 0;
    const auto status =
        cublasLtMatmulAlgoGetHeuristic(handle_, &desc_, &b_, &a_, &d_, &d_, wish,
                                       c.waits ? kFew : kMany, named.data(), &count);
    cublasLtMatmulPreferenceDestroy(wish);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0)
      OPINFO_THROW(RuntimeError) << c.name << ": cuBLASLt has no algorithm for it: "
                                  << cublasLtGetStatusString(status);
    return count;
  }

  void take(const cublasLtMatmulHeuristicResult_t& algorithm) {
    algo_ = algorithm.algo;
    bytes_ = algorithm.workspaceSize;
  }

  // What the time of a product depends on.
  std::vector<int64_t> problem(const Context& c) const {
    std::vector<int64_t> key{device_, c.alignment, g_.type, g_.result, g_.epilogue, g_.turned_a,
                             g_.turned_b, g_.merge, static_cast<bool>(g_.residual)};
    for (const Operand* t : {&g_.a, &g_.b, &g_.d}) {
      key.push_back(static_cast<int64_t>(t->extents.size()));
      key.insert(key.end(), t->extents.begin(), t->extents.end());
    }
    return key;
  }

  // The fastest as parts of CUDA graphs, as models run it.
  cublasLtMatmulHeuristicResult_t raced(const Context& c, cudaStream_t stream,
                                        const cublasLtMatmulHeuristicResult_t* named,
                                        int count) const {
    check(cudaStreamSynchronize(stream), "stream");
    GraphTimer timer;
    size_t bytes = 1;
    for (int k = 0; k < count; ++k) bytes = std::max(bytes, named[k].workspaceSize);
    void* room = timer.room(static_cast<int64_t>(bytes));
    std::vector<GraphTimer::Launch> launches;
    for (int k = 0; k < count; ++k)
      launches.push_back([=, &c, &timer] {
        const auto& [algo, size] = std::tie(named[k].algo, named[k].workspaceSize);
        return (room != nullptr || size == 0) &&
               run(c.data, timer.stream(), algo, size, room) == CUBLAS_STATUS_SUCCESS;
      });
    const std::vector<float> times =
        timer.race(launches, c.waits ? 1 : kRounds, c.waits ? kFew : kCalls);
    int fastest = 0;
    for (int k = 1; k < count; ++k)
      if (times[k] >= 0 && (times[fastest] < 0 || times[k] < times[fastest])) fastest = k;
    return named[fastest];
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
  if (c.data == nullptr) return nullptr;
  return std::make_unique<Matmul>(c, g);
}

}  // namespace
}  // namespace opinfo_nvidia

using namespace opinfo_nvidia;
