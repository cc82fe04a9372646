// cuBLASLt on the host: its products in plain loops.
#include "cublasLt.h"

#include <cmath>
#include <cstring>

namespace stub {
int products_named = 0, product_ran = -1, pieces_ran = 0, product_alignment = 16, product_refused = -1;
int64_t product_rows = 1 << 20, product_wave = 0, product_misfit = -1;
float product_turned = 1.0f, product_pieces = 1.0f;
bool product_grows = false;
static float product_waves(int algorithm, int64_t rows) {
  const auto each = static_cast<float>(algorithm == 0 ? product_wave : product_wave * 3 / 2);
  return each > 0 ? static_cast<float>(rows) / each : 0.0f;
}
}  // namespace stub
size_t cublasLtGetVersion() { return 130100; }
cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t*,
                                                        cublasLtMatmulAlgoCapAttributes_t,
                                                        void* value, size_t bytes, size_t* written) {
  const uint32_t least = static_cast<uint32_t>(stub::product_alignment);
  std::memcpy(value, &least, *written = bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t out, const cublasLtMatmulAlgo_t* algo,
    cublasLtMatmulHeuristicResult_t* result) {
  result->workspaceSize = 64;
  result->wavesCount = stub::product_waves(algo->name, out->cols);
  return algo->name < 0 || algo->name > 1 || algo->name == stub::product_refused
             ? CUBLAS_STATUS_NOT_SUPPORTED
             : CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "not supported (stub)"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) {
  *h = new int(0);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t d, cublasComputeType_t compute,
                                             cudaDataType_t scale) {
  *d = {};
  d->compute = compute;
  const bool integers = compute == CUBLAS_COMPUTE_32I;
  return scale == (integers ? CUDA_R_32I : CUDA_R_32F) ? CUBLAS_STATUS_SUCCESS
                                                       : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                                     cublasLtMatmulDescAttributes_t which,
                                                     const void* value, size_t bytes) {
  void* const to[] = {&d->a, &d->b, &d->epilogue, &d->bias, &d->bias_type,
                      &d->a_scale, &d->b_scale};
  std::memcpy(to[which], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t m, cudaDataType_t type,
                                               uint64_t rows, uint64_t cols, int64_t ld) {
  *m = {type, static_cast<int64_t>(rows), static_cast<int64_t>(cols), ld};
  return ld < m->rows ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t m,
                                                       cublasLtMatrixLayoutAttribute_t which,
                                                       const void* value, size_t bytes) {
  void* to = which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? static_cast<void*>(&m->batch)
                                                         : static_cast<void*>(&m->stride);
  std::memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t*) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                           cublasLtMatmulPreferenceAttributes_t,
                                                           const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) {
  return CUBLAS_STATUS_SUCCESS;
}
// What kernels of 8-bit numbers are there for: A is transposed and B is not.
static bool stub_eight_bits(const cublasLtMatmulDescOpaque_t& d,
                            const cublasLtMatrixLayoutOpaque_t& a,
                            const cublasLtMatrixLayoutOpaque_t& out) {
  const bool integers = a.type == CUDA_R_8I, floats = a.type == CUDA_R_8F_E4M3;
  if (integers != (d.compute == CUBLAS_COMPUTE_32I)) return false;
  if (!floats && (d.a_scale != nullptr || d.b_scale != nullptr)) return false;
  if (!integers && !floats) return true;
  const int least = integers ? 4 : 16;
  if (d.a != CUBLAS_OP_T || d.b != CUBLAS_OP_N || a.rows % least != 0 || a.cols % least != 0)
    return false;
  if (integers) return out.type == CUDA_R_32I && d.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  const bool bias = (d.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  return out.type != CUDA_R_32I && (!bias || out.type == CUDA_R_16F || out.type == CUDA_R_16BF);
}
// The shapes of op(A), op(B) and D have to fit: (m, k), (k, n), (m, n).
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t out, cublasLtMatmulPreference_t, int most,
    cublasLtMatmulHeuristicResult_t* best, int* found) {
  ++stub::products_named;
  const int64_t m = d->a ? a->cols : a->rows, k = d->a ? a->rows : a->cols;
  const int64_t n = d->b ? b->rows : b->cols, l = d->b ? b->cols : b->rows;
  const bool fits = m == out->rows && n == out->cols && k == l && a->batch == out->batch &&
                    b->batch == out->batch && a->type == b->type && stub_eight_bits(*d, *a, *out);
  *found = fits ? most < 2 ? most : 2 : 0;
  for (int k = 0; k < *found; ++k)
    best[k] = {{k}, 64, stub::product_waves(k, out->cols)};
  return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
static void stub_matmul(const cublasLtMatmulDescOpaque_t& d, float scale, const void* A,
                        const cublasLtMatrixLayoutOpaque_t& a, const void* B,
                        const cublasLtMatrixLayoutOpaque_t& b, float more, const void* C,
                        const cublasLtMatrixLayoutOpaque_t& c, void* D,
                        const cublasLtMatrixLayoutOpaque_t& out) {
  const int64_t sum = d.a ? a.rows : a.cols;
  for (int64_t g = 0; g < out.batch; ++g)
    for (int64_t j = 0; j < out.cols; ++j)
      for (int64_t i = 0; i < out.rows; ++i) {
        if (d.compute == CUBLAS_COMPUTE_32I) {
          int32_t total = 0;
          for (int64_t k = 0; k < sum; ++k)
            total += static_cast<const int8_t*>(A)[g * a.stride + k + i * a.ld] *
                     static_cast<const int8_t*>(B)[g * b.stride + k + j * b.ld];
          static_cast<int32_t*>(D)[g * out.stride + i + j * out.ld] = total;
          continue;
        }
        float x = 0;
        for (int64_t k = 0; k < sum; ++k)
          x += stub::read(A, g * a.stride + (d.a ? k + i * a.ld : i + k * a.ld), a.type) *
               stub::read(B, g * b.stride + (d.b ? j + k * b.ld : k + j * b.ld), b.type);
        x *= scale * (d.a_scale ? *d.a_scale : 1) * (d.b_scale ? *d.b_scale : 1);
        if (more != 0) x += more * stub::read(C, g * c.stride + i + j * c.ld, c.type);
        if (d.epilogue & 4) x += stub::read(d.bias, i, d.bias_type);
        if (d.epilogue & 2) x = x > 0 ? x : 0;
        if (d.epilogue & 32)
          x = 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
        stub::write(D, g * out.stride + i + j * out.ld, out.type, x);
      }
}
cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t, cublasLtMatmulDesc_t d, const void* alpha, const void* A,
    cublasLtMatrixLayout_t a, const void* B, cublasLtMatrixLayout_t b, const void* beta,
    const void* C, cublasLtMatrixLayout_t c, void* D, cublasLtMatrixLayout_t out,
    const cublasLtMatmulAlgo_t* algo, void*, size_t, cudaStream_t stream) {
  stub::product_ran = algo->name;
  stub::elapsed = (algo->name == 0) == (out->cols <= stub::product_rows) ? 0.5f : 2.0f;
  if (stub::product_wave > 0)  // a wave of algorithm 1 takes 1.45 times as long
    stub::elapsed = std::ceil(stub::product_waves(algo->name, out->cols)) * (algo->name == 0 ? 1.0f : 1.45f);
  if (stub::product_misfit == out->cols && algo->name == 0) stub::elapsed *= 2;  // though its waves are as below
  const bool less = stub::product_grows && out->cols < 16;
  if (stub::product_grows) stub::elapsed *= 0.0016f * static_cast<float>(out->cols * out->cols);
  const bool pieces = a->type == CUDA_R_16BF && out->type == CUDA_R_32F;
  if (pieces) stub::elapsed *= stub::product_pieces;
  else if (d->a == CUBLAS_OP_T) stub::elapsed *= less ? 0.5f : stub::product_turned;
  if (d->compute == CUBLAS_COMPUTE_32I &&
      (*static_cast<const int32_t*>(alpha) != 1 || *static_cast<const int32_t*>(beta) != 0))
    return CUBLAS_STATUS_INVALID_VALUE;
  const float scale = *static_cast<const float*>(alpha), more = *static_cast<const float*>(beta);
  stub::submit(stream, [=, d = *d, a = *a, b = *b, c = *c, out = *out] {
    stub::pieces_ran += pieces;
    stub_matmul(d, scale, A, a, B, b, more, C, c, D, out);
  });
  return CUBLAS_STATUS_SUCCESS;
}
