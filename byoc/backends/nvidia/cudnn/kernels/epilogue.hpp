// Launches the kernels of epilogue.cu. It follows driver.hpp and epilogue.h.
#include <atomic>

namespace opinfo_nvidia {
namespace {

// Matrices side by side in memory, as which a tensor is seen whose layout changes.
struct Matrices {
  int64_t count, rows, columns;
  int64_t elements() const { return count * rows * columns; }
};

class EpilogueKernels {
 public:
  // `image`: the number of the constant that is compiled from epilogue.cu.
  EpilogueKernels(int device, int image) : device_(device), image_(image) {}

  // Computes y from x; both may be the same tensor. `wide`: elements of 16 bytes, 1 if tensors are not
  // aligned to them.
  void finish(Epilogue e, int64_t wide, cudaStream_t stream) const {
    const bool whole = e.count % wide == 0 &&
                       (e.bias == nullptr || e.inside.by % wide == 0 ||
                        (e.inside.by == 1 && e.channels.by % wide == 0));
    if (!whole) wide = 1;
    launch(wide == 1 ? kElements : kParts, blocks(e.count / wide), 0, stream, e);
  }

  // Computes y from x, whose phases `e` describes; channels are the last axis of both.
  void finish_phases(Epilogue e, int64_t wide, cudaStream_t stream) const {
    if (e.channels.by % wide != 0) wide = 1;
    launch(wide == 1 ? kPhasedElements : kPhasedParts, blocks(e.count / wide), 0, stream, e);
  }

  void arrange(Arrangement a, cudaStream_t stream) const {
    launch(kArranges, blocks(a.count), 0, stream, a);
  }

  // Computes y from x, whose matrices are transposed. `phased`: those of x were computed by phases.
  void convert(Epilogue e, const Matrices& m, cudaStream_t stream, bool phased = false) const {
    e.rows = static_cast<unsigned>(m.rows), e.columns = static_cast<unsigned>(m.columns);
    const int64_t tiles = (m.rows + kTile - 1) / kTile * ((m.columns + kTile - 1) / kTile);
    launch(phased ? kPhasedConverts : kConverts, m.count * tiles,
           kTile * (kTile + 1) * sizeof(float), stream, e);
  }

  void convert(const void* x, void* y, const Matrices& m, cudaStream_t stream) const {
    Epilogue e{};
    e.x = x, e.y = y;
    convert(e, m, stream);
  }

  // Of a number below 2^31.
  static Divisor divisor(int64_t by) {
    unsigned shift = 0;
    while ((uint64_t{1} << shift) < static_cast<uint64_t>(by)) ++shift;
    const uint64_t more = (uint64_t{1} << shift) - static_cast<uint64_t>(by);
    return {static_cast<unsigned>(by), static_cast<unsigned>((more << 32) / by + 1), shift};
  }

 private:
  enum {
    kParts, kElements, kConverts, kPhasedParts, kPhasedElements, kPhasedConverts, kArranges, kKernels
  };
  static constexpr int kThreads = 128, kTile = 32;

  static int64_t blocks(int64_t threads) { return (threads + kThreads - 1) / kThreads; }

  template <typename Argument>
  void launch(int which, int64_t blocks, int bytes, cudaStream_t stream, Argument& argument) const {
    static const char* const names[] = {"epilogue_parts", "epilogue_elements", "epilogue_converts",
                                        "phased_parts", "phased_elements", "phased_converts",
                                        "arranges"};
    const Driver& driver = Driver::get();
    void* kernel = kernels_[which];
    if (kernel == nullptr)
      kernel = kernels_[which] = driver.kernel(device_, image_, names[which], bytes);
    driver.launch(kernel, blocks, kThreads, bytes, stream, &argument);
  }

  int device_, image_;
  mutable std::atomic<void*> kernels_[kKernels] = {};
};

}  // namespace
}  // namespace opinfo_nvidia
