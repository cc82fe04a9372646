// The weights of all products, in one piece of memory. It follows views.hpp and large_pages.hpp.
#include <memory>
#include <mutex>

namespace opinfo_weight_only {
namespace {

// Copies of the constants of a library; they stay where they are if they are small, or if there is no
// memory.
class PackedWeights {
 public:
  const uint8_t* operator[](size_t k) {
    std::call_once(once_, [&] { copy(); });
    return places_[k];
  }

 private:
  static constexpr size_t kSmall = 2 * opinfo::kLargePage, kLine = 64;
  struct Free {
    void operator()(uint8_t* p) const { std::free(p); }
  };

  static size_t size(const DLTensor* t) {
    size_t bytes = (t->dtype.bits * t->dtype.lanes + 7) / 8;
    for (int d = 0; d < t->ndim; ++d) bytes *= t->shape[d];
    return bytes;
  }

  void copy() {
    size_t all = 0;
    for (size_t k = 0; k < weights.size(); ++k) {
      places_.push_back(reinterpret_cast<const uint8_t*>(opinfo::data(weights[k])));
      all += (size(weights[k]) + kLine - 1) / kLine * kLine;
    }
    all = (all + opinfo::kLargePage - 1) / opinfo::kLargePage * opinfo::kLargePage;
    if (all < kSmall) return;
    memory_.reset(static_cast<uint8_t*>(std::aligned_alloc(opinfo::kLargePage, all)));
    if (!memory_) return;
    opinfo::want_large_pages(memory_.get(), all);
    uint8_t* to = memory_.get();
    for (size_t k = 0; k < weights.size(); ++k) {
      const size_t bytes = size(weights[k]);
      std::memcpy(to, places_[k], bytes);
      opinfo::not_needed_soon(places_[k], bytes);
      places_[k] = to;
      to += (bytes + kLine - 1) / kLine * kLine;
    }
  }

  std::once_flag once_;
  std::vector<const uint8_t*> places_;
  std::unique_ptr<uint8_t, Free> memory_;
};

PackedWeights packed_weights;

}  // namespace
}  // namespace opinfo_weight_only
