// What generated functions of regions share, whichever library they call: errors, checks of tensors,
// kernels that are made once for each shape, constants. It follows codegen/abi.hpp.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <sstream>

#define OPINFO_EXPORT(symbol) \
  OPINFO_FUNCTION(symbol) { return symbol##_.safe_call(args, count, result); }
// OPINFO_THROW(ValueError) << "what is wrong with " << it;
#define OPINFO_THROW(kind) opinfo_regions::Raise(#kind).text()

namespace opinfo_regions {
namespace {  // two models in one process share nothing

class Raise {
 public:
  explicit Raise(const char* kind) : kind_(kind) {}
  [[noreturn]] ~Raise() noexcept(false) { throw opinfo::Error(kind_, text_.str()); }
  std::ostream& text() { return text_; }

 private:
  const char* kind_;
  std::ostringstream text_;
};

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

// Kernels by what they are made for; the least recently used go first. One that is in use stays,
// whatever is made meanwhile.
template <typename Key, typename Kernel>
class Kernels {
 public:
  template <typename Make>
  std::shared_ptr<const Kernel> find(const Key& key, Make make) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = made_.find(key);
    ++calls_;
    if (found != made_.end()) {
      found->second.second = calls_;
      return found->second.first;
    }
    if (made_.size() >= 256)
      made_.erase(std::min_element(made_.begin(), made_.end(), [](const auto& a, const auto& b) {
        return a.second.second < b.second.second;
      }));
    std::shared_ptr<const Kernel> kernel = make();
    made_.emplace(key, std::make_pair(kernel, calls_));
    return kernel;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::pair<std::shared_ptr<const Kernel>, uint64_t>> made_;  // and its last call
  uint64_t calls_ = 0;
};

// Called when the library is loaded, with the constants in order: `all` has them from then on.
template <typename Constant, typename Then>
int take_constants(const TVMFFIAny* args, TVMFFIAny* result,
                   std::vector<std::unique_ptr<Constant>>& all, Then then) {
  static opinfo::Constants kept;
  static std::once_flag once;  // whoever else loads the library
  return opinfo::guarded([&] {
    std::call_once(once, [&] {
      kept.load(args, result);
      for (size_t k = 0; k < kept.size(); ++k) all.push_back(std::make_unique<Constant>(kept[k]));
      then();
    });
    *result = opinfo::integer(0);
  });
}

}  // namespace
}  // namespace opinfo_regions
