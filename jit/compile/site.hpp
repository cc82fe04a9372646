// A call site of a kernel with symbolic shapes: a polymorphic inline cache of kernels for single
// shapes, backed by the generic kernel. A call never waits for a lock that another thread holds or
// for the compiler, and never frees memory that another thread reads. It follows hazard.hpp,
// shape_counts.hpp and request_queue.hpp.
#include <tvm/ffi/container/tensor.h>

#include <new>

namespace opinfo_jit {
namespace {

// kForked: in a forked process, which has no compiler thread. Loaded kernels serve and nothing else
// is done, since a thread that the fork did not copy may have held a lock.
enum Mode { kGeneric = 0, kRecord = 1, kSpecialise = 2, kForked = 3 };

class Site {
 public:
  Site(int place, const SiteRow& row)
      : place_(place), generic_(row.generic), probes_(row.probes, row.probes + row.count),
        counts_(row.count) {}
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

// Never freed: a thread may be in a call when the process ends.
Site* const sites = [] {
  Site* all = static_cast<Site*>(::operator new(sizeof(Site) * std::max(kSites, 1)));
  for (int k = 0; k < kSites; ++k) new (all + k) Site(k, kRows[k]);
  return all;
}();

}  // namespace

int call(int place, void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {
  return sites[place].call(self, args, n, result);
}

}  // namespace opinfo_jit
