// cuDNN: a convolution, a residual, a bias by channel and an activation; in one kernel where it can.
#include <cudnn.h>

namespace opinfo_nvidia {
namespace {

inline void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS)
    OPINFO_THROW(RuntimeError) << what << ": " << cudnnGetErrorString(status);
}

// y = act(x * w + residual + bias). `order`: the axes of x and y as N, C, then the pixels.
struct Conv {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t kernel = CUDNN_TENSOR_NCHW;  // OIHW, or OHWI where it is NHWC
  std::vector<int> order, strides, dilation, padding;
  int groups = 1;
  Operand x, w, y, bias, residual;
  cudnnActivationMode_t activation = CUDNN_ACTIVATION_IDENTITY;
  double limit = 0.0;  // of a clipped relu
};

// One handle a thread and device: it holds the stream of the call.
inline cudnnHandle_t handle_on(int device) {
  static thread_local std::map<int, cudnnHandle_t> all;
  cudnnHandle_t& h = all[device];
  if (h == nullptr) check(cudnnCreate(&h), "cudnnCreate");
  return h;
}

class Convolution : public Kernel {
 public:
  Convolution(const Context& c, const Conv& v) : v_(v), device_(c.device) {
    check(cudnnCreateTensorDescriptor(&x_), "tensor");
    check(cudnnCreateTensorDescriptor(&y_), "tensor");
    check(cudnnCreateTensorDescriptor(&bias_), "tensor");
    check(cudnnCreateFilterDescriptor(&w_), "filter");
    check(cudnnCreateConvolutionDescriptor(&conv_), "convolution");
    check(cudnnCreateActivationDescriptor(&act_), "activation");
    tensor(x_, v.x.extents);
    tensor(y_, v.y.extents);
    describe();
    cudnnHandle_t h = handle_on(device_);
    const cudaStream_t stream = stream_of(device_);
    check(cudnnSetStream(h, stream), "cudnnSetStream");
    choose(c, h, stream);
  }

  ~Convolution() override {
    cudnnDestroyTensorDescriptor(x_);
    cudnnDestroyTensorDescriptor(y_);
    cudnnDestroyTensorDescriptor(bias_);
    cudnnDestroyFilterDescriptor(w_);
    cudnnDestroyConvolutionDescriptor(conv_);
    cudnnDestroyActivationDescriptor(act_);
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    cudnnHandle_t h = handle_on(device_);
    check(cudnnSetStream(h, stream), "cudnnSetStream");
    const size_t bytes = taken_.memory;
    void* room = workspace(device_, stream, bytes);
    check(fused_ ? at_once(h, data, taken_.algo, room, bytes)
                 : in_steps(h, data, taken_.algo, room, bytes),
          fused_ ? "cudnnConvolutionBiasActivationForward" : "cudnnConvolutionForward");
  }

 private:
  static constexpr size_t kWorkspace = size_t{256} << 20;

  // Pixels of one axis are a row of an image.
  static std::vector<int> pixels(std::vector<int> sizes, int unit) {
    if (sizes.size() == 1) sizes.insert(sizes.begin(), unit);
    return sizes;
  }

  void tensor(cudnnTensorDescriptor_t t, const Extents& extents) const {
    Extents steps(extents.size(), 1);
    for (size_t k = extents.size() - 1; k-- > 0;) steps[k] = steps[k + 1] * extents[k + 1];
    std::vector<int> dims, strides;
    for (int axis : v_.order) {
      dims.push_back(static_cast<int>(extents[axis]));
      strides.push_back(static_cast<int>(steps[axis]));
    }
    if (dims.size() == 3) {
      dims.insert(dims.begin() + 2, 1);
      strides.insert(strides.begin() + 2, strides[2] * dims[3]);
    }
    check(cudnnSetTensorNdDescriptor(t, v_.type, static_cast<int>(dims.size()), dims.data(),
                                     strides.data()),
          "tensor");
  }

  void describe() {
    const Extents& e = v_.w.extents;  // O, then I and the pixels in the order of the format
    const bool last = v_.kernel == CUDNN_TENSOR_NHWC;
    std::vector<int> dims{static_cast<int>(e[0]), static_cast<int>(last ? e.back() : e[1])};
    std::vector<int> window(e.begin() + (last ? 1 : 2), e.end() - (last ? 1 : 0));
    window = pixels(window, 1);
    dims.insert(dims.end(), window.begin(), window.end());
    const int rank = static_cast<int>(dims.size());
    check(cudnnSetFilterNdDescriptor(w_, v_.type, v_.kernel, rank, dims.data()), "filter");
    std::vector<int> ones(rank, 1);
    ones[1] = dims[0];
    std::vector<int> steps(rank, 1);
    steps[0] = dims[0];
    check(cudnnSetTensorNdDescriptor(bias_, v_.type, rank, ones.data(), steps.data()), "bias");
    const auto padding = pixels(v_.padding, 0), strides = pixels(v_.strides, 1),
               dilation = pixels(v_.dilation, 1);
    check(cudnnSetConvolutionNdDescriptor(conv_, rank - 2, padding.data(), strides.data(),
                                          dilation.data(), CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_FLOAT),
          "convolution");
    check(cudnnSetConvolutionGroupCount(conv_, v_.groups), "groups");
    check(cudnnSetConvolutionMathType(conv_, math()), "math");
    check(cudnnSetActivationDescriptor(act_, v_.activation, CUDNN_PROPAGATE_NAN, v_.limit),
          "activation");
    if (v_.activation == CUDNN_ACTIVATION_SWISH)
      check(cudnnSetActivationDescriptorSwishBeta(act_, 1.0), "activation");
    if (v_.bias && v_.bias.count() != dims[0])
      OPINFO_THROW(ValueError) << "a bias of " << v_.bias.count() << " for " << dims[0];
    if (v_.residual && v_.residual.extents != v_.y.extents)
      OPINFO_THROW(ValueError) << "a residual that is not as large as the result";
  }

  // float32 is multiplied as float32, not as tf32.
  cudnnMathType_t math() const {
    return v_.type == CUDNN_DATA_FLOAT ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  }

  // The algorithm, in one kernel or in steps, that is fastest here: measured once for each shape.
  void choose(const Context& c, cudnnHandle_t h, cudaStream_t stream) {
    constexpr int kMany = 16;
    cudnnConvolutionFwdAlgoPerf_t measured[kMany];
    int count = 0;
    void* room = workspace(device_, stream, kWorkspace);
    check(cudnnFindConvolutionForwardAlgorithmEx(
              h, x_, v_.x.in(c.data), w_, v_.w.in(c.data), conv_, y_, v_.y.in(c.data), kMany,
              &count, measured, room, kWorkspace),
          c.name);
    std::vector<cudnnConvolutionFwdAlgoPerf_t> usable;
    for (int k = 0; k < count; ++k)  // those that add the products: no Winograd, no FFT
      if (measured[k].status == CUDNN_STATUS_SUCCESS && measured[k].memory <= kWorkspace &&
          measured[k].algo <= CUDNN_CONVOLUTION_FWD_ALGO_DIRECT &&
          (v_.type != CUDNN_DATA_FLOAT || measured[k].mathType != CUDNN_TENSOR_OP_MATH))
        usable.push_back(measured[k]);
    if (usable.empty())
      OPINFO_THROW(RuntimeError) << c.name << ": cuDNN has no algorithm for this convolution";
    float best = -1.0f;
    for (const auto& a : usable) {
      attempt(h, c.data, stream, a, true, &best);
      attempt(h, c.data, stream, a, false, &best);
    }
    if (best < 0)
      OPINFO_THROW(RuntimeError) << c.name << ": no algorithm of cuDNN runs this convolution";
    check(cudnnSetConvolutionMathType(conv_, taken_.mathType), "math");
  }

  // Whether one kernel may do what follows the convolution.
  bool fusable(cudnnConvolutionFwdAlgo_t algo) const {
    return v_.bias && (v_.activation == CUDNN_ACTIVATION_RELU ||
                       (v_.activation == CUDNN_ACTIVATION_IDENTITY &&
                        algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM));
  }

  // Take a way to compute it if it takes less time than the best one so far, in milliseconds.
  void attempt(cudnnHandle_t h, void* const* data, cudaStream_t stream,
               const cudnnConvolutionFwdAlgoPerf_t& a, bool fused, float* best) {
    if (fused && !fusable(a.algo)) return;
    check(cudnnSetConvolutionMathType(conv_, a.mathType), "math");
    void* room = workspace(device_, stream, kWorkspace);
    cudaEvent_t events[2];
    for (auto& e : events) check(cudaEventCreate(&e), "event");
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    for (int k = 0; k < 12 && status == CUDNN_STATUS_SUCCESS; ++k) {
      if (k == 2) check(cudaEventRecord(events[0], stream), "event");
      status = fused ? at_once(h, data, a.algo, room, kWorkspace)
                     : in_steps(h, data, a.algo, room, kWorkspace);
    }
    float time = 0.0f;
    check(cudaEventRecord(events[1], stream), "event");
    check(cudaEventSynchronize(events[1]), "event");
    if (status == CUDNN_STATUS_SUCCESS)
      check(cudaEventElapsedTime(&time, events[0], events[1]), "event");
    for (auto& e : events) cudaEventDestroy(e);
    if (status != CUDNN_STATUS_SUCCESS || (*best >= 0 && *best <= time)) return;
    *best = time;
    taken_ = a;
    fused_ = fused;
  }

  cudnnStatus_t at_once(cudnnHandle_t h, void* const* data, cudnnConvolutionFwdAlgo_t algo,
                        void* room, size_t bytes) const {
    const float one = 1.0f, other = v_.residual ? 1.0f : 0.0f;
    void* out = v_.y.in(data);
    return cudnnConvolutionBiasActivationForward(
        h, &one, x_, v_.x.in(data), w_, v_.w.in(data), conv_, algo, room, bytes, &other, y_,
        v_.residual ? v_.residual.in(data) : out, bias_, v_.bias.in(data), act_, y_, out);
  }

  cudnnStatus_t in_steps(cudnnHandle_t h, void* const* data, cudnnConvolutionFwdAlgo_t algo,
                         void* room, size_t bytes) const {
    const float one = 1.0f, zero = 0.0f;
    void* out = v_.y.in(data);
    auto status = cudnnConvolutionForward(h, &one, x_, v_.x.in(data), w_, v_.w.in(data), conv_,
                                          algo, room, bytes, &zero, y_, out);
    if (status == CUDNN_STATUS_SUCCESS && v_.bias)
      status = cudnnAddTensor(h, &one, bias_, v_.bias.in(data), &one, y_, out);
    if (status == CUDNN_STATUS_SUCCESS && v_.residual)
      status = cudnnAddTensor(h, &one, y_, v_.residual.in(data), &one, y_, out);
    if (status == CUDNN_STATUS_SUCCESS && v_.activation != CUDNN_ACTIVATION_IDENTITY)
      status = cudnnActivationForward(h, act_, &one, y_, out, &zero, y_, out);
    return status;
  }

  Conv v_;
  int device_;
  cudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr, bias_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
  cudnnConvolutionDescriptor_t conv_ = nullptr;
  cudnnActivationDescriptor_t act_ = nullptr;
  cudnnConvolutionFwdAlgoPerf_t taken_{};
  bool fused_ = false;
};

OPINFO_UNUSED std::unique_ptr<Kernel> convolution(const Context& c, const Conv& v) {
  return std::make_unique<Convolution>(c, v);
}

}  // namespace
}  // namespace opinfo_nvidia

using namespace opinfo_nvidia;
