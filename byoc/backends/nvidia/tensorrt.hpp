// TensorRT: a network definition of a region, built as an engine for each shape.
#include <NvInfer.h>

namespace opinfo_nvidia {
namespace {

using namespace nvinfer1;
using Ints = std::vector<int64_t>;

class Told : public ILogger {
 public:
  void log(Severity severity, const char* text) noexcept override {
    if (severity > Severity::kERROR) return;
    std::lock_guard<std::mutex> lock(mutex_);
    last_ = text;
  }
  std::string last() {
    std::lock_guard<std::mutex> lock(mutex_);
    return last_;
  }

 private:
  std::mutex mutex_;
  std::string last_;
};

inline Told& logger() {
  static Told told;
  return told;
}

template <typename T>
T* made(T* what, const char* name) {
  if (what == nullptr) OPINFO_THROW(RuntimeError) << name << ": " << logger().last();
  return what;
}

inline Dims dims(const Ints& extents) {
  Dims d{};
  if (extents.size() > Dims::MAX_DIMS) OPINFO_THROW(ValueError) << "a tensor of too many axes";
  d.nbDims = static_cast<int32_t>(extents.size());
  std::copy(extents.begin(), extents.end(), d.d);
  return d;
}

class Engine : public Kernel {
 public:
  Engine(const Context& c, IHostMemory& plan, int count) : name_(c.name), count_(count) {
    runtime_.reset(made(createInferRuntime(logger()), name_));
    engine_.reset(made(runtime_->deserializeCudaEngine(plan.data(), plan.size()), name_));
    context_.reset(made(engine_->createExecutionContext(), name_));
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    std::lock_guard<std::mutex> lock(mutex_);  // a context is of one thread at a time
    bool done = true;
    for (int k = 0; k < count_; ++k)
      done = done && context_->setTensorAddress(("t" + std::to_string(k)).c_str(), data[k]);
    if (!done || !context_->enqueueV3(stream))
      OPINFO_THROW(RuntimeError) << name_ << ": " << logger().last();
  }

 private:
  const char* name_;
  int count_;
  mutable std::mutex mutex_;
  std::unique_ptr<IRuntime> runtime_;
  std::unique_ptr<ICudaEngine> engine_;
  std::unique_ptr<IExecutionContext> context_;
};

// The layers of a region; what a layer returns is the operand of later ones.
class Network {
 public:
  explicit Network(const Context& c) : c_(c) {
    builder_.reset(made(createInferBuilder(logger()), c.name));
    const auto typed = 1U << static_cast<uint32_t>(NetworkDefinitionCreationFlag::kSTRONGLY_TYPED);
    net_.reset(made(builder_->createNetworkV2(typed), c.name));
  }

  // A tensor of the call, with leading axes of one element up to `rank`.
  ITensor* input(int k, DataType type, int rank) {
    ITensor*& t = inputs_[k];
    if (t == nullptr)
      t = made(net_->addInput(("t" + std::to_string(k)).c_str(), type, dims(c_.extents[k])),
               c_.name);
    Ints to(rank, 1);
    if (static_cast<int>(c_.extents[k].size()) >= rank) return t;
    std::copy_backward(c_.extents[k].begin(), c_.extents[k].end(), to.end());
    auto* layer = made(net_->addShuffle(*t), c_.name);
    layer->setReshapeDimensions(dims(to));
    return layer->getOutput(0);
  }

  Weights weights(int k, DataType type) {
    return {type, constants()[k]->host(), Operand{-1, nullptr, constants()[k]->extents()}.count()};
  }

  ITensor* constant(int k, DataType type) {
    return out(net_->addConstant(dims(constants()[k]->extents()), weights(k, type)));
  }

  // Weights are OIHW, `sizes`: strides, dilation, padding before, after.
  ITensor* convolution(ITensor* x, int k, DataType type, const Ints (&sizes)[4], int64_t groups) {
    const Extents e = constants()[k]->extents();
    auto* layer = made(net_->addConvolutionNd(*x, e[0], dims(Ints(e.begin() + 2, e.end())),
                                              weights(k, type), Weights{type, nullptr, 0}),
                       c_.name);
    layer->setStrideNd(dims(sizes[0]));
    layer->setDilationNd(dims(sizes[1]));
    layer->setPrePadding(dims(sizes[2]));
    layer->setPostPadding(dims(sizes[3]));
    layer->setNbGroups(groups);
    return layer->getOutput(0);
  }

  // `sizes`: window, strides, padding before, after.
  ITensor* pooling(ITensor* x, PoolingType how, const Ints (&sizes)[4], bool ceil, bool padded) {
    auto* layer = made(net_->addPoolingNd(*x, how, dims(sizes[0])), c_.name);
    layer->setStrideNd(dims(sizes[1]));
    layer->setPrePadding(dims(sizes[2]));
    layer->setPostPadding(dims(sizes[3]));
    layer->setPaddingMode(ceil ? PaddingMode::kEXPLICIT_ROUND_UP
                               : PaddingMode::kEXPLICIT_ROUND_DOWN);
    layer->setAverageCountExcludesPadding(!padded);
    return layer->getOutput(0);
  }

  ITensor* matmul(ITensor* a, ITensor* b) {
    return out(net_->addMatrixMultiply(*a, MatrixOperation::kNONE, *b, MatrixOperation::kNONE));
  }
  ITensor* elementwise(ElementWiseOperation how, ITensor* a, ITensor* b) {
    return out(net_->addElementWise(*a, *b, how));
  }
  ITensor* unary(UnaryOperation how, ITensor* x) { return out(net_->addUnary(*x, how)); }
  ITensor* activation(ActivationType how, ITensor* x, float alpha, float beta) {
    auto* layer = made(net_->addActivation(*x, how), c_.name);
    layer->setAlpha(alpha);
    layer->setBeta(beta);
    return layer->getOutput(0);
  }
  ITensor* softmax(ITensor* x, int axis) {
    auto* layer = made(net_->addSoftMax(*x), c_.name);
    layer->setAxes(1U << axis);
    return layer->getOutput(0);
  }

  std::unique_ptr<Kernel> build(ITensor* result) {
    const int last = static_cast<int>(c_.extents.size()) - 1;
    result->setName(("t" + std::to_string(last)).c_str());
    net_->markOutput(*result);
    std::unique_ptr<IBuilderConfig> config(made(builder_->createBuilderConfig(), c_.name));
    config->clearFlag(BuilderFlag::kTF32);  // float32 is multiplied as float32
    std::unique_ptr<IHostMemory> plan(made(builder_->buildSerializedNetwork(*net_, *config),
                                           c_.name));
    return std::make_unique<Engine>(c_, *plan, last + 1);
  }

 private:
  ITensor* out(ILayer* layer) { return made(layer, c_.name)->getOutput(0); }

  const Context& c_;
  std::unique_ptr<IBuilder> builder_;
  std::unique_ptr<INetworkDefinition> net_;
  std::map<int, ITensor*> inputs_;
};

}  // namespace
}  // namespace opinfo_nvidia

using namespace opinfo_nvidia;
