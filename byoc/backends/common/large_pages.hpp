// Memory in pages of 2 MiB, where the system has them: with pages of 4 KiB, looking up addresses
// halves the bandwidth that one core has for data that it reads once.
#include <cstdint>
#include <cstdlib>
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace opinfo {
namespace {

constexpr size_t kLargePage = size_t{1} << 21;

// Ask for large pages, before the memory is written to.
[[maybe_unused]] void want_large_pages(void* data, size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  const auto from = (reinterpret_cast<uintptr_t>(data) + kLargePage - 1) / kLargePage * kLargePage;
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) / kLargePage * kLargePage;
  if (from < end) madvise(reinterpret_cast<void*>(from), end - from, MADV_HUGEPAGE);
#else
  (void)data, (void)bytes;
#endif
}

// The memory is not needed soon, as there is a copy: clean pages of a file can go.
[[maybe_unused]] void not_needed_soon(const void* data, size_t bytes) {
#if defined(__linux__) && defined(MADV_COLD)
  constexpr uintptr_t kPage = 4096;
  const auto from = (reinterpret_cast<uintptr_t>(data) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) / kPage * kPage;
  if (from < end) madvise(reinterpret_cast<void*>(from), end - from, MADV_COLD);
#else
  (void)data, (void)bytes;
#endif
}

}  // namespace
}  // namespace opinfo
