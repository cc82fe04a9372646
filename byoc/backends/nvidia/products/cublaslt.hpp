// cuBLASLt: one matmul with its epilogue. It follows cublaslt_algorithms.hpp.
namespace opinfo_nvidia {
namespace {

class Matmul : public Kernel {
 public:
  Matmul(const Context& c, const Gemm& g)
      : g_(g), device_(c.device), sizes_(sizes(c, g)),
        algorithm_(Algorithms::all().of(c, g_, sizes_)),
        product_(g_, sizes_, c.device, addresses(g_, c.data)) {
    if (!algorithm_.pieces) return;
    in_place_ = product_.named(c.name, c.alignment, 1)[0];
    try {
      pieces_.emplace(c, g_, sizes_);
    } catch (const std::exception&) {  // too little memory
      cudaGetLastError();
      algorithm_ = in_place_;
    }
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    const Addresses at = addresses(g_, data);
    if (pieces_ && at.residual != at.d) {
      void* room = workspace(device_, stream, pieces_->bytes(algorithm_));
      check(pieces_->run(at, stream, algorithm_, room), "cublasLtMatmul of pieces");
      return;
    }
    const Algorithm& by = pieces_ ? in_place_ : algorithm_;
    check(product_.run(at, stream, by, workspace(device_, stream, by.bytes)), "cublasLtMatmul");
  }

 private:
  static Sizes sizes(const Context& c, const Gemm& g) {
    const int64_t cols = g.d.last(1), sum = g.turned_a ? g.a.last(2) : g.a.last(1);
    const int64_t rows = g.merge ? g.d.count() / cols : g.a.last(g.turned_a ? 1 : 2);
    const Sizes out{rows, cols, sum, g.d.count() / (rows * cols), g.merge ? 0 : step(g.a),
                    step(g.b)};
    agree(c, g, out);
    return out;
  }

  static int64_t step(const Operand& t) {
    const int64_t one = t.last(1) * t.last(2);
    return t.count() == one ? 0 : one;
  }

  // The numbers of elements fit each other: extents known at run time may not.
  static void agree(const Context& c, const Gemm& g, const Sizes& s) {
    const int64_t one_a = s.sum * s.rows, one_b = s.sum * s.cols;
    const bool fits = one_a * s.batch > 0 &&
                      (g.a.count() == one_a * s.batch || g.a.count() == one_a) &&
                      (g.b.count() == one_b * s.batch || g.b.count() == one_b) &&
                      g.b.last(g.turned_b ? 2 : 1) == s.cols &&
                      (!g.bias || g.bias.count() == s.cols) &&
                      (!g.scales[0] || g.scales[0].count() == 1) &&
                      (!g.scales[1] || g.scales[1].count() == 1) &&
                      (!g.residual || g.residual.count() == g.d.count());
    if (!fits)
      OPINFO_THROW(ValueError) << c.name << ": the extents of the operands do not fit each other";
    if (c.alignment < g.least())
      OPINFO_THROW(ValueError) << c.name << ": addresses are multiples of " << c.alignment
                               << " bytes, expected " << g.least();
  }

  Gemm g_;
  int device_;
  Sizes sizes_;
  Algorithm algorithm_;  // which may turn the weights, and so changes `g_`
  Product product_;
  std::optional<PieceProduct> pieces_;
  Algorithm in_place_;  // adds a residual that is the result, where there are pieces
};

OPINFO_UNUSED std::unique_ptr<Kernel> matmul(const Context& c, const Gemm& g) {
  if (c.data == nullptr) return nullptr;
  return std::make_unique<Matmul>(c, g);
}

}  // namespace
}  // namespace opinfo_nvidia

using namespace opinfo_nvidia;
