// What generated code uses of cuBLASLt, as its documentation has it, in plain loops on the host.
#pragma once
#include <cmath>

#include "cuda_runtime_api.h"

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_INVALID_VALUE = 7,
                      CUBLAS_STATUS_NOT_SUPPORTED = 15 };
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 };
enum cublasLtEpilogue_t {
  CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_RELU = 2, CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_RELU_BIAS = 6, CUBLASLT_EPILOGUE_GELU = 32, CUBLASLT_EPILOGUE_GELU_BIAS = 36
};
enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB, CUBLASLT_MATMUL_DESC_EPILOGUE,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE
};
enum cublasLtMatrixLayoutAttribute_t { CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                       CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET };
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK
};
enum cublasLtReductionScheme_t { CUBLASLT_REDUCTION_SCHEME_INPLACE = 1,
                                 CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2 };
using cublasLtHandle_t = int*;
struct cublasLtMatmulDescOpaque_t {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  int64_t rows, cols, ld, stride = 0;
  int32_t batch = 1;
};
using cublasLtMatmulDesc_t = cublasLtMatmulDescOpaque_t*;
using cublasLtMatrixLayout_t = cublasLtMatrixLayoutOpaque_t*;
using cublasLtMatmulPreference_t = int*;
struct cublasLtMatmulAlgo_t { int name = 0; };
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
};

// For tests: how often algorithms were named, what was run last, the largest alignment that they need, the
// number of rows up to which algorithm 0 is the faster one, and an algorithm that is refused elsewhere.
namespace stub {
inline int products_named = 0, product_ran = -1, product_alignment = 16, product_refused = -1;
inline int64_t product_rows = 1 << 20;
}
enum cublasLtMatmulAlgoCapAttributes_t {
  CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES,
  CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES
};
inline size_t cublasLtGetVersion() { return 130100; }
inline cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t*,
                                                        cublasLtMatmulAlgoCapAttributes_t,
                                                        void* value, size_t bytes, size_t* written) {
  const uint32_t least = static_cast<uint32_t>(stub::product_alignment);
  std::memcpy(value, &least, *written = bytes);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algo,
    cublasLtMatmulHeuristicResult_t* result) {
  result->workspaceSize = 64;
  return algo->name < 0 || algo->name > 1 || algo->name == stub::product_refused
             ? CUBLAS_STATUS_NOT_SUPPORTED
             : CUBLAS_STATUS_SUCCESS;
}
inline const char* cublasLtGetStatusString(cublasStatus_t) { return "not supported (stub)"; }
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) {
  *h = new int(0);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t d, cublasComputeType_t,
                                             cudaDataType_t) {
  *d = {};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                                     cublasLtMatmulDescAttributes_t which,
                                                     const void* value, size_t bytes) {
  void* const to[] = {&d->a, &d->b, &d->epilogue, &d->bias, &d->bias_type};
  std::memcpy(to[which], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t m, cudaDataType_t type,
                                               uint64_t rows, uint64_t cols, int64_t ld) {
  *m = {type, static_cast<int64_t>(rows), static_cast<int64_t>(cols), ld};
  return ld < m->rows ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t m,
                                                       cublasLtMatrixLayoutAttribute_t which,
                                                       const void* value, size_t bytes) {
  void* to = which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? static_cast<void*>(&m->batch)
                                                         : static_cast<void*>(&m->stride);
  std::memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t*) {
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                           cublasLtMatmulPreferenceAttributes_t,
                                                           const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) {
  return CUBLAS_STATUS_SUCCESS;
}
// The shapes of op(A), op(B) and D have to fit: (m, k), (k, n), (m, n).
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t out, cublasLtMatmulPreference_t, int most,
    cublasLtMatmulHeuristicResult_t* best, int* found) {
  ++stub::products_named;
  const int64_t m = d->a ? a->cols : a->rows, k = d->a ? a->rows : a->cols;
  const int64_t n = d->b ? b->rows : b->cols, l = d->b ? b->cols : b->rows;
  const bool fits = m == out->rows && n == out->cols && k == l && a->batch == out->batch &&
                    b->batch == out->batch && a->type == b->type;
  *found = fits ? most < 2 ? most : 2 : 0;
  for (int k = 0; k < *found; ++k) best[k].workspaceSize = 64, best[k].algo.name = k;
  return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
inline void stub_matmul(const cublasLtMatmulDescOpaque_t& d, float scale, const void* A,
                        const cublasLtMatrixLayoutOpaque_t& a, const void* B,
                        const cublasLtMatrixLayoutOpaque_t& b, float more, const void* C,
                        const cublasLtMatrixLayoutOpaque_t& c, void* D,
                        const cublasLtMatrixLayoutOpaque_t& out) {
  const int64_t sum = d.a ? a.rows : a.cols;
  for (int64_t g = 0; g < out.batch; ++g)
    for (int64_t j = 0; j < out.cols; ++j)
      for (int64_t i = 0; i < out.rows; ++i) {
        float x = 0;
        for (int64_t k = 0; k < sum; ++k)
          x += stub::read(A, g * a.stride + (d.a ? k + i * a.ld : i + k * a.ld), a.type) *
               stub::read(B, g * b.stride + (d.b ? j + k * b.ld : k + j * b.ld), b.type);
        x *= scale;
        if (more != 0) x += more * stub::read(C, g * c.stride + i + j * c.ld, c.type);
        if (d.epilogue & 4) x += stub::read(d.bias, i, d.bias_type);
        if (d.epilogue & 2) x = x > 0 ? x : 0;
        if (d.epilogue & 32)
          x = 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
        stub::write(D, g * out.stride + i + j * out.ld, out.type, x);
      }
}
inline cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t, cublasLtMatmulDesc_t d, const void* alpha, const void* A,
    cublasLtMatrixLayout_t a, const void* B, cublasLtMatrixLayout_t b, const void* beta,
    const void* C, cublasLtMatrixLayout_t c, void* D, cublasLtMatrixLayout_t out,
    const cublasLtMatmulAlgo_t* algo, void*, size_t, cudaStream_t stream) {
  stub::product_ran = algo->name;
  stub::elapsed = (algo->name == 0) == (out->cols <= stub::product_rows) ? 0.5f : 1.0f;
  const float scale = *static_cast<const float*>(alpha), more = *static_cast<const float*>(beta);
  stub::submit(stream, [=, d = *d, a = *a, b = *b, c = *c, out = *out] {
    stub_matmul(d, scale, A, a, B, b, more, C, c, D, out);
  });
  return CUBLAS_STATUS_SUCCESS;
}
