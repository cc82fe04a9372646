// Launches the kernel of attention16.cu. It follows driver.hpp and attention16.h.
namespace opinfo_nvidia {
namespace {

class HalvesAttention {
 public:
  // How many warps may divide the keys of 16 queries.
  static constexpr int kSplits[] = {4, 2, 1};

  // cuDNN's kernel computes larger tiles: for more heads and positions than these it takes less time,
  // but of few keys such a tile is mostly empty.
  static bool is_tried(int64_t heads, int64_t queries, int64_t keys) {
    return keys <= 64 || (keys <= 512 && heads * ((queries + kRows - 1) / kRows) <= 264);
  }

  // `image`: the number of the constant that is compiled for heads of `head` elements. `a` has all but
  // addresses and `splits`; `batch`: of all heads.
  HalvesAttention(int device, int image, int64_t head, int64_t batch, const Attention16& a)
      : a_(a), heads_(batch * a.heads), bytes_(static_cast<int>((kRows * (head + 4) + 2 * kRows) * 4)),
        kernel_(Driver::get().kernel(device, image, "attention16", bytes_)) {}

  void launch(const void* q, const void* k, const void* v, const void* mask, void* o, int splits,
              cudaStream_t stream) const {
    Attention16 a = a_;
    a.q = q, a.k = k, a.v = v, a.mask = mask, a.o = o, a.splits = splits;
    const int64_t rows = kRows / splits;
    Driver::get().launch(kernel_, heads_ * ((a.queries + rows - 1) / rows), kThreads, bytes_, stream,
                         &a);
  }

 private:
  static constexpr int kThreads = 128, kRows = 64;

  Attention16 a_;
  int64_t heads_;
  int bytes_;
  void* kernel_;
};

}  // namespace
}  // namespace opinfo_nvidia
