// Constants in large pages: with pages of 4 KiB, finding them takes a third of the time of reading
// packed weights. It follows abi.hpp and views.hpp.
#include <sys/mman.h>

namespace opinfo_weight_only {
namespace {

// Where constants are read: copied together at the first call, or else where they were loaded.
class Resident {
 public:
  const uint8_t* operator()(const opinfo::Constants& all, size_t k) {
    std::call_once(once_, [&] { copy(all); });
    return places_.at(k);
  }

 private:
  static constexpr size_t kPage = size_t{2} << 20, kAligned = 64;

  static size_t bytes(const DLTensor* t) {
    size_t out = t->dtype.bits / 8;
    for (int k = 0; k < t->ndim; ++k) out *= t->shape[k];
    return out;
  }

  void copy(const opinfo::Constants& all) {
    size_t total = kPage;
    for (size_t k = 0; k < all.size(); ++k) total += (bytes(all[k]) + kAligned - 1) & ~(kAligned - 1);
    uint8_t* to = nullptr;
#ifdef MADV_HUGEPAGE
    void* room = total < 2 * kPage ? MAP_FAILED
                                   : mmap(nullptr, total, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room != MAP_FAILED) {
      madvise(room, total, MADV_HUGEPAGE);
      to = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(room) + kPage - 1) & ~(kPage - 1));
    }
#endif
    for (size_t k = 0; k < all.size(); ++k) {
      const auto* from = reinterpret_cast<const uint8_t*>(opinfo::data(all[k]));
      places_.push_back(to == nullptr ? from : to);
      if (to == nullptr) continue;
      std::memcpy(to, from, bytes(all[k]));
      to += (bytes(all[k]) + kAligned - 1) & ~(kAligned - 1);
    }
  }

  std::once_flag once_;
  std::vector<const uint8_t*> places_;
};

}  // namespace
}  // namespace opinfo_weight_only
