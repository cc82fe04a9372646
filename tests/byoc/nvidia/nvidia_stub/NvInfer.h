// The declarations of TensorRT 10 that generated code uses: to check that it compiles.
#pragma once
#include <cstddef>
#include <cstdint>

namespace nvinfer1 {
enum class DataType : int32_t { kFLOAT, kHALF, kBF16 };
enum class ActivationType : int32_t { kRELU, kSIGMOID, kTANH, kLEAKY_RELU, kCLIP, kGELU_ERF,
                                      kGELU_TANH };
enum class ElementWiseOperation : int32_t { kSUM, kPROD, kMAX, kMIN, kSUB, kDIV };
enum class UnaryOperation : int32_t { kEXP, kLOG, kSQRT, kABS, kNEG };
enum class PoolingType : int32_t { kMAX, kAVERAGE };
enum class PaddingMode : int32_t { kEXPLICIT_ROUND_DOWN, kEXPLICIT_ROUND_UP };
enum class MatrixOperation : int32_t { kNONE, kTRANSPOSE };
enum class NetworkDefinitionCreationFlag : int32_t { kSTRONGLY_TYPED = 1 };
enum class BuilderFlag : int32_t { kTF32 = 6 };

struct Dims64 {
  static constexpr int32_t MAX_DIMS = 8;
  int32_t nbDims;
  int64_t d[MAX_DIMS];
};
using Dims = Dims64;
struct Weights {
  DataType type;
  const void* values;
  int64_t count;
};
class ILogger {
 public:
  enum class Severity : int32_t { kINTERNAL_ERROR, kERROR, kWARNING };
  virtual void log(Severity severity, const char* text) noexcept = 0;
  virtual ~ILogger() = default;
};
struct ITensor {
  void setName(const char*) noexcept;
};
struct ILayer {
  ITensor* getOutput(int32_t) const noexcept;
};
struct IConvolutionLayer : ILayer {
  void setStrideNd(const Dims&) noexcept;
  void setDilationNd(const Dims&) noexcept;
  void setPrePadding(const Dims&) noexcept;
  void setPostPadding(const Dims&) noexcept;
  void setNbGroups(int64_t) noexcept;
};
struct IPoolingLayer : ILayer {
  void setStrideNd(const Dims&) noexcept;
  void setPrePadding(const Dims&) noexcept;
  void setPostPadding(const Dims&) noexcept;
  void setPaddingMode(PaddingMode) noexcept;
  void setAverageCountExcludesPadding(bool) noexcept;
};
struct IActivationLayer : ILayer {
  void setAlpha(float) noexcept;
  void setBeta(float) noexcept;
};
struct ISoftMaxLayer : ILayer {
  void setAxes(uint32_t) noexcept;
};
struct IShuffleLayer : ILayer {
  void setReshapeDimensions(const Dims&) noexcept;
};
struct INetworkDefinition {
  ITensor* addInput(const char*, DataType, const Dims&) noexcept;
  void markOutput(ITensor&) noexcept;
  IShuffleLayer* addShuffle(ITensor&) noexcept;
  ILayer* addConstant(const Dims&, Weights) noexcept;
  IConvolutionLayer* addConvolutionNd(ITensor&, int64_t, const Dims&, Weights, Weights) noexcept;
  IPoolingLayer* addPoolingNd(ITensor&, PoolingType, const Dims&) noexcept;
  ILayer* addMatrixMultiply(ITensor&, MatrixOperation, ITensor&, MatrixOperation) noexcept;
  ILayer* addElementWise(ITensor&, ITensor&, ElementWiseOperation) noexcept;
  ILayer* addUnary(ITensor&, UnaryOperation) noexcept;
  IActivationLayer* addActivation(ITensor&, ActivationType) noexcept;
  ISoftMaxLayer* addSoftMax(ITensor&) noexcept;
};
struct IHostMemory {
  void* data() const noexcept;
  std::size_t size() const noexcept;
};
struct IBuilderConfig {
  void clearFlag(BuilderFlag) noexcept;
};
struct IBuilder {
  INetworkDefinition* createNetworkV2(uint32_t) noexcept;
  IBuilderConfig* createBuilderConfig() noexcept;
  IHostMemory* buildSerializedNetwork(INetworkDefinition&, IBuilderConfig&) noexcept;
};
struct IExecutionContext {
  bool setTensorAddress(const char*, void*) noexcept;
  bool enqueueV3(void* stream) noexcept;
};
struct ICudaEngine {
  IExecutionContext* createExecutionContext() noexcept;
};
struct IRuntime {
  ICudaEngine* deserializeCudaEngine(const void*, std::size_t) noexcept;
};
IBuilder* createInferBuilder(ILogger&) noexcept;
IRuntime* createInferRuntime(ILogger&) noexcept;
}  // namespace nvinfer1
