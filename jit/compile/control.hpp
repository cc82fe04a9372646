// Controls of a library's sites, for `jit.runtime.library`. It follows site.hpp.
#include <dlfcn.h>
#include <pthread.h>
#include <tvm/ffi/string.h>

namespace opinfo_jit {
namespace {

Site& site_at(int64_t place) {
  if (place < 0 || place >= kSites) TVM_FFI_THROW(IndexError) << "no site " << place;
  return sites[place];
}
ffi::String about() { return kTable; }
ffi::Shape next(int64_t milliseconds) {
  ffi::Shape request = queue.pop(milliseconds);
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  now.store(std::chrono::duration_cast<std::chrono::milliseconds>(since).count() / 100);
  return request;
}
ffi::String waiting() { return queue.waiting(); }
// The address of a library's function; nullptr if the library or the symbol is missing.
Call code(const ffi::String& library, const ffi::String& symbol) {
  void* address = nullptr;
  if (void* handle = library.empty() ? nullptr : dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
    address = dlsym(handle, symbol.c_str());
    dlclose(handle);
  }
  return reinterpret_cast<Call>(address);
}
// `library` is the file that the kernel was loaded from, or empty.
void insert(int64_t place, ffi::Shape key, ffi::Function kernel, ffi::String library,
            ffi::String symbol) {
  site_at(place).insert(as_key(key), std::move(kernel), code(library, symbol));
}
void drop(int64_t place, ffi::Shape key, bool retry) { site_at(place).drop(as_key(key), retry); }
void configure(int64_t place, int64_t mode, int64_t threshold, int64_t most) {
  Site& site = site_at(place);
  site.threshold.store(threshold);
  site.most.store(most);
  site.mode.store(mode);
}
ffi::String stats(int64_t place, bool misses) { return site_at(place).stats(misses); }
void open(int64_t limit) {
  for (int k = 0; k < kSites; ++k) sites[k].forget();
  queue.open(limit);
}
void forked() {
  for (int k = 0; k < kSites; ++k) sites[k].forked();
}
// Unregistered when the library is unloaded.
const int kWatched = pthread_atfork(nullptr, nullptr, forked);
void close() {
  queue.close();
  for (int k = 0; k < kSites; ++k) {
    sites[k].mode.store(kGeneric);
    sites[k].clear();
  }
}

}  // namespace
}  // namespace opinfo_jit

TVM_FFI_DLL_EXPORT_TYPED_FUNC(opinfo_jit_about, opinfo_jit::about);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(opinfo_jit_next, opinfo_jit::next);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(opinfo_jit_waiting, opinfo_jit::waiting);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(opinfo_jit_insert, opinfo_jit::insert);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(opinfo_jit_drop, opinfo_jit::drop);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(opinfo_jit_configure, opinfo_jit::configure);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(opinfo_jit_stats, opinfo_jit::stats);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(opinfo_jit_open, opinfo_jit::open);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(opinfo_jit_close, opinfo_jit::close);
