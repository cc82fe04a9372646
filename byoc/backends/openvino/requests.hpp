// Models of OpenVINO over its C API: each compiled once a process, with requests that calls share.
#include <dlfcn.h>
#if defined(__SSE__)
#include <xmmintrin.h>  // immintrin.h, which has all of them, takes g++ 0.4 s
#endif
#include <openvino/c/openvino.h>

#include <mutex>

extern "C" {
__attribute__((weak, visibility("hidden"))) char opinfo_has_openvino = 1;
}

namespace {

// The functions of the C API, from the library that was opened.
#define OPINFO_OPENVINO(X)                                                                   \
  X(ov_get_last_err_msg) X(ov_core_create) X(ov_core_read_model_from_memory_buffer)          \
  X(ov_core_compile_model) X(ov_compiled_model_create_infer_request) X(ov_model_free)        \
  X(ov_infer_request_set_input_tensor_by_index) X(ov_infer_request_infer)                    \
  X(ov_infer_request_set_output_tensor_by_index) X(ov_tensor_create_from_host_ptr)           \
  X(ov_tensor_free) X(ov_infer_request_free) X(ov_compiled_model_free) X(ov_core_free) X(ov_free)
struct Api {
#define OPINFO_MEMBER(name) decltype(&::name) name;
  OPINFO_OPENVINO(OPINFO_MEMBER)
#undef OPINFO_MEMBER
} api;

// An error with OpenVINO's message; 0 where there is none.
int failed(const char* what, ov_status_e status) {
  if (status == OK) return 0;
  const char* message = api.ov_get_last_err_msg();
  std::string text = std::string(what) + ": " + (message == nullptr ? "" : message);
  api.ov_free(message);
  return opinfo::fail("RuntimeError", text);
}

// OpenVINO may let this thread treat denormals as 0: that ends with the call.
struct FloatingPoint {
#if defined(__SSE__)
  unsigned state = _mm_getcsr();
  ~FloatingPoint() { _mm_setcsr(state); }
#endif
};

// What a tensor of a call was the last time.
struct Bound {
  const void* data = nullptr;
  std::vector<int64_t> shape;
  ov_tensor_t* tensor = nullptr;

  bool is(const DLTensor* t) const {
    return tensor != nullptr && data == opinfo::data(t) &&
           shape == std::vector<int64_t>(t->shape, t->shape + t->ndim);
  }
};

// A request, for one call at a time. Its tensors are set again only where memory has moved.
struct Request {
  ov_infer_request_t* handle = nullptr;
  std::vector<Bound> bound;
  std::vector<std::vector<int64_t>> clamped;  // copies of inputs
};

// A model, and its requests that no call uses: as many are made as calls run at once.
struct Model {
  ov_compiled_model_t* compiled = nullptr;
  std::mutex mutex;
  std::vector<std::unique_ptr<Request>> idle;
};

OncePerProcess once;
ov_core_t* core = nullptr;
std::vector<std::unique_ptr<Model>> loaded;

void release(Request& request) {
  if (request.handle != nullptr) api.ov_infer_request_free(request.handle);
  for (Bound& b : request.bound)
    if (b.tensor != nullptr) api.ov_tensor_free(b.tensor);
}

// Made after OpenVINO was opened, so that it goes before that does. What a parent made is left alone.
struct Closer {
  ~Closer() {
    if (!once.is_mine()) {
      for (auto& model : loaded) model.release();
      return;
    }
    for (auto& model : loaded) {
      for (auto& request : model->idle) release(*request);
      api.ov_compiled_model_free(model->compiled);
    }
    api.ov_core_free(core);
  }
};

int open() {
  static bool opened = false;
  if (opened) return 0;
  const char* name = std::strrchr(LIBRARY, '/') + 1;
  void* library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return opinfo::fail("RuntimeError", std::string("OpenVINO is not here: put ") + name +
      " with the libraries beside it (the package openvino has them, in libs/) beside this library "
      "or into a folder of LD_LIBRARY_PATH: " + dlerror());
#define OPINFO_LOOKUP(symbol)                                                               \
  api.symbol = reinterpret_cast<decltype(api.symbol)>(dlsym(library, #symbol));             \
  if (api.symbol == nullptr)                                                                \
    return opinfo::fail("RuntimeError", std::string(name) + " has no " #symbol);
  OPINFO_OPENVINO(OPINFO_LOOKUP)
#undef OPINFO_LOOKUP
  opened = true;
  return 0;
}

// A model in float32 and with as many threads as other libraries use; callers keep their affinity.
int compile(size_t k, Model& model) {
  ov_model_t* read = nullptr;
  const DLTensor* bytes_of = models[k];
  if (int code = failed("OpenVINO", api.ov_core_read_model_from_memory_buffer(
          core, opinfo::data(bytes_of), bytes_of->shape[0], nullptr, &read)))
    return code;
  const std::string count = std::to_string(threads());
  const size_t words = 14;
  ov_status_e status = api.ov_core_compile_model(
      core, read, "CPU", words, &model.compiled, "PERFORMANCE_HINT", "LATENCY",
      "EXECUTION_MODE_HINT", "ACCURACY", "INFERENCE_PRECISION_HINT", "f32", "NUM_STREAMS", "1",
      "INFERENCE_NUM_THREADS", count.c_str(), "ENABLE_CPU_PINNING", "NO",
      "CPU_DENORMALS_OPTIMIZATION", "NO");
  api.ov_model_free(read);
  return failed("OpenVINO", status);
}

// Once a process: compile all models.
int begin() {
  return once([] {
    FloatingPoint state;
    if (int code = open()) return code;
    if (int code = failed("OpenVINO", api.ov_core_create(&core))) return code;
    for (auto& model : loaded) model.release();  // of a parent
    loaded.clear();
    for (size_t k = 0; k < MODELS; ++k) {
      loaded.push_back(std::make_unique<Model>());
      if (int code = compile(k, *loaded.back())) return code;
    }
    static Closer closer;
    return 0;
  });
}

ov_element_type_e element_type(ElementType type) {
  switch (type.code * 100 + type.bits) {
    case kDLFloat * 100 + 32: return F32;
    case kDLUInt * 100 + 8: return U8;
    case kDLInt * 100 + 8: return I8;
    case kDLInt * 100 + 32: return I32;
    case kDLInt * 100 + 64: return I64;
    default: return BOOLEAN;
  }
}

// Up to here, float32 has all integers; OpenVINO compares in it.
constexpr int64_t kMost = int64_t{1} << 24;

// A copy of an input of int64 with its numbers clamped.
DLTensor clamped(Request& request, int k, const DLTensor* t) {
  std::vector<int64_t>& copy = request.clamped[k];
  const size_t count = bytes(t) / sizeof(int64_t);
  copy.resize(std::max<size_t>(count, 1));
  const auto* from = reinterpret_cast<const int64_t*>(opinfo::data(t));
  for (size_t i = 0; i < count; ++i)
    copy[i] = std::min(std::max(from[i], -kMost), kMost);
  DLTensor out = *t;
  out.data = copy.data();
  out.byte_offset = 0;
  return out;
}

// Let a request read or write a tensor.
int bind(const Region& region, Request& request, int k, const DLTensor* t) {
  Bound& bound = request.bound[k];
  if (bound.is(t)) return 0;
  const ov_shape_t shape{t->ndim, const_cast<int64_t*>(t->shape)};
  ov_tensor_t* tensor = nullptr;
  if (int code = failed(region.name, api.ov_tensor_create_from_host_ptr(
          element_type(region.types[k]), shape, opinfo::data(t), &tensor)))
    return code;
  const ov_status_e status =
      k < region.inputs
          ? api.ov_infer_request_set_input_tensor_by_index(request.handle, k, tensor)
          : api.ov_infer_request_set_output_tensor_by_index(request.handle, k - region.inputs,
                                                            tensor);
  if (bound.tensor != nullptr) api.ov_tensor_free(bound.tensor);
  bound = {opinfo::data(t), std::vector<int64_t>(t->shape, t->shape + t->ndim), tensor};
  if (status != OK) bound.data = nullptr;
  return failed(region.name, status);
}

// A request that no other call uses until it goes back.
struct Borrowed {
  Model& model;
  std::unique_ptr<Request> request;

  explicit Borrowed(Model& model) : model(model) {
    std::lock_guard<std::mutex> lock(model.mutex);
    if (model.idle.empty()) return;
    request = std::move(model.idle.back());
    model.idle.pop_back();
  }
  ~Borrowed() {
    if (request == nullptr) return;
    std::lock_guard<std::mutex> lock(model.mutex);
    model.idle.push_back(std::move(request));
  }

  int make(const Region& region) {
    if (request != nullptr) return 0;
    auto made = std::make_unique<Request>();
    made->bound.resize(region.inputs + region.results);
    made->clamped.resize(region.inputs);
    if (int code = failed(region.name, api.ov_compiled_model_create_infer_request(
            model.compiled, &made->handle)))
      return code;
    request = std::move(made);
    return 0;
  }
};

int run(const Region& region, const TVMFFIAny* args, int32_t count) {
  if (int code = begin()) return code;
  std::vector<const DLTensor*> tensors;
  if (int code = checked(region, args, count, tensors)) return code;
  FloatingPoint state;
  Borrowed borrowed(*loaded[region.model]);
  if (int code = borrowed.make(region)) return code;
  for (size_t k = 0; k < tensors.size(); ++k) {
    DLTensor copy;
    if (region.types[k].clamped) copy = clamped(*borrowed.request, k, tensors[k]);
    const DLTensor* t = region.types[k].clamped ? &copy : tensors[k];
    if (int code = bind(region, *borrowed.request, k, t)) return code;
  }
  return while_team_yields([&] {
    return failed(region.name, api.ov_infer_request_infer(borrowed.request->handle));
  });
}

}  // namespace
