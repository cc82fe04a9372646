// What generated code uses of the CUDA runtime, over the host's memory: for tests without a GPU.
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

inline const char* cudaGetErrorString(cudaError_t) { return "an error of the stub"; }
namespace stub {
inline thread_local int current_device = 0;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = stub::current_device;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  stub::current_device = device;
  return cudaSuccess;
}
using cudaEvent_t = int*;
namespace stub {
inline float elapsed = 1.0f;  // milliseconds between events
}
inline cudaError_t cudaEventCreate(cudaEvent_t*) { return cudaSuccess; }
enum { cudaEventDisableTiming = 2 };
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  static int some;
  *event = &some;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* time, cudaEvent_t, cudaEvent_t) {
  *time = stub::elapsed;
  return cudaSuccess;
}
namespace stub {
inline int waits = 0, synchronised = 0, copies = 0;
}
enum { cudaStreamNonBlocking = 1 };
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new int(0);
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete static_cast<int*>(stream);
  return cudaSuccess;
}
inline cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  *id = reinterpret_cast<uintptr_t>(stream);
  return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  ++stub::waits;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() {
  ++stub::synchronised;
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
struct cudaDeviceProp {
  char name[256] = "stub";
  int major = 9, minor = 0, multiProcessorCount = 1;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int) { return cudaSuccess; }
#define CUDART_VERSION 13000
#include "cuda_graph_stub.h"

template <typename T>
cudaError_t cudaMalloc(T** p, size_t n) {
  if ((stub::captured || stub::recording) && stub::mode != cudaStreamCaptureModeRelaxed) return 900;
  *p = static_cast<T*>(std::malloc(n));
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* p) {
  std::free(p);
  return cudaSuccess;
}
inline cudaError_t cudaMemset(void* p, int value, size_t n) {
  std::memset(p, value, n);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t n, int) {
  std::memcpy(to, from, n);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, int, cudaStream_t stream) {
  ++stub::copies;
  return stub::submit(stream, [=] { std::memcpy(to, from, n); }, cudaGraphNodeTypeMemcpy);
}

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
