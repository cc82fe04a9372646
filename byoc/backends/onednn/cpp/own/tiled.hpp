
// Products of many rows with constant weights, in tiles of our own. It follows streamed.hpp.
#define OPINFO_TILED

namespace opinfo_onednn {
namespace {

using opinfo_loops::kBlockRows;
using opinfo_loops::kTileColumns;
using opinfo_loops::Strips;

class Tiled : public Work {
 public:
  explicit Tiled(const Linear& l)
      : src_(l.src), dst_(l.dst), whole_(whole(l)), bias_(whole_.panels() * kTileColumns),
        packed_(packed_panels(l, kTileColumns)) {
    const float* bias = l.bias ? constants()[~l.bias->from]->elements(*l.bias) : nullptr;
    if (bias) std::copy(bias, bias + whole_.columns, bias_.begin());
  }

  bool run(void* const* data) const override {
    Strips s = whole_;
    s.weights = static_cast<const float*>(packed_.data()), s.bias = bias_.data();
    const int64_t rows = whole_.rows, blocks = (rows + kBlockRows - 1) / kBlockRows;
    s.packed = reinterpret_cast<float*>(room<2>(4 * std::min(rows, kBlockRows) * s.depth));
    for (int64_t k = 0; k < blocks; ++k) {
      const int64_t first = rows * k / blocks;
      s.rows = rows * (k + 1) / blocks - first;
      s.src = {static_cast<const float*>(data[src_.from]) + first * src_.strides[0],
               src_.strides[0], src_.strides[1]};
      s.out = static_cast<float*>(data[dst_.from]) + first * s.out_row;
      in_parallel(s.strips(), [&](int64_t strip) { OPINFO_RUNTIME(pack_strip)(s, strip); });
      // Each part reads all strips, so there are few of them. Results do not depend on the number.
      const int64_t threads = most_threads(), panels = s.panels();
      const int64_t parts = std::min(panels, threads > 1 ? kParts * threads : 1);
      in_parallel(parts, [&](int64_t part) {
        OPINFO_RUNTIME(multiply_strips)(s, panels * part / parts, panels * (part + 1) / parts);
      });
    }
    return true;
  }

 private:
  static constexpr int64_t kParts = 4;  // of a thread

  static Strips whole(const Linear& l) {
    Strips s{};
    s.rows = l.dst.dims[0], s.depth = l.weights.dims[0], s.columns = l.weights.dims[1];
    s.out_row = l.dst.strides[0];
    return s;
  }

  View src_, dst_;
  Strips whole_;
  std::vector<float> bias_;
  Memory packed_;
};

// False if there are few rows, or a matrix is not plain. What follows is a primitive of its own. The
// library's products are faster with AVX-512, and tiles need the registers of AVX2.
inline bool tiled(Kernel& out, const Linear& l) {
  if (opinfo_loops::kLanes != 8 || !has_fixed_floats(l)) return false;
  if (l.dst.dims[0] <= kMostRows || l.dst.dims[1] < kTileColumns) return false;
  if (listing()) listing()->push_back("tiled:own");
  out.push_back(Step("tiled:own", std::make_shared<Tiled>(l)));
  append_rest(out, l.post, 0, l.dst);
  return true;
}

}  // namespace
}  // namespace opinfo_onednn
