// What a model's library says of its call sites. Two files read it: one that is the same for all
// models (`call_site_code.runtime`), and one of the model (`call_site_code.table`).
#include <tvm/ffi/c_api.h>

namespace opinfo_jit __attribute__((visibility("hidden"))) {

using Call = int (*)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);

struct Probe {
  int32_t arg, axis;  // axis -1: the argument itself is the extent
};

struct SiteRow {
  Call generic;
  int32_t count;
  const Probe* probes;
};

extern const int kSites;
extern const SiteRow kRows[];
extern const char kTable[];

// Calls a site.
int call(int place, void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result);

}  // namespace opinfo_jit
