// The kernels of a call site for single shapes, and how they are found. It follows site_table.hpp.
#include <tvm/ffi/any.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

namespace opinfo_jit {
namespace {  // anonymous: two models in one process share no state

namespace ffi = tvm::ffi;
constexpr int kMaxDims = 8;

// The values of a site's symbolic dimensions.
struct Key {
  int32_t size = 0;
  int64_t values[kMaxDims];

  bool operator==(const Key& other) const {
    return size == other.size && !std::memcmp(values, other.values, sizeof(int64_t) * size);
  }
  uint64_t hash() const {
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (int k = 0; k < size; ++k) {
      h = (h ^ static_cast<uint64_t>(values[k])) * 0xff51afd7ed558ccdu;
      h ^= h >> 32;
    }
    return h;
  }
};

Key as_key(const ffi::Shape& values) {
  if (values.size() > kMaxDims) TVM_FFI_THROW(ValueError) << "a site of " << values.size()
                                                          << " symbolic dimensions";
  Key key;
  key.size = values.size();
  for (int k = 0; k < key.size; ++k) key.values[k] = values[k];
  return key;
}

// The time in tenths of a second, set by the session's manager; it dates the last use of kernels.
std::atomic<uint32_t> now{0};

struct Kernel {
  Key key;
  ffi::Function function;
  Call call;
  std::atomic<uint64_t> hits{0};
  std::atomic<uint32_t> used;

  // `direct` is the address of the function's code if known; the object keeps it loaded.
  Kernel(Key key, ffi::Function f, Call direct)
      : key(key), function(std::move(f)), used(now.load()) {
    call = direct ? direct : TVMFFIFunctionGetCellPtr(handle())->safe_call;
  }
  TVMFFIObjectHandle handle() const {
    return ffi::details::ObjectUnsafe::TVMFFIObjectPtrFromObjectRef(function);
  }
  void served() {
    hits.store(hits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    uint32_t tick = now.load(std::memory_order_relaxed);
    if (used.load(std::memory_order_relaxed) != tick) used.store(tick, std::memory_order_relaxed);
  }
};

// The kernels of a site at one moment; immutable except for the most recently used one.
class Snapshot {
 public:
  Snapshot() = default;
  explicit Snapshot(std::vector<std::shared_ptr<Kernel>> kernels) : kernels_(std::move(kernels)) {
    size_t size = 4;
    while (size < 2 * kernels_.size()) size *= 2;
    table_.assign(size, 0);
    for (size_t k = 0; k < kernels_.size(); ++k) {
      size_t at = kernels_[k]->key.hash() & (size - 1);
      while (table_[at]) at = (at + 1) & (size - 1);
      table_[at] = k + 1;
    }
  }

  Kernel* find(const Key& key) const {
    if (kernels_.empty()) return nullptr;
    Kernel* last = kernels_[recent_.load(std::memory_order_relaxed)].get();
    if (last->key == key) return last;
    size_t mask = table_.size() - 1;
    for (size_t at = key.hash() & mask; table_[at]; at = (at + 1) & mask) {
      uint32_t k = table_[at] - 1;
      if (!(kernels_[k]->key == key)) continue;
      recent_.store(k, std::memory_order_relaxed);
      return kernels_[k].get();
    }
    return nullptr;
  }

  const std::vector<std::shared_ptr<Kernel>>& kernels() const { return kernels_; }

 private:
  std::vector<std::shared_ptr<Kernel>> kernels_;
  std::vector<uint32_t> table_;  // 1 + index into kernels_; 0 if empty
  mutable std::atomic<uint32_t> recent_{0};
};

}  // namespace
}  // namespace opinfo_jit
