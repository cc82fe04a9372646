// What generated code uses of cuDNN, as its documentation has it; cudnn.cpp has it in plain loops.
#pragma once
#include "cuda_runtime_api.h"

enum cudnnStatus_t { CUDNN_STATUS_SUCCESS = 0, CUDNN_STATUS_BAD_PARAM = 2000,
                     CUDNN_STATUS_NOT_SUPPORTED = 3000 };
enum cudnnDataType_t { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_HALF = 2, CUDNN_DATA_BFLOAT16 = 9 };
enum cudnnConvolutionMode_t { CUDNN_CONVOLUTION, CUDNN_CROSS_CORRELATION };
enum cudnnNanPropagation_t { CUDNN_NOT_PROPAGATE_NAN, CUDNN_PROPAGATE_NAN };
using cudnnHandle_t = struct cudnnContext*;
const char* cudnnGetErrorString(cudnnStatus_t);
void cudnnGetLastErrorString(char* message, size_t size);
size_t cudnnGetVersion();
cudnnStatus_t cudnnCreate(cudnnHandle_t* h);
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t);
#include "cudnn_graph_stub.h"
