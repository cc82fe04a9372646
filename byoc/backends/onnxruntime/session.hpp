// Sessions of ONNX Runtime over its C API, without its headers, which the package does not bring: the
// API is a table of functions to which later versions only append, so that places in it are fixed.
#include <dlfcn.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace {

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
  RELEASE_SESSION_OPTIONS = 100, ADD_SESSION_CONFIG_ENTRY = 130,
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
  std::string text = std::string(what) + ": " + message(status);
  call(RELEASE_STATUS, status);
  return opinfo::fail("RuntimeError", text);
}

OncePerProcess once;
std::vector<void*> sessions;

// Made after ONNX Runtime was loaded, so that it goes before that does. The sessions of a parent are
// left alone: to end them would wait for its threads.
struct Closer {
  ~Closer() {
    for (void* s : sessions)
      if (once.is_mine()) call(RELEASE_SESSION, s);
  }
};

int open(const char* path) {
  if (api != nullptr) return 0;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen("libonnxruntime.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return opinfo::fail("RuntimeError", std::string("ONNX Runtime is not here: put "
      "libonnxruntime.so.1 (the package onnxruntime has it, in capi/, with the version in its name) "
      "beside this library or into a folder of LD_LIBRARY_PATH: ") + dlerror());
  auto* base = reinterpret_cast<const ApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  auto* table = base == nullptr ? nullptr : base()->get_api(VERSION);
  if (table == nullptr) return opinfo::fail("RuntimeError", "ONNX Runtime has no such API");
  api = table;
  const int error = 3, arena = 1, by_default = 0;  // warnings are of how an author wrote a file
  if (int code = failed("ONNX Runtime", call(CREATE_ENV, error, "opinfo", &env))) return code;
  return failed("ONNX Runtime", call(CREATE_CPU_MEMORY_INFO, arena, by_default, &memory));
}

// Whether products of uint8 and int8 are summed in 32 bits. Without VNNI, ONNX Runtime sums pairs of
// them in 16 bits, which saturates, unless it is told to be precise.
bool exact_products() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0, more = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  const unsigned core = 0xC0030000;  // AVX512F, DQ, BW and VL: then its AVX-VNNI code is not used
  if ((b & core) == core) return (c & 0x800) != 0;
  return __get_cpuid_count(7, 1, &more, &b, &c, &d) && (more & 0x10) != 0;
#else
  return true;
#endif
}

// Options of all sessions. Threads must not spin beside the work of another session or pool. The
// kernel of a sum and a layer norm is slower on CPUs than the two that it replaces.
Status configured(void* options, size_t count) {
  Status status = call(SET_INTRA_OP_NUM_THREADS, options, threads());
  if (status == nullptr)
    status = call(ADD_SESSION_CONFIG_ENTRY, options, "optimization.disable_specified_optimizers",
                  "SkipLayerNormFusion");
  if (status == nullptr && !exact_products())
    status = call(ADD_SESSION_CONFIG_ENTRY, options, "session.x64quantprecision", "1");
  if (status == nullptr && (count > 1 || beside_team() || beside_openvino()))
    status = call(ADD_SESSION_CONFIG_ENTRY, options, "session.force_spinning_stop", "1");
  return status;
}

// Once a process: a session for each model.
int begin() {
  return once([&] {
    if (int code = open(LIBRARY)) return code;
    void* options = nullptr;
    if (int code = failed("ONNX Runtime", call(CREATE_SESSION_OPTIONS, &options))) return code;
    Status status = configured(options, MODELS);
    std::vector<void*> made;
    for (size_t k = 0; status == nullptr && k < MODELS; ++k) {
      void* session = nullptr;
      const size_t size = models[k]->shape[0];
      status = call(CREATE_SESSION_FROM_ARRAY, env,
                    static_cast<const void*>(opinfo::data(models[k])), size, options, &session);
      if (status == nullptr) made.push_back(session);
    }
    call(RELEASE_SESSION_OPTIONS, options);
    static Closer closer;
    if (status == nullptr) sessions = made;
    return failed("ONNX Runtime", status);
  });
}

// ONNX's number of an element type.
int element_type(ElementType type) {
  switch (type.code * 100 + type.bits) {
    case kDLFloat * 100 + 16: return 10;
    case kDLFloat * 100 + 32: return 1;
    case kDLFloat * 100 + 64: return 11;
    case kDLUInt * 100 + 8: return 2;
    case kDLUInt * 100 + 16: return 4;
    case kDLUInt * 100 + 32: return 12;
    case kDLUInt * 100 + 64: return 13;
    case kDLInt * 100 + 8: return 3;
    case kDLInt * 100 + 16: return 5;
    case kDLInt * 100 + 32: return 6;
    case kDLInt * 100 + 64: return 7;
    default: return 9;
  }
}

// Values of ONNX Runtime over the memory of tensors.
struct Values {
  std::vector<void*> all;
  ~Values() {
    for (void* v : all) call(RELEASE_VALUE, v);
  }

  int add(const Region& region, const DLTensor* t) {
    void* value = nullptr;
    const int type = element_type(region.types[all.size()]);
    Status status = call(CREATE_TENSOR_WITH_DATA, memory, static_cast<void*>(opinfo::data(t)),
                         bytes(t), static_cast<const int64_t*>(t->shape),
                         static_cast<size_t>(t->ndim), type, &value);
    if (status == nullptr) all.push_back(value);
    return failed(region.name, status);
  }
};

int run(const Region& region, const TVMFFIAny* args, int32_t count) {
  if (int code = begin()) return code;
  std::vector<const DLTensor*> tensors;
  if (int code = checked(region, args, count, tensors)) return code;
  Values values;
  for (const DLTensor* t : tensors)
    if (int code = values.add(region, t)) return code;
  const void* no_options = nullptr;
  const size_t inputs = region.inputs, results = region.results;
  return while_team_yields([&] {
    return failed(region.name, call(RUN, sessions[region.model], no_options, INPUT_NAMES,
                                    static_cast<const void* const*>(values.all.data()), inputs,
                                    RESULT_NAMES, results, values.all.data() + inputs));
  });
}

}  // namespace
