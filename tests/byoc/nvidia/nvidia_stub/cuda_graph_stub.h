// Captures and graphs of CUDA; cuda_runtime.cpp has them.
#pragma once
#include <functional>

enum cudaGraphNodeType {
  cudaGraphNodeTypeKernel = 0, cudaGraphNodeTypeMemcpy = 1, cudaGraphNodeTypeMemset = 2,
  cudaGraphNodeTypeEmpty = 5
};
struct cudaMemsetParams {
  void* dst;
  size_t pitch;
  unsigned value, elementSize;
  size_t width, height;
};
struct cudaGraphEdgeData {};
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphNode_t = struct stubNode*;
using cudaGraphExec_t = struct stubExec*;

enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                             cudaStreamCaptureModeRelaxed };

namespace stub {
extern unsigned long long captured;  // a test says that some graph is captured; 0 is none
extern bool recording;               // whether a stream is captured
extern cudaStreamCaptureMode mode;
extern int launches, instances, live, clears;  // nodes that clear, of instances

// A kernel, or a node of another kind.
cudaError_t submit(cudaStream_t stream, std::function<void()> work,
                   cudaGraphNodeType type = cudaGraphNodeTypeKernel, cudaMemsetParams memset = {});
}  // namespace stub

cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id = nullptr,
    cudaGraph_t* graph = nullptr, const cudaGraphNode_t** nodes = nullptr,
    const cudaGraphEdgeData** = nullptr, size_t* count = nullptr);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* out, size_t* count);
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* out, size_t* count);
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type);
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* out,
                                         cudaGraphEdgeData*, size_t* count);
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* out,
                                           cudaGraphEdgeData*, size_t* count);
cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                     size_t count);
cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node);
cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* how);
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* before, size_t count,
                                   const cudaMemsetParams* how);
cudaError_t cudaMemsetAsync(void* p, int value, size_t n, cudaStream_t stream);
