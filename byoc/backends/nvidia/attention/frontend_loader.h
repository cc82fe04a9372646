// cuDNN's frontend, which looks functions up in the cuDNN that a program is linked with.
#include <dlfcn.h>

// Otherwise the frontend also calls NVRTC, which its kernels for other operators need.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
// Nothing here is written to files.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

namespace cudnn_frontend {
void* cudnn_dlhandle = [] {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&cudnnCreate), &info);
  return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}();
}  // namespace cudnn_frontend

