// The least that a function needs that a module exports: no header of C++.
#ifndef OPINFO_EXPORTED
#define OPINFO_EXPORTED
#include <tvm/ffi/c_api.h>

// A function that the module exports by this name: `args`, `count` of them, and `result` are its own.
#define OPINFO_FUNCTION(symbol)                                                     \
  extern "C" __attribute__((visibility("default"))) int __tvm_ffi_##symbol(         \
      [[maybe_unused]] void* self, [[maybe_unused]] const TVMFFIAny* args,          \
      [[maybe_unused]] int32_t count, [[maybe_unused]] TVMFFIAny* result)
#endif
