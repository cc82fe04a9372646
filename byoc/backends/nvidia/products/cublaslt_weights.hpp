// In which order constant weights lie in a device's memory: kernels for the other order may be faster, and
// a second copy would take as much memory again. It follows cublaslt_product.hpp.
namespace opinfo_nvidia {
namespace {

class Weights {
 public:
  // The first kernel of a region decides; others take the order that there is.
  enum Order { kUndecided, kGiven, kTurned };

  // Whether weights are one constant matrix of floats. Each constant belongs to one region.
  static bool may_turn(const Gemm& g, const Sizes& s) {
    return g.b.from < 0 && g.b.count() == s.sum * s.cols && !g.integers() &&
           g.type != CUDA_R_8F_E4M3;
  }

  // The caller holds a lock.
  static Order& order(int device, const Gemm& g) {
    static auto& all = *new std::map<std::pair<int, const void*>, Order>;  // not freed: see constants
    return all[{device, g.b.fixed}];
  }

  // Gives them the other order, in place. No kernel that reads them exists yet.
  static void turn(const Gemm& g, const Sizes& s) {
    const int64_t rows = g.turned_b ? s.cols : s.sum, columns = g.turned_b ? s.sum : s.cols;
    if (g.type == CUDA_R_32F)
      turn<uint32_t>(g.b.in(nullptr), rows, columns);
    else
      turn<uint16_t>(g.b.in(nullptr), rows, columns);
  }

 private:
  template <typename Bits>
  static void turn(void* matrix, int64_t rows, int64_t columns) {
    constexpr int64_t kTile = 64;
    std::vector<Bits> from(static_cast<size_t>(rows * columns)), to(from.size());
    const size_t bytes = from.size() * sizeof(Bits);
    check(cudaMemcpy(from.data(), matrix, bytes, cudaMemcpyDefault), "copy of weights");
    for (int64_t i = 0; i < rows; i += kTile)
      for (int64_t j = 0; j < columns; j += kTile)
        for (int64_t column = j; column < std::min(j + kTile, columns); ++column)
          for (int64_t row = i; row < std::min(i + kTile, rows); ++row)
            to[column * rows + row] = from[row * columns + column];
    check(cudaMemcpy(matrix, to.data(), bytes, cudaMemcpyDefault), "copy of weights");
  }
};

}  // namespace
}  // namespace opinfo_nvidia
