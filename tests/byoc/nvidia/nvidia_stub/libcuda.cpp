// CUDA's driver on the host: an image is the path of a library with kernels (emulated_kernel.cpp).
#include <dlfcn.h>

#include <memory>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"

using Launch = int (*)(unsigned, unsigned, unsigned, unsigned, unsigned, void**);
struct Kernel {
  Launch launch;
  unsigned bytes;  // of its argument
};

extern "C" {
int skips = 0;  // a test says that launches do nothing
int cuModuleLoadData(void** module, const void* image) {
  *module = dlopen(static_cast<const char*>(image), RTLD_NOW | RTLD_LOCAL);
  return *module == nullptr ? 209 : 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  void* const launch = dlsym(module, ("launch_" + std::string(name)).c_str());
  if (launch == nullptr) return 500;
  const auto* bytes = static_cast<unsigned*>(dlsym(module, ("bytes_" + std::string(name)).c_str()));
  *function = new Kernel{reinterpret_cast<Launch>(launch), *bytes};
  return 0;
}
int cuFuncSetAttribute(void*, int attribute, int bytes) {
  return attribute == 8 && bytes <= 128 << 10 ? 0 : 1;
}
int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads,
                   unsigned threads_y, unsigned threads_z, unsigned bytes, void* stream,
                   void** arguments, void**) {
  if (threads_y != 1 || threads_z != 1) return 1;
  if (skips) return 0;
  const Kernel kernel = *static_cast<Kernel*>(function);
  const auto* given = static_cast<const char*>(arguments[0]);
  const auto argument = std::make_shared<std::vector<char>>(given, given + kernel.bytes);
  const auto status = std::make_shared<int>(0);
  stub::submit(stream, [=] {
    void* all[] = {argument->data()};
    *status = kernel.launch(x, y, z, threads, bytes, all);
  });
  return *status;
}
}
