// What generated functions of regions share, whichever library they call: checks of tensors, kernels
// that are made once for each shape, constants.
#include <tvm/ffi/any.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#define OPINFO_EXPORT(symbol)                                                                    \
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_##symbol(void*, const TVMFFIAny* args, int32_t n, \
                                                       TVMFFIAny* result) {                      \
    return symbol##_.safe_call(args, n, result);                                                 \
  }

namespace opinfo_regions {
namespace {  // two models in one process share nothing

// The tensor of an argument, null if it is none.
inline DLTensor* tensor_of(const TVMFFIAny& arg) {
  return tvm::ffi::AnyView::CopyFromTVMFFIAny(arg).try_cast<DLTensor*>().value_or(nullptr);
}

// Whether a tensor has these extents, -1 for unknown ones, side by side in memory.
inline bool is_plain(const DLTensor& t, const int64_t* extents) {
  int64_t step = 1;
  for (int k = t.ndim; k-- > 0; step *= t.shape[k]) {
    if (extents[k] >= 0 && t.shape[k] != extents[k]) return false;
    if (t.strides != nullptr && t.shape[k] > 1 && t.strides[k] != step) return false;
  }
  return true;
}

// For people: float32[?, 3].
inline std::string spelled(const std::string& type, const int64_t* extents, int64_t rank) {
  std::string out = type;
  for (int64_t k = 0; k < rank; ++k)
    out += (k == 0 ? "[" : ", ") + (extents[k] < 0 ? "?" : std::to_string(extents[k]));
  return rank > 0 ? out + "]" : out;
}

// Kernels by what they are made for. One that is in use stays, whatever is made meanwhile.
template <typename Key, typename Kernel>
class Kernels {
 public:
  template <typename Make>
  std::shared_ptr<const Kernel> find(const Key& key, Make make) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = made_.find(key);
    if (found != made_.end()) return found->second;
    if (made_.size() >= 256) made_.clear();
    std::shared_ptr<const Kernel> kernel = make();
    made_.emplace(key, kernel);
    return kernel;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Kernel>> made_;
};

// Called when the library is loaded, with the constants in order: `all` has them from then on.
template <typename Constant, typename Then>
int take_constants(const TVMFFIAny* args, TVMFFIAny* result,
                   std::vector<std::unique_ptr<Constant>>& all, Then then) {
  TVM_FFI_SAFE_CALL_BEGIN();
  static std::once_flag once;  // whoever else loads the library
  std::call_once(once, [&] {
    auto given = tvm::ffi::AnyView::CopyFromTVMFFIAny(args[0])
                     .cast<tvm::ffi::Array<tvm::ffi::Tensor>>();
    for (auto array : given) all.push_back(std::make_unique<Constant>(array));
    then();
  });
  TVMFFIAny zero{};
  zero.type_index = kTVMFFIInt;
  *result = zero;
  TVM_FFI_SAFE_CALL_END();
}

}  // namespace
}  // namespace opinfo_regions
