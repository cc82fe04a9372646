// What generated functions of regions share, whichever library they call: errors, checks of tensors,
// kernels that are made once for each shape, constants. It follows codegen/abi.hpp.
#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>

#define OPINFO_EXPORT(symbol) \
  OPINFO_FUNCTION(symbol) { return symbol##_.safe_call(args, count, result); }
// OPINFO_THROW(ValueError) << "what is wrong with " << it;
#define OPINFO_THROW(kind) opinfo_regions::Raise(#kind).text()

namespace opinfo_regions {
namespace {  // two models in one process share nothing

// A text in pieces: strings and numbers.
class Text {
 public:
  Text& operator<<(const std::string& more) { return add(more.c_str()); }
  Text& operator<<(const char* more) { return add(more); }
  template <typename Number, typename = std::enable_if_t<!std::is_pointer_v<Number>>>
  Text& operator<<(Number more) {
    return add(std::to_string(more).c_str());
  }
  const std::string& all() const { return all_; }

 private:
  Text& add(const char* more) {
    all_ += more;
    return *this;
  }
  std::string all_;
};

class Raise {
 public:
  explicit Raise(const char* kind) : kind_(kind) {}
  [[noreturn]] ~Raise() noexcept(false) { throw opinfo::Error(kind_, text_.all()); }
  Text& text() { return text_; }

 private:
  const char* kind_;
  Text text_;
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
    ++calls_;
    size_t oldest = 0;
    for (size_t k = 0; k < made_.size(); ++k) {
      if (made_[k].key == key) {
        made_[k].called = calls_;
        return made_[k].kernel;
      }
      if (made_[k].called < made_[oldest].called) oldest = k;
    }
    const std::shared_ptr<const Kernel> kernel = make();
    if (made_.size() < kMost)
      made_.push_back({key, kernel, calls_});
    else
      made_[oldest] = {key, kernel, calls_};
    return kernel;
  }

 private:
  static constexpr size_t kMost = 256;
  struct Made {
    Key key;
    std::shared_ptr<const Kernel> kernel;
    uint64_t called;
  };
  std::mutex mutex_;
  std::vector<Made> made_;
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
