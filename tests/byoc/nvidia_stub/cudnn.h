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
enum cudnnActivationMode_t {
  CUDNN_ACTIVATION_SIGMOID, CUDNN_ACTIVATION_RELU, CUDNN_ACTIVATION_TANH,
  CUDNN_ACTIVATION_CLIPPED_RELU, CUDNN_ACTIVATION_ELU, CUDNN_ACTIVATION_IDENTITY,
  CUDNN_ACTIVATION_SWISH
};
using cudnnHandle_t = struct cudnnContext*;
struct cudnnContext {};
struct stubTensor {
  cudaDataType_t type;
  std::vector<int64_t> dims, strides;
};
struct stubActivation {
  cudnnActivationMode_t mode;
  double limit;
};
using cudnnTensorDescriptor_t = stubTensor*;
using cudnnActivationDescriptor_t = stubActivation*;

#define STUB_PAIR(What, T)                                        \
  inline cudnnStatus_t cudnnCreate##What##Descriptor(T** d) {     \
    *d = new T();                                                 \
    return CUDNN_STATUS_SUCCESS;                                  \
  }                                                               \
  inline cudnnStatus_t cudnnDestroy##What##Descriptor(T* d) {     \
    delete d;                                                     \
    return CUDNN_STATUS_SUCCESS;                                  \
  }
STUB_PAIR(Tensor, stubTensor)
STUB_PAIR(Activation, stubActivation)

inline cudaDataType_t stub_type(cudnnDataType_t t) {
  return t == CUDNN_DATA_FLOAT ? CUDA_R_32F : t == CUDNN_DATA_HALF ? CUDA_R_16F : CUDA_R_16BF;
}
inline const char* cudnnGetErrorString(cudnnStatus_t) { return "not supported (stub)"; }
inline void cudnnGetLastErrorString(char* message, size_t size) {
  std::snprintf(message, size, "stub");
}
inline size_t cudnnGetVersion() { return 91900; }
inline cudnnStatus_t cudnnCreate(cudnnHandle_t* h) {
  *h = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }
inline cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t t, cudnnDataType_t type,
                                                int rank, const int* dims, const int* strides) {
  *t = {stub_type(type), {dims, dims + rank}, {strides, strides + rank}};
  return rank < 4 ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t a,
                                                  cudnnActivationMode_t mode,
                                                  cudnnNanPropagation_t, double limit) {
  *a = {mode, limit};
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetActivationDescriptorSwishBeta(cudnnActivationDescriptor_t, double b) {
  return b == 1.0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

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
inline float stub_act(const stubActivation& a, float x) {
  switch (a.mode) {
    case CUDNN_ACTIVATION_RELU: return x > 0 ? x : 0;
    case CUDNN_ACTIVATION_CLIPPED_RELU: return std::fmin(std::fmax(x, 0), a.limit);
    case CUDNN_ACTIVATION_SIGMOID: return 1 / (1 + std::exp(-x));
    case CUDNN_ACTIVATION_TANH: return std::tanh(x);
    case CUDNN_ACTIVATION_SWISH: return x / (1 + std::exp(-x));
    default: return x;
  }
}
inline cudnnStatus_t cudnnAddTensor(cudnnHandle_t, const void*, cudnnTensorDescriptor_t a,
                                    const void* A, const void*, cudnnTensorDescriptor_t c,
                                    void* C) {
  stub_each(c->dims, [&](const std::vector<int64_t>& at) {
    const int64_t to = stub_at(*c, at);
    stub::write(C, to, c->type,
                stub::read(C, to, c->type) + stub::read(A, stub_at(*a, at), a->type));
  });
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnActivationForward(cudnnHandle_t, cudnnActivationDescriptor_t a,
                                            const void*, cudnnTensorDescriptor_t x, const void* X,
                                            const void*, cudnnTensorDescriptor_t y, void* Y) {
  stub_each(y->dims, [&](const std::vector<int64_t>& at) {
    const float v = stub_act(*a, stub::read(X, stub_at(*x, at), x->type));
    stub::write(Y, stub_at(*y, at), y->type, v);
  });
  return CUDNN_STATUS_SUCCESS;
}

#include "cudnn_graph_stub.h"
