// What generated code uses of the CUDA runtime, over the host's memory: for tests without a GPU.
// cuda_runtime.cpp has it.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

using cudaError_t = int;
using cudaStream_t = void*;
enum { cudaSuccess = 0, cudaMemcpyDeviceToDevice = 3, cudaMemcpyDefault = 4 };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_8I = 3, CUDA_R_32I = 10,
                      CUDA_R_16BF = 14, CUDA_R_8F_E4M3 = 28 };
using cudaEvent_t = int*;
enum { cudaEventDisableTiming = 2 };
enum { cudaStreamNonBlocking = 1 };
struct cudaDeviceProp {
  char name[256] = "stub";
  int major = 9, minor = 0, multiProcessorCount = 1;
};
#define CUDART_VERSION 13000

namespace stub {
extern float elapsed;  // milliseconds between events
extern float own_time;  // of a graph of which no library says its time; 0: that of what was launched before
extern int waits, synchronised, copies;
}  // namespace stub
const char* cudaGetErrorString(cudaError_t);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaEventCreate(cudaEvent_t*);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float* time, cudaEvent_t, cudaEvent_t);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaMalloc(void** p, size_t n);
cudaError_t cudaFree(void* p);
cudaError_t cudaMemset(void* p, int value, size_t n);
cudaError_t cudaMemcpy(void* to, const void* from, size_t n, int);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, int, cudaStream_t stream);
template <typename T>
cudaError_t cudaMalloc(T** p, size_t n) {
  return cudaMalloc(reinterpret_cast<void**>(p), n);
}
#include "cuda_graph_stub.h"

namespace stub {
inline float read(const void* p, int64_t i, cudaDataType_t type) {
  if (type == CUDA_R_32F) return static_cast<const float*>(p)[i];
  if (type == CUDA_R_16F) return static_cast<float>(static_cast<const _Float16*>(p)[i]);
  if (type == CUDA_R_8F_E4M3) {  // a sign, 4 bits of the exponent, 3 of the mantissa
    const uint8_t code = static_cast<const uint8_t*>(p)[i];
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    if ((code & 127) == 127) return NAN;
    const float size = exponent == 0 ? std::ldexp(mantissa, -9)
                                     : std::ldexp(8 + mantissa, exponent - 10);
    return code & 128 ? -size : size;
  }
  const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(p)[i]) << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
inline void write(void* p, int64_t i, cudaDataType_t type, float x) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(p)[i] = x;
  } else if (type == CUDA_R_16F) {
    static_cast<_Float16*>(p)[i] = static_cast<_Float16>(x);
  } else {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    bits += 0x7fff + ((bits >> 16) & 1);  // to the nearest, ties to even
    static_cast<uint16_t*>(p)[i] = static_cast<uint16_t>(bits >> 16);
  }
}
}  // namespace stub
