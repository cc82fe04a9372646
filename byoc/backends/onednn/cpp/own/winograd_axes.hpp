
// What tiles of a picture are made of, and what they have that follows. It follows linear.hpp and
// interface.hpp.
namespace opinfo_onednn {
namespace {

using opinfo_loops::PictureAxis;

// Rows or columns of a picture, with the first result of each tile.
struct Axis {
  int dim = -1;  // of the tensors; -1 for an axis of one element
  PictureAxis all{1, 0, 1, 0, 1, 0, 1, 0, 1, nullptr, 0};
  std::vector<int64_t> starts;

  static Axis of(const Linear& l, int k) {
    const int n = l.src.rank - 2, d = 2 + k;
    Axis a;
    a.dim = d;
    a.all.in = l.src.dims[d], a.all.from = l.src.strides[d];
    a.all.out = l.dst.dims[d], a.all.to = l.dst.strides[d];
    a.all.window = l.weights.dims[d], a.all.taps_apart = l.weights.strides[d];
    a.all.step = l.sizes[n + k] + 1;
    a.all.pad = l.sizes[2 * n + k];
    return a;
  }
  // The results of a tile lie as far apart as the window's taps.
  void divide(int outputs) {
    all.parts = all.window > 1 ? (all.window + 2) / 3 : 1;
    for (int64_t phase = 0; phase < std::min(all.step, all.out); ++phase)
      for (int64_t at = phase; at < all.out; at += outputs * all.step) starts.push_back(at);
  }
};

// Whether tiles have an item that follows, for operands in the result's axes.
inline bool follows_tiles(const Post::Item& i) {
  switch (i.how) {
    case dnnl_eltwise_relu: case dnnl_eltwise_clip: case dnnl_eltwise_linear:
    case dnnl_eltwise_swish: case dnnl_eltwise_logistic: case dnnl_eltwise_hardswish:
    case dnnl_binary_add: case dnnl_binary_sub: case dnnl_binary_mul: case dnnl_binary_div:
    case dnnl_binary_max: case dnnl_binary_min: break;
    default: return false;
  }
  return !i.binary || (i.other.type == dnnl_f32 &&
                       (i.other.dims[1] == 1 || i.other.strides[1] == 1));
}

}  // namespace
}  // namespace opinfo_onednn
