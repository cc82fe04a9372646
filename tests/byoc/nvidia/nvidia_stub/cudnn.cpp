// cuDNN on the host: descriptors keep their attributes; a plan computes its operations in plain loops.
// The types of attributes are those of the documentation: others are refused.
#include "cudnn.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

struct cudnnContext {
  int device;
};
struct stubTensor {
  cudaDataType_t type;
  std::vector<int64_t> dims, strides;
};
static cudaDataType_t stub_type(cudnnDataType_t t) {
  return t == CUDNN_DATA_FLOAT ? CUDA_R_32F : t == CUDNN_DATA_HALF ? CUDA_R_16F : CUDA_R_16BF;
}
const char* cudnnGetErrorString(cudnnStatus_t) { return "not supported (stub)"; }
void cudnnGetLastErrorString(char* message, size_t size) {
  std::snprintf(message, size, "stub");
}
size_t cudnnGetVersion() { return 91900; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* h) {
  *h = new cudnnContext{};
  cudaGetDevice(&(*h)->device);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }
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
static int64_t stub_at(const stubTensor& t, const std::vector<int64_t>& at) {
  int64_t out = 0;
  for (size_t k = 0; k < at.size(); ++k) out += (t.dims[k] == 1 ? 0 : at[k]) * t.strides[k];
  return out;
}

namespace stub {
bool fuses = true, fuses_without = true;
int most_operations = 99, first_named = 0;
std::atomic<int> executed{0}, planned{0};
float fused_time = 1.0f, first_time = 1.0f, last_time = 1.0f, unnamed_time = 1.0f, knob_time = 1.0f;
float gradient_time = 0.0f;
constexpr int64_t refused_channels = 13;  // no engine has so many
}  // namespace stub

using stubNames = std::map<cudnnBackendAttributeName_t, std::vector<char>>;
struct stubDescriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  stubNames values;

  template <typename T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const auto found = values.find(name);
    if (found == values.end()) return {};
    std::vector<T> out(found->second.size() / sizeof(T));
    std::memcpy(static_cast<void*>(out.data()), found->second.data(), found->second.size());
    return out;
  }
  template <typename T>
  T one(cudnnBackendAttributeName_t name, T absent = T{}) const {
    const auto values_of = all<T>(name);
    return values_of.empty() ? absent : values_of[0];
  }
  const stubDescriptor& at(cudnnBackendAttributeName_t name) const {
    return *one<const stubDescriptor*>(name);
  }
  bool has(cudnnBackendAttributeName_t name) const { return values.count(name) > 0; }
};

static cudnnBackendAttributeType_t stub_attribute_type(cudnnBackendAttributeName_t name) {
  switch (name) {
    case CUDNN_ATTR_POINTWISE_MODE: return CUDNN_TYPE_POINTWISE_MODE;
    case CUDNN_ATTR_POINTWISE_MATH_PREC:
    case CUDNN_ATTR_CONVOLUTION_COMP_TYPE:
    case CUDNN_ATTR_TENSOR_DATA_TYPE: return CUDNN_TYPE_DATA_TYPE;
    case CUDNN_ATTR_POINTWISE_NAN_PROPAGATION: return CUDNN_TYPE_NAN_PROPOGATION;
    case CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE:
    case CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP: return CUDNN_TYPE_DOUBLE;
    case CUDNN_ATTR_CONVOLUTION_CONV_MODE: return CUDNN_TYPE_CONVOLUTION_MODE;
    case CUDNN_ATTR_ENGINEHEUR_MODE: return CUDNN_TYPE_HEUR_MODE;
    case CUDNN_ATTR_EXECUTION_PLAN_HANDLE:
    case CUDNN_ATTR_OPERATIONGRAPH_HANDLE: return CUDNN_TYPE_HANDLE;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
    case CUDNN_ATTR_KNOB_INFO_TYPE: return CUDNN_TYPE_KNOB_TYPE;
    case CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE:
    case CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE:
    case CUDNN_ATTR_KNOB_INFO_STRIDE: return CUDNN_TYPE_INT64;
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA:
    case CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1:
    case CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2: return CUDNN_TYPE_FLOAT;
    case CUDNN_ATTR_TENSOR_IS_VIRTUAL: return CUDNN_TYPE_BOOLEAN;
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE: return CUDNN_TYPE_VOID_PTR;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: return CUDNN_TYPE_NUMERICAL_NOTE;
    case CUDNN_ATTR_CONVOLUTION_DILATIONS:
    case CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES:
    case CUDNN_ATTR_CONVOLUTION_POST_PADDINGS:
    case CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS:
    case CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
    case CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT:
    case CUDNN_ATTR_TENSOR_DIMENSIONS:
    case CUDNN_ATTR_TENSOR_STRIDES:
    case CUDNN_ATTR_TENSOR_UNIQUE_ID:
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX: return CUDNN_TYPE_INT64;
    default: return CUDNN_TYPE_BACKEND_DESCRIPTOR;
  }
}
static size_t stub_size(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_FLOAT:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_KNOB_TYPE:
    case CUDNN_TYPE_NAN_PROPOGATION:
    case CUDNN_TYPE_NUMERICAL_NOTE:
    case CUDNN_TYPE_POINTWISE_MODE: return 4;
    default: return 8;
  }
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                  cudnnBackendDescriptor_t* out) {
  *out = new stubDescriptor{type};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  delete static_cast<stubDescriptor*>(d);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t raw,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t count,
                                              const void* values) {
  auto* d = static_cast<stubDescriptor*>(raw);
  if (d->finalized || type != stub_attribute_type(name)) return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    for (int64_t k = 0; k < count; ++k)
      if (!static_cast<stubDescriptor* const*>(values)[k]->finalized) return CUDNN_STATUS_BAD_PARAM;
  const char* bytes = static_cast<const char*>(values);
  d->values[name].assign(bytes, bytes + count * stub_size(type));
  return CUDNN_STATUS_SUCCESS;
}

static std::vector<const stubDescriptor*> stub_ops(const stubDescriptor& graph) {
  return graph.all<const stubDescriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS);
}
static bool stub_is_convolution(const stubDescriptor& op) {
  return op.type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
}
static bool stub_taken(const stubDescriptor& graph) {
  const auto ops = stub_ops(graph);
  if (!stub_is_convolution(*ops[0])) return false;
  if (ops[0]->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
      ops[0]->at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W)
              .all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)[0] == stub::refused_channels)
    return false;
  const bool residual = ops.size() > 1 && ops[1]->has(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2);
  return ops.size() == 1 || (stub::fuses && (stub::fuses_without || residual));
}

// Where the tensors of a call are: intermediates have memory of their own, in float32.
struct stubMemory {
  std::map<int64_t, void*> given;
  std::map<int64_t, std::vector<float>> own;

  std::pair<void*, stubTensor> of(const stubDescriptor& t) {
    stubTensor view{stub_type(t.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)),
                    t.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
                    t.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES)};
    const auto id = t.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (!t.one<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) return {given.at(id), view};
    int64_t count = 1;
    for (int64_t e : view.dims) count *= e;
    own[id].resize(count);
    return {own[id].data(), view};
  }
};

// For each product of an element of the image, of the kernel and for the result of a convolution.
template <typename F>
void stub_products(const stubTensor& image, const stubTensor& w, const stubTensor& result,
                   const stubDescriptor& conv, F f) {
  const auto padding = conv.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
             strides = conv.all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
             dilation = conv.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  const int64_t in_group = w.dims[1], out_group = w.dims[0] / (image.dims[1] / in_group);
  const std::vector<int64_t> window(w.dims.begin() + 1, w.dims.end());
  stub_each(result.dims, [&](const std::vector<int64_t>& at) {
    const int64_t to = stub_at(result, at), first = at[1] / out_group * in_group;
    stub_each(window, [&](const std::vector<int64_t>& in) {
      int64_t from = at[0] * image.strides[0] + (first + in[0]) * image.strides[1];
      int64_t weight = at[1] * w.strides[0] + in[0] * w.strides[1];
      for (size_t k = 0; k + 1 < in.size(); ++k) {
        const int64_t e = at[k + 2] * strides[k] - padding[k] + in[k + 1] * dilation[k];
        if (e < 0 || e >= image.dims[k + 2]) return;
        from += e * image.strides[k + 2];
        weight += in[k + 1] * w.strides[k + 2];
      }
      f(from, weight, to);
    });
  });
}

static void stub_convolve(const stubDescriptor& op, stubMemory& memory) {
  const bool back = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  auto [X, x] = memory.of(op.at(back ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX
                                     : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X));
  auto [W, w] = memory.of(op.at(back ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W
                                     : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W));
  auto [Y, y] = memory.of(op.at(back ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY
                                     : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y));
  const stubDescriptor& conv = op.at(back ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC
                                          : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
  const stubTensor& to = back ? x : y;
  int64_t count = 1;  // the tensors are packed
  for (int64_t e : to.dims) count *= e;
  std::vector<float> sums(count);
  const void *from = back ? Y : X, *weights = W;
  const auto from_type = back ? y.type : x.type, weight_type = w.type;
  stub_products(x, w, y, conv, [&](int64_t image, int64_t weight, int64_t result) {
    sums[back ? image : result] += stub::read(from, back ? result : image, from_type) *
                                   stub::read(weights, weight, weight_type);
  });
  for (int64_t k = 0; k < count; ++k)
    stub::write(back ? X : Y, k, to.type, sums[k]);
}

static float stub_pointwise(const stubDescriptor& mode, float x, float b) {
  const double limit = mode.one<double>(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, INFINITY);
  const double slope = mode.one<double>(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.0);
  switch (mode.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE)) {
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_RELU_FWD: return static_cast<float>(std::fmin(x > 0 ? x : slope * x, limit));
    case CUDNN_POINTWISE_TANH_FWD: return std::tanh(x);
    case CUDNN_POINTWISE_SIGMOID_FWD: return 1 / (1 + std::exp(-x));
    default: return x / (1 + std::exp(-x));
  }
}

static void stub_map(const stubDescriptor& op, stubMemory& memory) {
  auto [X, x] = memory.of(op.at(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
  auto [Y, y] = memory.of(op.at(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  const float factor = op.one<float>(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1.0f);
  const bool two = op.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  auto [B, b] = two ? memory.of(op.at(CUDNN_ATTR_OPERATION_POINTWISE_BDESC))
                    : std::pair<void*, stubTensor>{X, x};
  for (const auto& step : {std::tie(X, x, B, b, Y, y)}) {
    const auto& [from, from_view, other, other_view, to, to_view] = step;
    stub_each(to_view.dims, [&, f = from, o = other, t = to, &fv = from_view, &ov = other_view,
                             &tv = to_view](const std::vector<int64_t>& at) {
      const float more = two && factor != 0 ? factor * stub::read(o, stub_at(ov, at), ov.type) : 0;
      stub::write(t, stub_at(tv, at), tv.type,
                  stub_pointwise(op.at(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR),
                                 stub::read(f, stub_at(fv, at), fv.type), more));
    });
  }
}

static cudnnStatus_t stub_check(const stubDescriptor& op) {
  if (!stub_is_convolution(op)) return CUDNN_STATUS_SUCCESS;
  const bool back = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  const auto dims = [&](cudnnBackendAttributeName_t forward, cudnnBackendAttributeName_t backward) {
    return op.at(back ? backward : forward).all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  };
  const auto x = dims(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX),
             w = dims(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W),
             y = dims(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
  const stubDescriptor& conv = op.at(back ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC
                                          : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
  const auto before = conv.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
             after = conv.all<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
             strides = conv.all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
             dilation = conv.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  bool fits = x[1] % w[1] == 0 && w[0] == y[1] && x.size() == w.size() && x.size() >= 4;
  fits = fits && conv.one<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) ==
                     static_cast<int64_t>(x.size()) - 2;
  for (size_t k = 0; fits && k + 2 < x.size(); ++k)
    fits = y[k + 2] == (x[k + 2] + before[k] + after[k] - dilation[k] * (w[k + 2] - 1) - 1) /
                           strides[k] + 1;
  return fits ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t raw) {
  auto* d = static_cast<stubDescriptor*>(raw);
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (d->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
      d->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
    status = stub_check(*d);
  if (d->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && !stub_taken(*d))
    status = CUDNN_STATUS_NOT_SUPPORTED;
  if (d->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR &&
      d->one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX) > 3)
    status = CUDNN_STATUS_NOT_SUPPORTED;
  if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) ++stub::planned;
  d->finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

// Engines 0 to 3 of every graph: with Winograd, with tensor cores, with neither, with neither. The
// first three have a knob, of which the last one is proposed with three values.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t raw,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t most,
                                              int64_t* count, void* out) {
  auto* d = static_cast<stubDescriptor*>(raw);
  if (type != stub_attribute_type(name)) return CUDNN_STATUS_BAD_PARAM;
  const auto filled = [&](int64_t k) { return static_cast<stubDescriptor**>(out)[k]; };
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    const bool fallback =
        d->one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK;
    *count = std::min<int64_t>(most, fallback ? 1 : 5);
    for (int64_t k = 0; k < *count; ++k) {
      auto* engine = new stubDescriptor{CUDNN_BACKEND_ENGINE_DESCRIPTOR, true};
      engine->values[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] =
          d->values[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH];
      const int64_t number = fallback ? 2 : std::min<int64_t>(k + stub::first_named, 2);
      const char* bytes = reinterpret_cast<const char*>(&number);
      engine->values[CUDNN_ATTR_ENGINE_GLOBAL_INDEX].assign(bytes, bytes + 8);
      auto* const kept = reinterpret_cast<const char*>(&engine);
      filled(k)->values[CUDNN_ATTR_ENGINECFG_ENGINE].assign(kept, kept + 8);
      const int64_t knob = k > 2 ? 5 + k : 7;
      const char* told = reinterpret_cast<const char*>(&knob);
      filled(k)->values[CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE].assign(told, told + 8);
      filled(k)->finalized = true;
    }
  } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    *filled(0) = d->at(name);
    *count = 1;
  } else if (name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES) {
    const int64_t value = d->one<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
    const auto kind = CUDNN_KNOB_TYPE_SPLIT_K;
    const char* v = reinterpret_cast<const char*>(&value);
    const char* k = reinterpret_cast<const char*>(&kind);
    filled(0)->values[CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE].assign(v, v + 8);
    filled(0)->values[CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE].assign(k, k + 4);
    *count = 1;
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    const auto number = d->one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    auto* notes = static_cast<cudnnBackendNumericalNote_t*>(out);
    notes[0] = CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
    notes[1] = number == 0 ? CUDNN_NUMERICAL_NOTE_WINOGRAD : CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    *count = number >= 2 ? 1 : 2;
  } else if (name == CUDNN_ATTR_ENGINE_KNOB_INFO) {  // one knob: 2, 4 or 6
    const int64_t values[] = {2, 6, 2};
    const cudnnBackendAttributeName_t names[] = {CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE,
                                                 CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE,
                                                 CUDNN_ATTR_KNOB_INFO_STRIDE};
    const auto kind = CUDNN_KNOB_TYPE_SPLIT_K;
    for (int k = 0; k < 3; ++k) {
      const char* v = reinterpret_cast<const char*>(&values[k]);
      filled(0)->values[names[k]].assign(v, v + 8);
    }
    const char* k = reinterpret_cast<const char*>(&kind);
    filled(0)->values[CUDNN_ATTR_KNOB_INFO_TYPE].assign(k, k + 4);
    *count = 1;
  } else if (name == CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT) {
    *static_cast<int64_t*>(out) = 4;
    *count = 1;
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    *static_cast<int64_t*>(out) = 64;
    *count = 1;
  } else {
    const auto found = d->values.find(name);
    if (found == d->values.end()) return CUDNN_STATUS_BAD_PARAM;
    *count = static_cast<int64_t>(found->second.size() / stub_size(type));
    std::memcpy(out, found->second.data(), std::min(most, *count) * stub_size(type));
  }
  return CUDNN_STATUS_SUCCESS;
}

static float stub_time(const std::vector<const stubDescriptor*>& operations, int64_t engine) {
  if (operations.size() > 1) return stub::fused_time;
  if (engine == 3) return stub::unnamed_time;
  const stubDescriptor& op = *operations[0];
  const bool back = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  if (back && stub::gradient_time > 0) return stub::gradient_time;
  const auto steps = op.at(back ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY
                                : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X)
                         .all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  return steps[1] == 1 ? stub::last_time : stub::first_time;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t raw_plan,
                                         cudnnBackendDescriptor_t raw_pack) {
  const auto& plan = *static_cast<stubDescriptor*>(raw_plan);
  const auto& pack = *static_cast<stubDescriptor*>(raw_pack);
  if (plan.one<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE)->device != h->device)
    return CUDNN_STATUS_BAD_PARAM;
  const auto& engine =
      plan.at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).at(CUDNN_ATTR_ENGINECFG_ENGINE);
  if (pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE) == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const auto operations = stub_ops(engine.at(CUDNN_ATTR_ENGINE_OPERATION_GRAPH));
  if (static_cast<int>(operations.size()) > stub::most_operations &&
      stub_is_convolution(*operations[0]))
    return CUDNN_STATUS_NOT_SUPPORTED;
  stub::elapsed = stub_time(operations, engine.one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  const auto knobs = plan.at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                         .all<const stubDescriptor*>(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
  if (!knobs.empty() && knobs[0]->one<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE) == 4)
    stub::elapsed *= stub::knob_time;
  if (stub::recording) return CUDNN_STATUS_SUCCESS;
  const auto ids = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto addresses = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  stubMemory memory;
  for (size_t k = 0; k < ids.size(); ++k) memory.given[ids[k]] = addresses[k];
  ++stub::executed;
  for (const stubDescriptor* op : operations)
    stub_is_convolution(*op) ? stub_convolve(*op, memory) : stub_map(*op, memory);
  return CUDNN_STATUS_SUCCESS;
}
