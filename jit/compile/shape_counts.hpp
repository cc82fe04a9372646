// How often each shape without a kernel was called. It follows snapshot.hpp.
#include <algorithm>

namespace opinfo_jit {
namespace {

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

}  // namespace
}  // namespace opinfo_jit
