// A product of float32 with constant weights as one of bfloat16, six times as deep, whose operands are the
// pieces that pieces.cu cuts. It follows cublaslt_product.hpp, driver.hpp and pieces.h.
namespace opinfo_nvidia {
namespace {

// The pieces of constant weights on a device; kernels of a region share them.
class PiecesOfWeights {
 public:
  using Shared = std::shared_ptr<const opinfo_graphs::Memory>;

  // During a capture, they are cut on a stream beside it.
  template <typename Cut>
  static Shared of(int device, const void* weights, size_t bytes, Cut cut) {
    static auto& all =  // not freed: see constants
        *new std::map<std::pair<int, const void*>, std::weak_ptr<const opinfo_graphs::Memory>>;
    static std::mutex mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    auto& known = all[{device, weights}];
    Shared out = known.lock();
    if (out != nullptr) return out;
    const Capture capture(stream_of(device));
    const auto made = std::make_shared<opinfo_graphs::Memory>(bytes);
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    cut(made->data(), stream);
    const cudaError_t status = cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    check(status, "pieces of weights");
    known = made;
    return made;
  }
};

class PieceProduct {
 public:
  // Whether there are pieces for it. `waits`: of a request, for which nothing is timed.
  static bool applies(const Context& c, const Gemm& g, const Sizes& s) {
    return g.pieces >= 0 && !c.waits && !g.turned_a && s.batch == 1 && s.sum % 4 == 0 &&
           c.alignment % 16 == 0 && kPlaces * kBytes * s.rows * s.sum <= kRoom &&
           has_tensor_cores(c.device) && from_environment("OPINFO_CUBLASLT_PIECES", 1.0) != 0;
  }

  PieceProduct(const Context& c, const Gemm& g, const Sizes& s)
      : device_(c.device), g_(g), s_(s), product_(of_pieces(g), deep(s), c.device, addresses(g, c.data)) {
    for (int k = 0; k < kKernels; ++k)
      kernels_[k] = Driver::get().kernel(device_, g.pieces, kNames[k], kShared);
    const auto cut = [&](char* to, cudaStream_t stream) {
      Cuts cuts{static_cast<const float*>(g.b.in(nullptr)), reinterpret_cast<unsigned short*>(to),
                reinterpret_cast<float*>(to + kPlaces * kBytes * s.cols * s.sum), depth(),
                column(), step()};
      launch(kColumns, s.cols, stream, cuts);
    };
    const size_t bytes = (kPlaces * kBytes * s.sum + sizeof(float)) * s.cols;
    weights_ = PiecesOfWeights::of(device_, g.b.fixed, bytes, cut);
  }

  const Product& product() const { return product_; }

  // Bytes of the workspace with all that is between its kernels.
  size_t bytes(const Algorithm& by) const { return opinfo_graphs::aligned(by.bytes) + cuts() + rows(); }

  // Threads may call it at once. The result must not be the residual, which rows are repaired with.
  cublasStatus_t run(const Addresses& at, cudaStream_t stream, const Algorithm& by, void* room) const {
    char* const begin = static_cast<char*>(room) + opinfo_graphs::aligned(by.bytes);
    const auto* a = static_cast<const float*>(at.a);
    auto* largest = reinterpret_cast<float*>(begin + cuts());
    Cuts cuts{a, reinterpret_cast<unsigned short*>(begin), largest, depth(), s_.sum, 1};
    launch(kRows, s_.rows, stream, cuts);
    Addresses pieces = at;
    pieces.a = begin, pieces.b = weights_->data();
    const cublasStatus_t status = product_.run(pieces, stream, by, room);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    Repair repair{a, static_cast<const float*>(at.b), static_cast<const float*>(at.bias),
                  static_cast<const float*>(at.residual), static_cast<float*>(at.d), largest, kLeast,
                  g_.most, static_cast<unsigned>(s_.rows), static_cast<unsigned>(s_.cols), depth(),
                  column(), step(), g_.alpha, after(g_.epilogue)};
    launch(kRepairs, parts(s_.rows, kEachRows) * parts(s_.cols, kEachColumns), stream, repair);
    return status;
  }

 private:
  enum { kRows, kColumns, kRepairs, kKernels };
  static constexpr const char* kNames[] = {"cut_rows", "cut_columns", "repair_rows"};
  // Pieces side by side, bytes of one, bytes of shared memory, and what a block of repair_rows has.
  static constexpr int64_t kPlaces = 6, kBytes = 2, kEachRows = 32, kEachColumns = 512;
  static constexpr int kShared = 16;
  // Bytes of the pieces of the first operand at most.
  static constexpr int64_t kRoom = int64_t{256} << 20;
  // LEAST of piece_limits.py.
  static constexpr float kLeast = 0x1p-100f;

  // The oldest ones whose sums were measured.
  static bool has_tensor_cores(int device) {
    static std::mutex mutex;
    static std::map<int, bool> all;
    std::lock_guard<std::mutex> lock(mutex);
    const auto known = all.find(device);
    if (known != all.end()) return known->second;
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    return all[device] = properties.major >= 9;
  }

  static Gemm of_pieces(Gemm g) {
    g.type = CUDA_R_16BF;
    g.turned_b = true;  // a column's pieces are side by side
    return g;
  }

  static Sizes deep(Sizes s) {
    s.sum *= kPlaces;
    s.step_a = s.step_b = 0;
    return s;
  }

  static int after(cublasLtEpilogue_t epilogue) {
    switch (epilogue) {
      case CUBLASLT_EPILOGUE_RELU:
      case CUBLASLT_EPILOGUE_RELU_BIAS:
        return kReluAfter;
      case CUBLASLT_EPILOGUE_GELU:
      case CUBLASLT_EPILOGUE_GELU_BIAS:
        return kGeluAfter;
      default:
        return kNothing;
    }
  }

  static int64_t parts(int64_t whole, int64_t part) { return (whole + part - 1) / part; }
  unsigned depth() const { return static_cast<unsigned>(s_.sum); }
  int64_t column() const { return g_.turned_b ? s_.sum : 1; }
  int64_t step() const { return g_.turned_b ? 1 : s_.cols; }
  size_t cuts() const { return opinfo_graphs::aligned(kPlaces * kBytes * s_.rows * s_.sum); }
  size_t rows() const { return opinfo_graphs::aligned(sizeof(float) * s_.rows); }

  template <typename Argument>
  void launch(int which, int64_t blocks, cudaStream_t stream, Argument& argument) const {
    Driver::get().launch(kernels_[which], blocks, 128, kShared, stream, &argument);
  }

  int device_;
  Gemm g_;
  Sizes s_;
  Product product_;
  void* kernels_[kKernels] = {};
  PiecesOfWeights::Shared weights_;
};

}  // namespace
}  // namespace opinfo_nvidia
