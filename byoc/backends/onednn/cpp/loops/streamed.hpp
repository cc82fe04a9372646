
// Products of few rows with constant weights, each of which is read once: as fast as memory is. It
// follows linear.hpp, threads.hpp, large_pages.hpp and vectors.hpp.
#define OPINFO_STREAMED

namespace opinfo_onednn {
namespace {

constexpr int kMostRows = 4;

class Streamed {
 public:
  // Bytes of weights that are requested before they are used, into the second cache.
  static constexpr int64_t kAhead = 12288;
  static constexpr int kVectors = 4;
  static constexpr int64_t kWide = kVectors * kLanes;
  // Values that are summed up before their sum is added to the others, for accuracy.
  static constexpr int64_t kPart = 512;

  explicit Streamed(const Linear& l)
      : src_(l.src), dst_(l.dst), rows_(l.dst.dims[0]), depth_(l.weights.dims[0]),
        columns_(l.weights.dims[1]), panels_((columns_ + kWide - 1) / kWide) {
    std::ostringstream name;
    name << "streamed " << depth_ << ":" << l.weights.strides[0] << " " << columns_ << ":"
         << l.weights.strides[1];
    const int64_t size[] = {panels_ * depth_ * kWide};
    const memory::desc plain = View::plain(size, 1, Type::f32, 0).desc();
    const int64_t row = l.weights.strides[0], column = l.weights.strides[1];
    packed_ = constants()[~l.weights.from]->derived(
        name.str(), plain, plain, [&](const float* data, float* out) {
          opinfo::want_large_pages(out, 4 * size[0]);
          for (int64_t j = 0; j < panels_ * kWide; ++j) {
            float* to = out + j / kWide * depth_ * kWide + j % kWide;
            for (int64_t k = 0; k < depth_; ++k, to += kWide)
              *to = j < columns_ ? data[k * row + j * column] : 0;
          }
        });
    if (l.bias)
      bias_ = static_cast<const float*>(
          constants()[~l.bias->from]->as(l.bias->desc(), l.bias->desc()).get_data_handle());
  }

  bool operator()(void* const* data) const {
    in_parallel(panels_, [&](int64_t panel) {
      switch (rows_) {
        case 1: return multiply<1>(data, panel);
        case 2: return multiply<2>(data, panel);
        case 3: return multiply<3>(data, panel);
        default: return multiply<kMostRows>(data, panel);
      }
    });
    return true;
  }

 private:
  template <int rows>
  void multiply(void* const* data, int64_t panel) const {
    const float* weights =
        static_cast<const float*>(packed_.get_data_handle()) + panel * depth_ * kWide;
    const float* x = static_cast<const float*>(data[src_.from]);
    const int64_t step = src_.strides[0];
    Lanes total[rows * kVectors];
    times<rows * kVectors>([&](auto k) OPINFO_ALWAYS { total[k] = all_of(0); });
    for (int64_t first = 0; first < depth_; first += kPart) {
      Lanes sums[rows * kVectors];
      times<rows * kVectors>([&](auto k) OPINFO_ALWAYS { sums[k] = all_of(0); });
      for (int64_t d = first; d < std::min(first + kPart, depth_); ++d, weights += kWide) {
        for (int64_t line = 0; line < kWide; line += 16)
          __builtin_prefetch(weights + kAhead / 4 + line, 0, 2);
        times<rows>([&](auto i) OPINFO_ALWAYS {
          const Lanes left = all_of(x[i * step + d]);
          times<kVectors>([&](auto j) OPINFO_ALWAYS {
            sums[i * kVectors + j] += left * load(weights + j * kLanes);
          });
        });
      }
      times<rows * kVectors>([&](auto k) OPINFO_ALWAYS { total[k] += sums[k]; });
    }
    const int64_t at = panel * kWide, count = std::min(kWide, columns_ - at);
    for (int64_t i = 0; i < rows; ++i) {
      float out[kWide];
      times<kVectors>([&](auto j) OPINFO_ALWAYS {
        store(out + j * kLanes, total[i * kVectors + j]);
      });
      for (int64_t j = 0; bias_ && j < count; ++j) out[j] += bias_[at + j];
      std::memcpy(static_cast<float*>(data[dst_.from]) + i * dst_.strides[0] + at, out, 4 * count);
    }
  }

  View src_, dst_;
  const float* bias_ = nullptr;
  int64_t rows_, depth_, columns_, panels_;
  memory packed_;
};

// False if there are many rows, or a matrix is not plain. What follows is a primitive of its own.
inline bool streamed(Kernel& out, const Linear& l) {
  if (l.dst.rank != 2 || l.weights.rank != 2 || l.weights.from >= 0) return false;
  for (const View* v : {&l.src, &l.weights, &l.dst})
    if (v->type != Type::f32) return false;
  if (l.dst.dims[0] < 1 || l.dst.dims[0] > kMostRows || l.dst.dims[1] < Streamed::kWide)
    return false;
  if (l.src.strides[1] != 1 || l.dst.strides[1] != 1) return false;
  if (l.bias && (l.bias->type != Type::f32 || l.bias->from >= 0 ||
                 l.bias->flat().dims[0] != l.dst.dims[1]))
    return false;
  if (listing()) listing()->push_back("streamed:own");
  auto whole = std::make_shared<Streamed>(l);
  out.push_back(Step("streamed:own", [whole](void* const* data) { return (*whole)(data); }));
  append_rest(out, l.post, 0, l.dst);
  return true;
}

}  // namespace
}  // namespace opinfo_onednn
