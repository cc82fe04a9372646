// cuDNN's graph API: descriptors, and graphs of a convolution and elementwise operations.
#include <cudnn.h>

namespace opinfo_nvidia {
namespace {

inline void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char more[256] = "";
  cudnnGetLastErrorString(more, sizeof(more));
  OPINFO_THROW(RuntimeError) << what << ": " << cudnnGetErrorString(status) << " " << more;
}

// One handle a thread and device: it holds the stream of the call. Those of threads that have ended are
// taken by others, as plans refer to them; none is destroyed at exit, when the driver may be gone.
class Handles {
 public:
  ~Handles() {
    std::lock_guard<std::mutex> lock(mutex());
    for (const auto& [device, handle] : own_) left()[device].push_back(handle);
  }

  cudnnHandle_t on(int device) {
    cudnnHandle_t& handle = own_[device];
    if (handle != nullptr) return handle;
    {
      std::lock_guard<std::mutex> lock(mutex());
      std::vector<cudnnHandle_t>& others = left()[device];
      if (!others.empty()) {
        handle = others.back();
        others.pop_back();
        return handle;
      }
    }
    check(cudnnCreate(&handle), "cudnnCreate");
    return handle;
  }

 private:
  static std::mutex& mutex() {
    static auto& m = *new std::mutex;
    return m;
  }
  static std::map<int, std::vector<cudnnHandle_t>>& left() {
    static auto& all = *new std::map<int, std::vector<cudnnHandle_t>>;
    return all;
  }

  std::map<int, cudnnHandle_t> own_;
};

inline cudnnHandle_t handle_on(int device) {
  static thread_local Handles handles;
  return handles.on(device);
}

// The type of an attribute follows from that of its values.
template <typename T>
struct AttributeType;
#define OPINFO_ATTRIBUTE(T, NAME) \
  template <>                     \
  struct AttributeType<T> {       \
    static constexpr cudnnBackendAttributeType_t value = NAME; \
  };
OPINFO_ATTRIBUTE(int64_t, CUDNN_TYPE_INT64)
OPINFO_ATTRIBUTE(bool, CUDNN_TYPE_BOOLEAN)
OPINFO_ATTRIBUTE(float, CUDNN_TYPE_FLOAT)
OPINFO_ATTRIBUTE(double, CUDNN_TYPE_DOUBLE)
OPINFO_ATTRIBUTE(char, CUDNN_TYPE_CHAR)
OPINFO_ATTRIBUTE(void*, CUDNN_TYPE_VOID_PTR)
OPINFO_ATTRIBUTE(cudnnHandle_t, CUDNN_TYPE_HANDLE)
OPINFO_ATTRIBUTE(cudnnDataType_t, CUDNN_TYPE_DATA_TYPE)
OPINFO_ATTRIBUTE(cudnnConvolutionMode_t, CUDNN_TYPE_CONVOLUTION_MODE)
OPINFO_ATTRIBUTE(cudnnPointwiseMode_t, CUDNN_TYPE_POINTWISE_MODE)
OPINFO_ATTRIBUTE(cudnnNanPropagation_t, CUDNN_TYPE_NAN_PROPOGATION)
OPINFO_ATTRIBUTE(cudnnBackendHeurMode_t, CUDNN_TYPE_HEUR_MODE)
OPINFO_ATTRIBUTE(cudnnBackendKnobType_t, CUDNN_TYPE_KNOB_TYPE)
OPINFO_ATTRIBUTE(cudnnBackendNumericalNote_t, CUDNN_TYPE_NUMERICAL_NOTE)
#undef OPINFO_ATTRIBUTE

// A descriptor and those that it refers to.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t raw = nullptr;
    check(cudnnBackendCreateDescriptor(type, &raw), "cudnnBackendCreateDescriptor");
    raw_.reset(raw, [](cudnnBackendDescriptor_t d) { cudnnBackendDestroyDescriptor(d); });
  }

  explicit operator bool() const { return raw_ != nullptr; }
  cudnnBackendDescriptor_t raw() const { return raw_.get(); }

  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    return put(name, AttributeType<T>::value, values.size(), values.data());
  }
  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return put(name, AttributeType<T>::value, 1, &value);
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<Descriptor>& values) {
    std::vector<cudnnBackendDescriptor_t> raws;
    for (const Descriptor& d : values) raws.push_back(d.raw());
    uses_.insert(uses_.end(), values.begin(), values.end());
    return put(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, raws.size(), raws.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    return set(name, std::vector<Descriptor>{value});
  }

  // At most `most` values; none if cuDNN does not tell.
  template <typename T>
  std::vector<T> get(cudnnBackendAttributeName_t name, size_t most) const {
    std::vector<T> values(most);
    int64_t count = 0;
    const auto status = cudnnBackendGetAttribute(raw(), name, AttributeType<T>::value,
                                                 static_cast<int64_t>(most), &count, values.data());
    if (status != CUDNN_STATUS_SUCCESS) count = 0;
    values.resize(std::min(most, static_cast<size_t>(std::max<int64_t>(count, 0))));
    return values;
  }
  // Descriptors of this type; cuDNN fills those that it is given.
  std::vector<Descriptor> parts(cudnnBackendAttributeName_t name,
                                cudnnBackendDescriptorType_t type, size_t most) const {
    std::vector<Descriptor> values;
    std::vector<cudnnBackendDescriptor_t> raws;
    for (size_t k = 0; k < most; ++k) raws.push_back(values.emplace_back(type).raw());
    int64_t count = 0;
    const auto status = cudnnBackendGetAttribute(raw(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                 static_cast<int64_t>(most), &count, raws.data());
    if (status != CUDNN_STATUS_SUCCESS) count = 0;
    values.resize(std::min(most, static_cast<size_t>(std::max<int64_t>(count, 0))));
    return values;
  }

  // cuDNN says by its status which graphs, engines and plans it supports.
  bool finalized() { return cudnnBackendFinalize(raw()) == CUDNN_STATUS_SUCCESS; }
  Descriptor& finalize(const char* what) {
    check(cudnnBackendFinalize(raw()), what);
    return *this;
  }

 private:
  Descriptor& put(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t count,
                  const void* values) {
    check(cudnnBackendSetAttribute(raw(), name, type, static_cast<int64_t>(count), values),
          "cudnnBackendSetAttribute");
    return *this;
  }

  std::shared_ptr<void> raw_;
  std::vector<Descriptor> uses_;
};

// A tensor as cuDNN sees it: the axes are N, C, then at least two axes of pixels.
struct View {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Extents extents, steps;
  int64_t alignment = 16;
};

// An elementwise operation on what was computed before: y = mode(x), or x and another tensor.
struct Step {
  cudnnPointwiseMode_t mode;
  View view;      // of the other tensor
  Operand other;  // none for an activation
  double limit;   // of a clipped relu; 0 for none
  bool gated = false;  // the other tensor is what the gate before it was computed from
  double slope = 0.0;  // of a leaky relu below 0
};

// The memory of a tensor: an operand of the call, or one of the region's own.
struct Bound {
  int64_t id;
  Operand operand;
  int own;
  void* in(void* const* data, void* const* owned) const {
    return operand ? operand.in(data) : owned[own];
  }
};

class Graph {
 public:
  int tensor(const View& view, const Operand& operand, int own = 0) {
    const int id = describe(view, view.type, false);
    bound_.push_back({id + 1, operand, own});
    return id;
  }
  int own(const View& view, int number) { return tensor(view, Operand{}, number); }
  // It is never written to memory, so it is not rounded.
  int intermediate(const View& view) { return describe(view, CUDNN_DATA_FLOAT, true); }

  // For a transposed one, `x` is the gradient of the result, and `y` that of the image.
  void convolution(const Extents& padding, const Extents& strides, const Extents& dilation,
                   bool transposed, int x, int w, int y) {
    Descriptor conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    conv.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
        .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(padding.size()))
        .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding)
        .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding)
        .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, strides)
        .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilation)
        .finalize("convolution");
    Descriptor op(transposed ? CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
                             : CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    if (transposed)
      op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, conv)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, tensors_[x])
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, tensors_[w])
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, tensors_[y])
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0f)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0.0f);
    else
      op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, conv)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensors_[x])
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, tensors_[w])
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, tensors_[y])
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0f);
    ops_.push_back(op.finalize("operation of a convolution"));
  }

  // `other`: the second operand, -1 for none, times `factor`.
  void pointwise(const Step& step, int x, int other, int y, float factor = 1.0f) {
    Descriptor mode(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    mode.set(CUDNN_ATTR_POINTWISE_MODE, step.mode)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    if (step.mode == CUDNN_POINTWISE_RELU_FWD) {
      mode.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN);
      if (step.limit > 0) mode.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, step.limit);
      if (step.slope != 0) mode.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, step.slope);
    }
    mode.finalize("pointwise");
    Descriptor op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensors_[x])
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors_[y]);
    if (other >= 0) op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensors_[other]);
    if (factor != 1.0f)
      op.set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1.0f)
          .set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, factor);
    ops_.push_back(op.finalize("pointwise operation"));
  }

  // The operations as one graph; nothing if cuDNN does not take them together.
  Descriptor made(cudnnHandle_t h) const {
    Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, ops_).set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, h);
    return graph.finalized() ? graph : Descriptor{};
  }

  const std::vector<Bound>& bound() const { return bound_; }
  bool is_single() const { return ops_.size() == 1; }

 private:
  int describe(const View& view, cudnnDataType_t type, bool intermediate) {
    Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, static_cast<int64_t>(tensors_.size()) + 1)
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, view.alignment)
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, view.extents)
        .set(CUDNN_ATTR_TENSOR_STRIDES, view.steps)
        .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, intermediate);
    tensors_.push_back(t.finalize("tensor"));
    return static_cast<int>(tensors_.size()) - 1;
  }

  std::vector<Descriptor> tensors_, ops_;
  std::vector<Bound> bound_;
};

}  // namespace
}  // namespace opinfo_nvidia

