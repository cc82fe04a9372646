// Kernels of our own: CUDA's driver loads and launches them, called by its C interface, which needs no
// headers. It follows runtime.hpp.
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

  // A kernel of the constant with this number, which is an image, on the current device. It may have
  // `bytes` of shared memory.
  void* kernel(int device, int image, const char* name, int bytes) const {
    constexpr int kMaxDynamicShared = 8;
    static std::mutex mutex;
    static auto& modules = *new std::map<std::pair<int, int>, void*>;  // not freed: see constants
    static auto& kernels = *new std::map<std::pair<void*, std::string>, void*>;
    const Capture capture(stream_of(device));
    std::lock_guard<std::mutex> lock(mutex);
    void*& module = modules[{device, image}];
    if (module == nullptr) {
      check(cudaFree(nullptr), "cudaFree");  // the device has a context from here on
      passed(load_(&module, constants()[image]->host()), "cuModuleLoadData");
    }
    void*& function = kernels[{module, name}];
    if (function != nullptr) return function;
    void* loaded = nullptr;
    passed(find_(&loaded, module, name), "cuModuleGetFunction");
    passed(set_(loaded, kMaxDynamicShared, bytes), "cuFuncSetAttribute");
    return function = loaded;
  }

  // `argument`: the only one of the kernel.
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

}  // namespace
}  // namespace opinfo_nvidia
