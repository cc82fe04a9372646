// Launches the kernels of grouped.cu. It follows epilogue.hpp and grouped.h.
namespace opinfo_nvidia {
namespace {

// How blocks divide a result: pixels of a tile, and of the part of the image that it reads.
struct GroupedTile {
  int64_t rows = 0, columns = 0, part[2] = {0, 0}, bytes = 0;
  explicit operator bool() const { return rows > 0; }
};

class GroupedKernels {
 public:
  // Kernels by the pixels that a block has at most.
  static constexpr int kSizes[] = {64, 128}, kCount = 2;

  // `image`: the number of the constant that is compiled from grouped.cu, negative if there is none.
  // `in`, `out`: channels of a group. `g` has all but tensors and what depends on the tile.
  GroupedKernels(int device, int image, int64_t in, int64_t out, const int64_t* window, int64_t images,
                 const Grouped& g)
      : device_(device), image_(image), images_(images), g_(g) {
    if (image < 0) return;
    const int64_t units = parts(in, 8), steps = parts(window[0] * window[1] * units, 4);
    fixed_ = parts(out, 8) * 8 * 4 * (steps | 1) * kUnit + steps * kUnit;
    pixel_ = (units % 8 == 0 ? units + 4 : units) * kUnit;
    for (int k = 0; k < kCount; ++k) tiles_[k] = best(kSizes[k], window);
  }

  bool applies(int which) const {
    return which >= 0 && which < kCount && static_cast<bool>(tiles_[which]);
  }
  bool applies() const { return applies(0) || applies(1); }

  void launch(int which, const Epilogue& e, const void* weights, cudaStream_t stream) const {
    static const char* const names[] = {"grouped_64", "grouped_128"};
    const GroupedTile& t = tiles_[which];
    Grouped g = g_;
    g.epilogue = e, g.weights = weights;
    const int64_t sizes[] = {t.rows, t.columns};
    for (int k = 0; k < 2; ++k) {
      g.tile[k] = static_cast<int>(sizes[k]);
      g.tiles[k] = static_cast<int>(parts(g.result[k], sizes[k]));
      g.part[k] = static_cast<int>(t.part[k]);
    }
    const Driver& driver = Driver::get();
    void* kernel = kernels_[which];
    if (kernel == nullptr)
      kernel = kernels_[which] = driver.kernel(device_, image_, names[which], kMost);
    driver.launch(kernel, images_ * g.tiles[0] * g.tiles[1] * g.groups, 128, static_cast<int>(t.bytes),
                  stream, &g);
  }

 private:
  static constexpr int64_t kUnit = 16;
  static constexpr int kMost = 96 << 10;  // bytes of shared memory, of which all devices have as many

  static int64_t parts(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

  // The tile with the fewest blocks, of these the one that reads the fewest pixels; none if no part of the
  // image fits.
  GroupedTile best(int most, const int64_t* window) const {
    GroupedTile out;
    int64_t fewest = 0, least = 0;
    for (int64_t columns = 1; columns <= std::min<int64_t>(most, g_.result[1]); ++columns) {
      const int64_t rows = std::min<int64_t>(most / columns, g_.result[0]);
      const int64_t down = read(rows, window[0], 0), across = read(columns, window[1], 1);
      const int64_t bytes = fixed_ + down * across * pixel_;
      const int64_t blocks = parts(g_.result[0], rows) * parts(g_.result[1], columns);
      if (bytes > kMost || (out && std::pair(blocks, down * across) >= std::pair(fewest, least)))
        continue;
      out = {rows, columns, {down, across}, bytes};
      fewest = blocks, least = down * across;
    }
    return out;
  }

  // Pixels of the image along an axis that so many of the result read.
  int64_t read(int64_t pixels, int64_t window, int axis) const {
    return (pixels - 1) * g_.strides[axis] + (window - 1) * g_.dilation[axis] + 1;
  }

  int device_, image_;
  int64_t images_, fixed_ = 0, pixel_ = 0;
  Grouped g_;
  GroupedTile tiles_[kCount];
  mutable std::atomic<void*> kernels_[kCount] = {};
};

}  // namespace
}  // namespace opinfo_nvidia
