// What the functions of a model call. It follows functions.hpp, or that is an object which is linked.
#include <tvm/ffi/c_api.h>
#ifndef OPINFO_FUNCTION  // as in codegen/abi.hpp, which takes longer to compile than a model
#define OPINFO_FUNCTION(symbol)                                                     \
  extern "C" __attribute__((visibility("default"))) int __tvm_ffi_##symbol(         \
      [[maybe_unused]] void* self, [[maybe_unused]] const TVMFFIAny* args,          \
      [[maybe_unused]] int32_t count, [[maybe_unused]] TVMFFIAny* result)
#endif

OPINFO_LINKAGE void* OPINFO_RUNTIME(group)();
OPINFO_LINKAGE void* OPINFO_RUNTIME(function)(void* group, const char* name, const char* recipe,
                                              int count, const int64_t* spec);
OPINFO_LINKAGE int OPINFO_RUNTIME(call)(void* function, const TVMFFIAny* args, int32_t count,
                                        TVMFFIAny* result);
OPINFO_LINKAGE int OPINFO_RUNTIME(begin)(void* group, const TVMFFIAny* args, TVMFFIAny* result);

static void* const group = OPINFO_RUNTIME(group)();
