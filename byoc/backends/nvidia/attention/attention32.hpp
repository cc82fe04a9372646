// Attention in float32: loads the kernel of attention32.cu and launches it. It follows runtime.hpp
// and attention32.h. CUDA's driver is called by its C interface, which needs no headers.
#include <dlfcn.h>

#ifndef OPINFO_LIBCUDA
#define OPINFO_LIBCUDA "libcuda.so.1"
#endif

namespace opinfo_nvidia {
namespace {

// What is used of the driver. Functions return 0 if nothing failed.
class Driver {
 public:
  using Load = int (*)(void** module, const void* image);
  using Find = int (*)(void** function, void* module, const char* name);
  using Set = int (*)(void* function, int attribute, int value);
  using Launch = int (*)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned shared, void* stream, void** arguments, void** extra);

  static const Driver& get() {
    static const Driver driver;
    return driver;
  }

  // A kernel of an image, which may have `bytes` of shared memory.
  void* kernel(const void* image, const char* name, int bytes) const {
    constexpr int kMaxDynamicShared = 8;
    void *module = nullptr, *function = nullptr;
    check(cudaFree(nullptr), "cudaFree");  // the device has a context from here on
    passed(load_(&module, image), "cuModuleLoadData");
    passed(find_(&function, module, name), "cuModuleGetFunction");
    passed(set_(function, kMaxDynamicShared, bytes), "cuFuncSetAttribute");
    return function;
  }

  void launch(void* function, int64_t blocks, int threads, int bytes, cudaStream_t stream,
              void* argument) const {
    void* arguments[] = {argument};
    passed(launch_(function, static_cast<unsigned>(blocks), 1, 1, threads, 1, 1, bytes, stream,
                   arguments, nullptr),
           "cuLaunchKernel");
  }

 private:
  Driver() : library_(dlopen(OPINFO_LIBCUDA, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) OPINFO_THROW(RuntimeError) << dlerror();
    load_ = function<Load>("cuModuleLoadData");
    find_ = function<Find>("cuModuleGetFunction");
    set_ = function<Set>("cuFuncSetAttribute");
    launch_ = function<Launch>("cuLaunchKernel");
  }

  template <typename F>
  F function(const char* name) const {
    void* found = dlsym(library_, name);
    if (found == nullptr) OPINFO_THROW(RuntimeError) << OPINFO_LIBCUDA " has no " << name;
    return reinterpret_cast<F>(found);
  }

  static void passed(int status, const char* what) {
    if (status != 0) OPINFO_THROW(RuntimeError) << what << ": CUDA's error " << status;
  }

  void* library_;
  Load load_;
  Find find_;
  Set set_;
  Launch launch_;
};

// Tensors with the offsets of their first elements, and what the kernel is given besides.
struct FloatAttention {
  Operand q, k, v, o, mask;
  int64_t q_first = 0, k_first = 0, v_first = 0, o_first = 0, mask_first = 0;
  Attention32 arguments{};
  int image = 0, bytes = 0;  // the constant with the kernel; its shared memory
  int64_t blocks = 0;
};

class FloatAttentionKernel : public Kernel {
 public:
  FloatAttentionKernel(const Context& c, const FloatAttention& a) : a_(a) {
    constexpr int kVector = 16;
    if (c.alignment % kVector != 0)
      OPINFO_THROW(ValueError) << c.name << ": a tensor is aligned to " << c.alignment
                               << " bytes, expected " << kVector;
    static std::mutex mutex;
    static auto& all = *new std::map<std::pair<int, int>, void*>;  // not freed: see constants
    const Capture capture(stream_of(c.device));
    std::lock_guard<std::mutex> lock(mutex);
    void*& kernel = all[{c.device, a.image}];
    if (kernel == nullptr)
      kernel = Driver::get().kernel(constants()[a.image]->host(), "attention32", a.bytes);
    kernel_ = kernel;
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    Attention32 a = a_.arguments;
    a.q = at(a_.q, data, a_.q_first), a.k = at(a_.k, data, a_.k_first);
    a.v = at(a_.v, data, a_.v_first), a.o = at(a_.o, data, a_.o_first);
    a.mask = a_.mask ? at(a_.mask, data, a_.mask_first) : nullptr;
    Driver::get().launch(kernel_, a_.blocks, kThreads, a_.bytes, stream, &a);
  }

 private:
  static constexpr int kThreads = 128;

  static float* at(const Operand& t, void* const* data, int64_t first) {
    return static_cast<float*>(t.in(data)) + first;
  }

  FloatAttention a_;
  void* kernel_ = nullptr;
};

OPINFO_UNUSED std::unique_ptr<Kernel> attention32(const Context& c, const FloatAttention& a) {
  if (c.data == nullptr) return nullptr;
  return std::make_unique<FloatAttentionKernel>(c, a);
}

}  // namespace
}  // namespace opinfo_nvidia
