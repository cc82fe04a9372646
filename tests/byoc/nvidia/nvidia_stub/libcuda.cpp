// CUDA's driver on the host: an image is the path of a library with kernels (emulated_kernel.cpp).
#include <dlfcn.h>

#include <string>

using Launch = int (*)(unsigned, unsigned, unsigned, unsigned, unsigned, void**);

extern "C" {
int skips = 0;  // a test says that launches do nothing
int cuModuleLoadData(void** module, const void* image) {
  *module = dlopen(static_cast<const char*>(image), RTLD_NOW | RTLD_LOCAL);
  return *module == nullptr ? 209 : 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = dlsym(module, ("launch_" + std::string(name)).c_str());
  return *function == nullptr ? 500 : 0;
}
int cuFuncSetAttribute(void*, int attribute, int bytes) {
  return attribute == 8 && bytes <= 128 << 10 ? 0 : 1;
}
int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads,
                   unsigned threads_y, unsigned threads_z, unsigned bytes, void*, void** arguments,
                   void**) {
  if (threads_y != 1 || threads_z != 1) return 1;
  return skips ? 0 : reinterpret_cast<Launch>(function)(x, y, z, threads, bytes, arguments);
}
}
