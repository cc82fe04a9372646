// Sessions of ONNX Runtime over its C API, without its headers, which the package does not bring: the
// API is a table of functions to which later versions only append, so that places in it are fixed.
#include <dlfcn.h>

#include <cstdlib>
#include <memory>

namespace {

opinfo::Constants models;

using Status = void*;
struct ApiBase {
  const void* const* (*get_api)(uint32_t version);
  const char* (*version)();
};
// The version of the table that all of these are in.
constexpr uint32_t VERSION = 12;
enum Place {
  GET_ERROR_MESSAGE = 2, CREATE_ENV = 3, CREATE_SESSION_FROM_ARRAY = 8, RUN = 9,
  CREATE_SESSION_OPTIONS = 10, SET_INTRA_OP_NUM_THREADS = 24, CREATE_TENSOR_WITH_DATA = 49,
  CREATE_CPU_MEMORY_INFO = 69, RELEASE_STATUS = 93, RELEASE_SESSION = 95, RELEASE_VALUE = 96,
  RELEASE_SESSION_OPTIONS = 100,
};

const void* const* api = nullptr;
void *memory = nullptr, *env = nullptr;

template <typename... Args>
Status call(Place place, Args... args) {
  return reinterpret_cast<Status (*)(Args...)>(const_cast<void*>(api[place]))(args...);
}

// An error with the message of a status, which is released; 0 where there is none.
int failed(const char* what, Status status) {
  if (status == nullptr) return 0;
  auto* message = reinterpret_cast<const char* (*)(Status)>(
      const_cast<void*>(api[GET_ERROR_MESSAGE]));
  std::string told = std::string(what) + ": " + message(status);
  call(RELEASE_STATUS, status);
  return opinfo::fail("RuntimeError", told);
}

std::vector<void*> sessions;

// Made after ONNX Runtime was loaded, so that it goes before that does.
struct Closer {
  ~Closer() {
    for (void* s : sessions) call(RELEASE_SESSION, s);
  }
};

int threads() {
  for (const char* name : {"OMP_NUM_THREADS", "TVM_NUM_THREADS"})
    if (const char* told = std::getenv(name)) return std::atoi(told);
  return 0;  // ONNX Runtime decides
}

int open(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen("libonnxruntime.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return opinfo::fail("RuntimeError", std::string("ONNX Runtime is not here: put "
      "libonnxruntime.so.1 (the package onnxruntime has it, in capi/, with the version in its name) "
      "into a folder of LD_LIBRARY_PATH: ") + dlerror());
  auto* base = reinterpret_cast<const ApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  api = base == nullptr ? nullptr : base()->get_api(VERSION);
  if (api == nullptr) return opinfo::fail("RuntimeError", "ONNX Runtime has no such API");
  const int warning = 2, arena = 1, by_default = 0;
  if (int code = failed("ONNX Runtime", call(CREATE_ENV, warning, "opinfo", &env))) return code;
  return failed("ONNX Runtime", call(CREATE_CPU_MEMORY_INFO, arena, by_default, &memory));
}

// Once, whoever else loads the library: a session for each model.
int begin(const char* path, size_t count) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (sessions.size() == count) return 0;
  if (api == nullptr)
    if (int code = open(path)) return code;
  void* options = nullptr;
  if (int code = failed("ONNX Runtime", call(CREATE_SESSION_OPTIONS, &options))) return code;
  Status status = call(SET_INTRA_OP_NUM_THREADS, options, threads());
  for (size_t k = sessions.size(); status == nullptr && k < count; ++k) {
    void* made = nullptr;
    const size_t size = models[k]->shape[0];
    status = call(CREATE_SESSION_FROM_ARRAY, env, static_cast<const void*>(opinfo::data(models[k])),
                  size, options, &made);
    if (status == nullptr) sessions.push_back(made);
  }
  call(RELEASE_SESSION_OPTIONS, options);
  static Closer closer;
  return failed("ONNX Runtime", status);
}

// Values of ONNX Runtime over the memory of tensors.
struct Values {
  std::vector<void*> all;
  ~Values() {
    for (void* v : all) call(RELEASE_VALUE, v);
  }

  int add(const char* name, const TVMFFIAny& a) {
    const DLTensor* t = opinfo::tensor(a);
    if (t == nullptr || t->device.device_type != kDLCPU || t->dtype.code != kDLFloat ||
        t->dtype.bits != 32 || t->dtype.lanes != 1 || !opinfo::is_compact(t))
      return opinfo::fail("TypeError", std::string(name) + ": argument " +
                                           std::to_string(all.size()) +
                                           " must be a plain CPU tensor of f32");
    size_t bytes = 4;
    for (int k = 0; k < t->ndim; ++k) bytes *= t->shape[k];
    void* made = nullptr;
    const int float32 = 1;
    Status status = call(CREATE_TENSOR_WITH_DATA, memory, static_cast<void*>(opinfo::data(t)),
                         bytes, static_cast<const int64_t*>(t->shape),
                         static_cast<size_t>(t->ndim), float32, &made);
    if (status == nullptr) all.push_back(made);
    return failed(name, status);
  }
};

std::vector<std::string> numbered(const char* letter, int count) {
  std::vector<std::string> out;
  for (int k = 0; k < count; ++k) out.push_back(letter + std::to_string(k));
  return out;
}

int run(const char* name, size_t session, int inputs, int results, const TVMFFIAny* args,
        int32_t count, TVMFFIAny*) {
  if (count != inputs + results)
    return opinfo::fail("TypeError", std::string(name) + ": " + std::to_string(count) +
                                         " arguments, expected " +
                                         std::to_string(inputs + results));
  Values given, made;
  for (int k = 0; k < count; ++k)
    if (int code = (k < inputs ? given : made).add(name, args[k])) return code;
  std::vector<const char*> in, out;
  const auto xs = numbered("x", inputs), ys = numbered("y", results);
  for (const std::string& s : xs) in.push_back(s.c_str());
  for (const std::string& s : ys) out.push_back(s.c_str());
  const void* no_options = nullptr;
  return failed(name, call(RUN, sessions[session], no_options, in.data(),
                           static_cast<const void* const*>(given.all.data()), given.all.size(),
                           out.data(), out.size(), made.all.data()));
}

}  // namespace
