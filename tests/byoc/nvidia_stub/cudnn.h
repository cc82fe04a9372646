// What generated code uses of cuDNN, as its documentation has it, in plain loops on the host.
#pragma once
#include <cmath>
#include <vector>

#include "cuda_runtime_api.h"

enum cudnnStatus_t { CUDNN_STATUS_SUCCESS = 0, CUDNN_STATUS_BAD_PARAM = 2000,
                     CUDNN_STATUS_NOT_SUPPORTED = 3000 };
enum cudnnDataType_t { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_HALF = 2, CUDNN_DATA_BFLOAT16 = 9 };
enum cudnnTensorFormat_t { CUDNN_TENSOR_NCHW = 0, CUDNN_TENSOR_NHWC = 1 };
enum cudnnMathType_t { CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH,
                       CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, CUDNN_FMA_MATH };
enum cudnnConvolutionMode_t { CUDNN_CONVOLUTION, CUDNN_CROSS_CORRELATION };
enum cudnnNanPropagation_t { CUDNN_NOT_PROPAGATE_NAN, CUDNN_PROPAGATE_NAN };
enum cudnnActivationMode_t {
  CUDNN_ACTIVATION_SIGMOID, CUDNN_ACTIVATION_RELU, CUDNN_ACTIVATION_TANH,
  CUDNN_ACTIVATION_CLIPPED_RELU, CUDNN_ACTIVATION_ELU, CUDNN_ACTIVATION_IDENTITY,
  CUDNN_ACTIVATION_SWISH
};
enum cudnnConvolutionFwdAlgo_t { CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                                 CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                                 CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
                                 CUDNN_CONVOLUTION_FWD_ALGO_DIRECT };
struct cudnnConvolutionFwdAlgoPerf_t {
  cudnnConvolutionFwdAlgo_t algo;
  cudnnStatus_t status;
  size_t memory;
  cudnnMathType_t mathType;
};
using cudnnHandle_t = int*;
struct stubTensor {
  cudaDataType_t type;
  std::vector<int64_t> dims, strides;
};
struct stubConvolution {
  std::vector<int> padding, strides, dilation;
  int groups = 1;
};
struct stubActivation {
  cudnnActivationMode_t mode;
  double limit;
};
using cudnnTensorDescriptor_t = stubTensor*;
using cudnnFilterDescriptor_t = stubTensor*;
using cudnnConvolutionDescriptor_t = stubConvolution*;
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
STUB_PAIR(Filter, stubTensor)
STUB_PAIR(Convolution, stubConvolution)
STUB_PAIR(Activation, stubActivation)

inline cudaDataType_t stub_type(cudnnDataType_t t) {
  return t == CUDNN_DATA_FLOAT ? CUDA_R_32F : t == CUDNN_DATA_HALF ? CUDA_R_16F : CUDA_R_16BF;
}
inline const char* cudnnGetErrorString(cudnnStatus_t) { return "not supported (stub)"; }
inline cudnnStatus_t cudnnCreate(cudnnHandle_t* h) {
  *h = new int(0);
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }
inline cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t t, cudnnDataType_t type,
                                                int rank, const int* dims, const int* strides) {
  *t = {stub_type(type), {dims, dims + rank}, {strides, strides + rank}};
  return rank < 4 ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}
// Extents are K, C, pixels whatever the format; the memory is K, pixels, C for NHWC.
inline cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t t, cudnnDataType_t type,
                                                cudnnTensorFormat_t format, int rank,
                                                const int* dims) {
  *t = {stub_type(type), {dims, dims + rank}, std::vector<int64_t>(rank, 1)};
  int64_t step = format == CUDNN_TENSOR_NHWC ? dims[1] : 1;
  for (int k = rank - 1; k >= 2; step *= dims[k--]) t->strides[k] = step;
  t->strides[1] = format == CUDNN_TENSOR_NHWC ? 1 : step;
  t->strides[0] = format == CUDNN_TENSOR_NHWC ? step : step * dims[1];
  return rank < 4 ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t c, int rank,
                                                     const int* padding, const int* strides,
                                                     const int* dilation, cudnnConvolutionMode_t,
                                                     cudnnDataType_t) {
  *c = {{padding, padding + rank}, {strides, strides + rank}, {dilation, dilation + rank}};
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
  c->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t, cudnnMathType_t) {
  return CUDNN_STATUS_SUCCESS;
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
inline float stub_sum(const stubTensor& x, const void* X, const stubTensor& w, const void* W,
                      const stubConvolution& c, int groups_of, const std::vector<int64_t>& at) {
  float sum = 0;
  const std::vector<int64_t> window(w.dims.begin() + 1, w.dims.end());
  stub_each(window, [&](const std::vector<int64_t>& in) {
    std::vector<int64_t> from{at[0], at[1] / groups_of * w.dims[1] + in[0]}, weight{at[1]};
    weight.insert(weight.end(), in.begin(), in.end());
    for (size_t k = 0; k + 1 < in.size(); ++k) {
      const int64_t e = at[k + 2] * c.strides[k] - c.padding[k] + in[k + 1] * c.dilation[k];
      if (e < 0 || e >= x.dims[k + 2]) return;
      from.push_back(e);
    }
    sum += stub::read(X, stub_at(x, from), x.type) * stub::read(W, stub_at(w, weight), w.type);
  });
  return sum;
}
inline cudnnStatus_t stub_check(const stubTensor& x, const stubTensor& w, const stubConvolution& c,
                                const stubTensor& y) {
  bool fits = w.dims[1] * c.groups == x.dims[1] && w.dims[0] == y.dims[1];
  for (size_t k = 2; k < x.dims.size(); ++k)
    fits = fits && y.dims[k] == (x.dims[k] + 2 * c.padding[k - 2] -
                                 c.dilation[k - 2] * (w.dims[k] - 1) - 1) / c.strides[k - 2] + 1;
  return fits ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
inline cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t, cudnnTensorDescriptor_t x, const void*, cudnnFilterDescriptor_t w, const void*,
    cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t y, void*, int, int* count,
    cudnnConvolutionFwdAlgoPerf_t* found, void*, size_t) {
  *count = 1;
  found[0] = {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_STATUS_SUCCESS, 64,
              CUDNN_FMA_MATH};
  return stub_check(*x, *w, *c, *y);
}
inline cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t, const void*, cudnnTensorDescriptor_t x,
                                             const void* X, cudnnFilterDescriptor_t w,
                                             const void* W, cudnnConvolutionDescriptor_t c,
                                             cudnnConvolutionFwdAlgo_t, void*, size_t, const void*,
                                             cudnnTensorDescriptor_t y, void* Y) {
  const int per_group = static_cast<int>(w->dims[0]) / c->groups;
  stub_each(y->dims, [&](const std::vector<int64_t>& at) {
    stub::write(Y, stub_at(*y, at), y->type, stub_sum(*x, X, *w, W, *c, per_group, at));
  });
  return stub_check(*x, *w, *c, *y);
}
inline cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t, const void*, cudnnTensorDescriptor_t x, const void* X,
    cudnnFilterDescriptor_t w, const void* W, cudnnConvolutionDescriptor_t c,
    cudnnConvolutionFwdAlgo_t, void*, size_t, const void* alpha2, cudnnTensorDescriptor_t z,
    const void* Z, cudnnTensorDescriptor_t b, const void* B, cudnnActivationDescriptor_t a,
    cudnnTensorDescriptor_t y, void* Y) {
  if (a->mode != CUDNN_ACTIVATION_RELU && a->mode != CUDNN_ACTIVATION_IDENTITY)
    return CUDNN_STATUS_NOT_SUPPORTED;
  const float more = *static_cast<const float*>(alpha2);
  const int per_group = static_cast<int>(w->dims[0]) / c->groups;
  stub_each(y->dims, [&](const std::vector<int64_t>& at) {
    float sum = stub_sum(*x, X, *w, W, *c, per_group, at);
    if (more != 0) sum += more * stub::read(Z, stub_at(*z, at), z->type);
    sum += stub::read(B, stub_at(*b, at), b->type);
    stub::write(Y, stub_at(*y, at), y->type, stub_act(*a, sum));
  });
  return stub_check(*x, *w, *c, *y);
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
