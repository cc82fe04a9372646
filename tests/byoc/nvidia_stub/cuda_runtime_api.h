// What generated code uses of the CUDA runtime, over the host's memory: for tests without a GPU.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

using cudaError_t = int;
using cudaStream_t = void*;
enum { cudaSuccess = 0, cudaMemcpyDeviceToDevice = 3, cudaMemcpyDefault = 4 };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };

inline const char* cudaGetErrorString(cudaError_t) { return "an error of the stub"; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
using cudaEvent_t = int*;
namespace stub {
inline float elapsed = 1.0f;  // milliseconds between events
}
inline cudaError_t cudaEventCreate(cudaEvent_t*) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* time, cudaEvent_t, cudaEvent_t) {
  *time = stub::elapsed;
  return cudaSuccess;
}
enum { cudaStreamNonBlocking = 1 };
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned) { return cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
struct cudaDeviceProp {
  char name[256] = "stub";
  int major = 9, minor = 0, multiProcessorCount = 1;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int) { return cudaSuccess; }
// A test says which graph is being captured; 0 is none.
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                             cudaStreamCaptureModeRelaxed };
namespace stub {
inline unsigned long long captured = 0;
inline cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
}  // namespace stub
inline cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status,
                                            unsigned long long* id) {
  *status = stub::captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  *id = stub::captured;
  return cudaSuccess;
}
inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, stub::mode);
  return cudaSuccess;
}

// What is launched during a capture does not run, nor does a captured graph, which is the time of
// what was launched last.
using cudaGraph_t = float*;
using cudaGraphExec_t = float*;
namespace stub {
inline bool recording = false;
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  stub::recording = true;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  stub::recording = false;
  *graph = new float(stub::elapsed);
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                 unsigned long long) {
  *exec = new float(*graph);
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
  stub::elapsed = *exec;
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

template <typename T>
cudaError_t cudaMalloc(T** p, size_t n) {
  if (stub::captured && stub::mode != cudaStreamCaptureModeRelaxed) return 900;
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
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, int, cudaStream_t) {
  std::memcpy(to, from, n);
  return cudaSuccess;
}

namespace stub {
inline float read(const void* p, int64_t i, cudaDataType_t type) {
  if (type == CUDA_R_32F) return static_cast<const float*>(p)[i];
  if (type == CUDA_R_16F) return static_cast<float>(static_cast<const _Float16*>(p)[i]);
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
