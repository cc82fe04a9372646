// What generated code uses of cuDNN, as its documentation has it, in plain loops on the host.
#pragma once
#include <cmath>
#include <cstdio>
#include <map>
#include <vector>

#include "cuda_runtime_api.h"

enum cudnnStatus_t { CUDNN_STATUS_SUCCESS = 0, CUDNN_STATUS_BAD_PARAM = 2000,
                     CUDNN_STATUS_NOT_SUPPORTED = 3000 };
enum cudnnDataType_t { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_HALF = 2, CUDNN_DATA_BFLOAT16 = 9 };
enum cudnnConvolutionMode_t { CUDNN_CONVOLUTION, CUDNN_CROSS_CORRELATION };
enum cudnnNanPropagation_t { CUDNN_NOT_PROPAGATE_NAN, CUDNN_PROPAGATE_NAN };
using cudnnHandle_t = struct cudnnContext*;
struct cudnnContext {
  int device;
};
struct stubTensor {
  cudaDataType_t type;
  std::vector<int64_t> dims, strides;
};
inline cudaDataType_t stub_type(cudnnDataType_t t) {
  return t == CUDNN_DATA_FLOAT ? CUDA_R_32F : t == CUDNN_DATA_HALF ? CUDA_R_16F : CUDA_R_16BF;
}
inline const char* cudnnGetErrorString(cudnnStatus_t) { return "not supported (stub)"; }
inline void cudnnGetLastErrorString(char* message, size_t size) {
  std::snprintf(message, size, "stub");
}
inline size_t cudnnGetVersion() { return 91900; }
inline cudnnStatus_t cudnnCreate(cudnnHandle_t* h) {
  *h = new cudnnContext{stub::current_device};
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }
// All places of a tensor's extents, the last axis fastest.
template <typename F>
void stub_each(const std::vector<int64_t>& dims, F f) {
  std::vector<int64_t> at(dims.size(), 0);
  for (;;) {
    f(at);
    size_t k = dims.size();
    while (k > 0 && ++at[k - 1] == dims[k - 1]) at[--k] = 0;
    if (k == 0) return;
  }
}
// Where an element is; extents of one are repeated.
inline int64_t stub_at(const stubTensor& t, const std::vector<int64_t>& at) {
  int64_t out = 0;
  for (size_t k = 0; k < at.size(); ++k) out += (t.dims[k] == 1 ? 0 : at[k]) * t.strides[k];
  return out;
}
#include "cudnn_graph_stub.h"
