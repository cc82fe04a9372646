// A call site of a kernel with symbolic shapes: a polymorphic inline cache of kernels for single
// shapes, backed by the generic kernel. A call never waits for a lock that another thread holds or
// for the compiler, and never frees memory that another thread reads.
#include <dlfcn.h>
#include <pthread.h>
#include <tvm/ffi/any.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace opinfo_jit {
namespace {  // anonymous: two models in one process share no state

namespace ffi = tvm::ffi;
using Call = int (*)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);
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

// A hazard pointer: the snapshot that a thread reads. Slots are reused, never freed.
struct alignas(64) Hazard {
  std::atomic<const Snapshot*> reads{nullptr};
  std::atomic<bool> taken{true};
  Hazard* next = nullptr;
};
std::atomic<Hazard*> hazards{nullptr};

// Takes a slot at a thread's first call, and releases it when the thread ends.
struct SlotOwner {
  Hazard* slot;
  SlotOwner() {
    for (slot = hazards.load(); slot; slot = slot->next) {
      bool free = false;
      if (slot->taken.compare_exchange_strong(free, true)) return;
    }
    slot = new Hazard;
    slot->next = hazards.load();
    while (!hazards.compare_exchange_weak(slot->next, slot)) {
    }
  }
  ~SlotOwner();
};
// A plain pointer beside it, because reading it needs no initialisation guard. The initial-exec TLS
// model would also save a call, but a process has room for it in a few dozen libraries only.
thread_local Hazard* slot = nullptr;

SlotOwner::~SlotOwner() {
  slot->reads.store(nullptr);
  slot->taken.store(false);
  opinfo_jit::slot = nullptr;
}

__attribute__((noinline)) Hazard* first_slot() {
  static thread_local SlotOwner owner;
  return slot = owner.slot;
}
inline Hazard* my_slot() { return __builtin_expect(slot != nullptr, 1) ? slot : first_slot(); }

// The calls of each shape without a kernel, in two arrays: a heap node for each shape would lie
// among the buffers of calls and keep the allocator from returning their memory.
class Counts {
 public:
  struct Count {
    uint64_t calls = 0, next = 0;  // a kernel is requested at call number `next`
  };

  explicit Counts(size_t dims) : dims_(dims) { clear(); }
  size_t size() const { return counts_.size(); }
  Count* find(const Key& key) {
    uint32_t place = table_[at(key)];
    return place ? &counts_[place - 1] : nullptr;
  }
  // Adds a key, which must be absent.
  Count* add(const Key& key) {
    keys_.insert(keys_.end(), key.values, key.values + dims_);
    counts_.emplace_back();
    if (2 * counts_.size() > table_.size()) {
      std::vector<uint32_t>(2 * table_.size(), 0).swap(table_);
      for (size_t k = 0; k < counts_.size(); ++k) table_[at(key_of(k))] = k + 1;
    } else {
      table_[at(key)] = counts_.size();
    }
    return &counts_.back();
  }
  Key key_of(size_t k) const {
    Key key;
    key.size = dims_;
    std::copy_n(keys_.begin() + k * dims_, dims_, key.values);
    return key;
  }
  const Count& operator[](size_t k) const { return counts_[k]; }
  void clear() {
    std::vector<int64_t>().swap(keys_);
    std::vector<Count>().swap(counts_);
    std::vector<uint32_t>(16, 0).swap(table_);
  }

 private:
  // The position of the key in the table, or the one where it would be inserted.
  size_t at(const Key& key) const {
    size_t mask = table_.size() - 1, at = key.hash() & mask;
    while (table_[at] && !(key_of(table_[at] - 1) == key)) at = (at + 1) & mask;
    return at;
  }

  size_t dims_;
  std::vector<int64_t> keys_;
  std::vector<Count> counts_;
  std::vector<uint32_t> table_;  // 1 + index of a key; 0 if empty
};

bool is_read(const Snapshot* s) {
  for (Hazard* h = hazards.load(); h; h = h->next)
    if (h->reads.load() == s) return true;
  return false;
}

// Requested shapes, for the manager's thread. The index of the site is inverted (~) for a shape
// whose kernel raised an error.
class Queue {
 public:
  bool push(int site, const Key& key) {
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || closed_ || requests_.size() >= limit_) return false;
    requests_.emplace_back(site, key);
    lock.unlock();
    filled_.notify_one();
    return true;
  }
  // Reports a broken kernel: first in the queue and without a limit, because it must not be lost.
  void push_broken(int site, const Key& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    requests_.emplace_front(~site, key);
    filled_.notify_one();
  }
  // Returns (site, dimensions…), or an empty shape on a timeout or if the queue is closed. The
  // manager calls it when it has finished with the previous request.
  ffi::Shape pop(int64_t milliseconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    taken_.clear();
    filled_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                     [&] { return closed_ || !requests_.empty(); });
    std::vector<int64_t> out;
    if (!requests_.empty()) {
      auto [site, key] = requests_.front();
      taken_.push_back(requests_.front());
      requests_.pop_front();
      out.push_back(site);
      out.insert(out.end(), key.values, key.values + key.size);
    }
    return ffi::Shape(out);
  }
  // Returns JSON: (site, dimensions…) of the requests that are not finished, the next one first.
  std::string waiting() {
    std::ostringstream out;
    const char* comma = "";
    std::lock_guard<std::mutex> lock(mutex_);
    out << "[";
    for (auto* requests : {&taken_, &requests_})
      for (auto& [site, key] : *requests) {
        out << comma << "[" << site;
        for (int k = 0; k < key.size; ++k) out << ", " << key.values[k];
        out << "]";
        comma = ", ";
      }
    return out.str() + "]";
  }
  void open(size_t limit) {
    std::lock_guard<std::mutex> lock(mutex_);
    limit_ = limit;
    closed_ = false;
  }
  void close() {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    requests_.clear();
    taken_.clear();
    filled_.notify_all();
  }

 private:
  size_t limit_ = 0;
  bool closed_ = true;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::pair<int, Key>> requests_, taken_;  // `taken_` is the one that is being served
};
// Never freed: in a forked process, destroying the condition variable would wait for a thread that
// the fork did not copy.
Queue& queue = *new Queue;

struct Probe {
  int32_t arg, axis;  // axis -1: the argument itself is the extent
};

// kForked: in a forked process, which has no compiler thread. Loaded kernels serve and nothing else
// is done, since a thread that the fork did not copy may have held a lock.
enum Mode { kGeneric = 0, kRecord = 1, kSpecialise = 2, kForked = 3 };

class Site {
 public:
  Site(int place, Call generic, std::initializer_list<Probe> probes)
      : place_(place), generic_(generic), probes_(probes), counts_(probes.size()) {}
  // Sites live as long as the library: a thread may still be in a call when the process exits.

  int call(void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {
    Key key;
    if (mode.load(std::memory_order_relaxed) == kGeneric || !read(args, n, &key))
      return generic_(self, args, n, result);
    Hazard* hazard = my_slot();
    // A kernel called back into the model: the slot protects the outer kernel.
    if (hazard->reads.load(std::memory_order_relaxed)) return generic_(self, args, n, result);
    const Snapshot* seen = table_.load(std::memory_order_acquire);
    while (true) {
      hazard->reads.store(seen, std::memory_order_seq_cst);
      const Snapshot* current = table_.load(std::memory_order_seq_cst);
      if (current == seen) break;
      seen = current;
    }
    if (Kernel* kernel = seen->find(key)) {
      int failed = kernel->call(kernel->handle(), args, n, result);
      if (!failed) kernel->served();
      hazard->reads.store(nullptr, std::memory_order_release);
      return failed ? fall_back(key, self, args, n, result) : 0;
    }
    hazard->reads.store(nullptr, std::memory_order_release);
    missed(key);
    return generic_(self, args, n, result);
  }

  void insert(const Key& key, ffi::Function f, Call direct) {
    std::lock_guard<std::mutex> lock(writer_);
    auto kernels = without(key);
    kernels.push_back(std::make_shared<Kernel>(key, std::move(f), direct));
    swap(std::move(kernels));
  }
  // Makes the shape generic; with `retry`, it is requested again after twice as many calls.
  void drop(const Key& key, bool retry) {
    {
      std::lock_guard<std::mutex> lock(writer_);
      swap(without(key));
    }
    std::lock_guard<std::mutex> lock(counting_);
    if (Counts::Count* count = counts_.find(key))
      count->next = retry ? 2 * count->calls + kPause : kNever;
  }
  void clear() {
    std::lock_guard<std::mutex> lock(writer_);
    for (auto& k : table_.load()->kernels()) dropped_hits_ += k->hits.load();
    swap({});
  }
  void forget() {
    clear();
    std::scoped_lock lock(writer_, counting_);
    counts_.clear();
    dropped_hits_ = 0;
    uncounted_.store(0);
    failed_.store(0);
    broken_.clear();
  }
  // Called in the only thread of a forked process.
  void forked() {
    if (mode.load() != kGeneric) mode.store(kForked);
  }

  // Returns JSON; with `misses`, it includes the shapes without a kernel, which may be many.
  std::string stats(bool misses) {
    std::ostringstream out;
    std::lock_guard<std::mutex> lock(writer_);
    collect();
    out << "{\"failed\": " << failed_.load() << ", \"uncounted\": " << uncounted_.load()
        << ", \"retired\": " << retired_.size() << ", \"broken\": [";
    const char* comma = "";
    for (auto& [key, why] : broken_) {
      out << comma << "[" << listed(key) << ", " << quoted(why) << "]";
      comma = ", ";
    }
    out << "], \"kernels\": [";
    comma = "";
    for (auto& k : table_.load()->kernels()) {
      out << comma << "[" << listed(k->key) << ", " << k->hits.load() << ", " << k->used.load()
          << "]";
      comma = ", ";
    }
    out << "], \"gone\": " << dropped_hits_ << ", \"misses\": [";
    if (!misses) return out.str() + "]}";
    comma = "";
    std::lock_guard<std::mutex> counting(counting_);
    for (size_t k = 0; k < counts_.size(); ++k) {
      out << comma << "[" << listed(counts_.key_of(k)) << ", " << counts_[k].calls << "]";
      comma = ", ";
    }
    out << "]}";
    return out.str();
  }

  std::atomic<int> mode{kGeneric};
  std::atomic<uint32_t> threshold{2};
  std::atomic<uint32_t> most{4096};  // limit on the shapes whose calls are counted

 private:
  static constexpr uint64_t kNever = ~uint64_t{0}, kPause = 64;
  static constexpr size_t kReasons = 256;

  bool read(const TVMFFIAny* args, int32_t n, Key* key) const {
    key->size = probes_.size();
    for (int k = 0; k < key->size; ++k) {
      const Probe& p = probes_[k];
      if (p.arg >= n) return false;
      const TVMFFIAny& a = args[p.arg];
      if (p.axis < 0) {
        if (a.type_index != kTVMFFIInt) return false;
        key->values[k] = a.v_int64;
        continue;
      }
      const DLTensor* t;
      if (a.type_index == kTVMFFITensor) {
        t = TVMFFITensorGetDLTensorPtr(a.v_obj);
      } else if (a.type_index == kTVMFFIDLTensorPtr) {
        t = static_cast<const DLTensor*>(a.v_ptr);
      } else {
        return false;
      }
      if (p.axis >= t->ndim) return false;
      key->values[k] = t->shape[p.axis];
    }
    return true;
  }

  void missed(const Key& key) {
    int how = mode.load(std::memory_order_relaxed);
    if (how == kForked) return;
    // No kernel is compiled for empty tensors.
    if (how == kSpecialise && std::any_of(key.values, key.values + key.size,
                                          [](int64_t v) { return v < 1; })) {
      uncounted_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    std::unique_lock<std::mutex> lock(counting_, std::defer_lock);
    if (how == kRecord) {
      lock.lock();
    } else if (!lock.try_lock()) {
      uncounted_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    Counts::Count* count = counts_.find(key);
    if (!count) {
      if (counts_.size() >= most.load(std::memory_order_relaxed)) {
        uncounted_.fetch_add(1, std::memory_order_relaxed);
        return;
      }
      count = counts_.add(key);
    }
    ++count->calls;
    if (how == kSpecialise && count->calls >= std::max<uint64_t>(count->next, threshold.load()) &&
        queue.push(place_, key))
      count->next = kNever;
  }

  // Runs the generic kernel after another kernel failed. If it fails too, the arguments are to
  // blame, and its error is raised. If not, the other kernel is dropped, and its error is kept.
  int fall_back(const Key& key, void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {
    TVMFFIObjectHandle error = nullptr;
    TVMFFIErrorMoveFromRaised(&error);
    int failed = generic_(self, args, n, result);
    if (!failed && mode.load() != kForked) broken(key, error);
    if (error) TVMFFIObjectDecRef(error);
    return failed;
  }
  void broken(const Key& key, TVMFFIObjectHandle error) {
    failed_.fetch_add(1, std::memory_order_relaxed);
    drop(key, false);
    {
      std::lock_guard<std::mutex> lock(writer_);
      if (broken_.size() == kReasons) return;
      broken_.emplace_back(key, reason(error));
    }
    queue.push_broken(place_, key);
  }
  static std::string reason(TVMFFIObjectHandle error) {
    if (!error) return "it failed";
    const TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error);
    std::string out(cell->kind.data, cell->kind.size);
    return (out + ": ").append(cell->message.data, std::min<size_t>(cell->message.size, 300));
  }

  std::vector<std::shared_ptr<Kernel>> without(const Key& key) {
    std::vector<std::shared_ptr<Kernel>> out;
    for (auto& k : table_.load()->kernels()) {
      if (k->key == key) {
        dropped_hits_ += k->hits.load();
      } else {
        out.push_back(k);
      }
    }
    return out;
  }
  void swap(std::vector<std::shared_ptr<Kernel>> kernels) {
    retired_.emplace_back(table_.exchange(new Snapshot(std::move(kernels))));
    collect();
  }
  void collect() {
    for (size_t k = retired_.size(); k-- > 0;) {
      if (is_read(retired_[k].get())) continue;
      std::swap(retired_[k], retired_.back());
      retired_.pop_back();
    }
  }
  static std::string listed(const Key& key) {
    std::ostringstream out;
    out << "[";
    for (int k = 0; k < key.size; ++k) out << (k ? ", " : "") << key.values[k];
    out << "]";
    return out.str();
  }

  // Returns a JSON string, with spaces for characters that are not printable ASCII.
  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (unsigned char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += c < 32 || c > 126 ? ' ' : static_cast<char>(c);
    }
    return out + "\"";
  }

  int place_;
  Call generic_;
  std::vector<Probe> probes_;
  std::atomic<const Snapshot*> table_{new Snapshot};
  std::mutex writer_, counting_;
  std::vector<std::unique_ptr<const Snapshot>> retired_;
  Counts counts_;
  std::atomic<uint64_t> uncounted_{0}, failed_{0};
  std::vector<std::pair<Key, std::string>> broken_;
  uint64_t dropped_hits_ = 0;  // hits of dropped kernels
};

Key as_key(const ffi::Shape& values) {
  if (values.size() > kMaxDims) TVM_FFI_THROW(ValueError) << "a site of " << values.size()
                                                          << " symbolic dimensions";
  Key key;
  key.size = values.size();
  for (int k = 0; k < key.size; ++k) key.values[k] = values[k];
  return key;
}

}  // namespace
}  // namespace opinfo_jit

#define OPINFO_SITE(symbol, place)                                                               \
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_##symbol(void* self, const TVMFFIAny* args,        \
                                                       int32_t n, TVMFFIAny* result) {           \
    return sites[place].call(self, args, n, result);                                             \
  }
