
// Convolutions of stride 1 by Winograd's minimal filtering. It follows linear.hpp, threads.hpp and
// interface.hpp.
#define OPINFO_WINOGRAD

namespace opinfo_onednn {
namespace {

using opinfo_loops::Following;
using opinfo_loops::Picture;
using opinfo_loops::PictureAxis;
using opinfo_loops::Tiles;

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

class Winograd : public Work {
 public:
  Winograd(const Linear& l, const Axis& rows, const Axis& columns, const Tiles* tiles, size_t done)
      : axes_{rows, columns}, src_(l.src.from), dst_(l.dst.from), zeros_(l.src.dims[1], 0.f) {
    p_.tiles = tiles;
    p_.from = l.src.strides[0], p_.to = l.dst.strides[0];
    p_.channels = l.src.dims[1], p_.results = l.dst.dims[1];
    p_.zeros = zeros_.data();
    for (int k : {0, 1}) {
      axes_[k].divide(tiles->out[k]);
      p_.axes[k] = axes_[k].all;
      p_.axes[k].starts = axes_[k].starts.data();
      p_.axes[k].tiles = static_cast<int64_t>(axes_[k].starts.size());
    }
    p_.parts = p_.axes[0].parts * p_.axes[1].parts;
    p_.points = tiles->points[0] * tiles->points[1];
    count_ = l.src.dims[0] * p_.axes[0].tiles * p_.axes[1].tiles;
    divide();
    if (l.bias) p_.bias = constant_of(*l.bias);
    for (size_t k = 0; k < done; ++k) following_.push_back(following(l.post.items[k]));
    p_.following = following_.data();
    p_.followings = static_cast<int64_t>(done);
    OneThread one(apart_);
    multiply(l);
  }

  std::string implementation() const {
    return "winograd " + product_.steps()[0].implementation();
  }

  // Whether all sums are finite. Where one is not, another of the same tile may be wrong: a transform
  // subtracts infinities, or overflows, that a direct convolution does not add up.
  bool run(void* const* data) const override {
    const int64_t blocks = (count_ + p_.at_once - 1) / p_.at_once;
    std::atomic<bool> finite{true};
    const auto each = [&](int64_t b) { block(data, b * p_.at_once, finite); };
    if (apart_)
      in_parallel(blocks, each);
    else
      for (int64_t b = 0; b < blocks; ++b) each(b);
    return finite;
  }

 private:
  // How many tiles are transformed at a time: as many as have room in a part of the second cache,
  // but enough for a product of matrices.
  void divide() {
    const int64_t room = second_cache() / 3;
    const int64_t bytes = 4 * p_.points * (p_.parts * p_.channels + p_.results);
    const int64_t most = std::max<int64_t>(room / bytes, kFewest), threads = most_threads();
    apart_ = threads > 1 && count_ >= kFewest * threads;
    int64_t blocks = (count_ + most - 1) / most;
    if (apart_) blocks = (blocks + threads - 1) / threads * threads;
    p_.at_once = (count_ + blocks - 1) / blocks;
  }

  static const float* constant_of(const View& v) {
    return v.from < 0 ? constants()[~v.from]->elements(v) : nullptr;
  }

  Following following(const Post::Item& i) const {
    Following f{i.how, i.alpha, i.beta, -1, nullptr, false, {0, 0, 0}};
    if (!i.binary) return f;
    const auto stride = [&](int dim) {
      return dim < 0 || i.other.dims[dim] == 1 ? 0 : i.other.strides[dim];
    };
    f.from = i.other.from;
    f.constant = constant_of(i.other);
    f.by_channel = i.other.dims[1] > 1;
    f.strides[0] = stride(0);
    for (int k : {0, 1}) f.strides[1 + k] = stride(axes_[k].dim);
    return f;
  }

  // The product for each point: of tiles by channels, and channels by results.
  void multiply(const Linear& l) {
    const int64_t a[] = {p_.points, p_.at_once, p_.parts * p_.channels},
                  b[] = {p_.points, a[2], p_.results}, c[] = {p_.points, p_.at_once, p_.results};
    const View src = View::plain(a, 3, dnnl_f32, 0), dst = View::plain(c, 3, dnnl_f32, 1);
    const View weights = View::plain(b, 3, dnnl_f32, l.weights.from);
    Post post;
    post.implementations = l.post.implementations;
    append(
        product_, post, 0, dst,
        [&](const Attributes& attributes) {
          return product_of(src, weights.any(), nullptr, dst, attributes);
        },
        [&](Step& s, const Description& pd) {
          s.add(DNNL_ARG_SRC, src);
          s.fixed(DNNL_ARG_WEIGHTS, transformed(l.weights, weights, pd.weights()));
        });
  }

  // The weights at each point.
  Memory transformed(const View& given, const View& plain, const MemoryDesc& wanted) const {
    opinfo_regions::Text name;
    name << "winograd " << p_.tiles->points[0] << " " << p_.tiles->points[1] << " "
         << axes_[0].dim;
    for (int k = 0; k < given.rank; ++k) name << " " << given.dims[k] << ":" << given.strides[k];
    return constants()[~given.from]->derived(
        name.all(), plain.desc(), wanted, [&](const float* data, float* out) {
          OPINFO_RUNTIME(at_points)(p_, data, given.strides[0], given.strides[1], out);
        });
  }

  // Calls for tiles, in this thread if each thread has blocks of its own.
  void over_tiles(int64_t count, opinfo::Each each) const {
    if (!apart_) return in_parallel(count, each);
    for (int64_t k = 0; k < count; ++k) each(k);
  }

  // The tiles from the first one on, at most as many as are transformed at a time.
  void block(void* const* data, int64_t first, std::atomic<bool>& finite) const {
    const int64_t count = std::min(p_.at_once, count_ - first);
    const int64_t sizes[] = {p_.points * p_.at_once * p_.parts * p_.channels,
                             p_.points * p_.at_once * p_.results};
    float* points = reinterpret_cast<float*>(room<2>(4 * (sizes[0] + sizes[1])));
    float* products = points + sizes[0];
    over_tiles(count, [&](int64_t k) {
      OPINFO_RUNTIME(gather)(p_, static_cast<const float*>(data[src_]), first + k,
                             points + k * p_.parts * p_.channels);
    });
    void* both[kOwn + kMostOwn];
    both[0] = points, both[1] = products;
    product_(both);
    over_tiles(count, [&](int64_t k) {
      if (!OPINFO_RUNTIME(scatter)(p_, data, static_cast<float*>(data[dst_]), first + k,
                                   products + k * p_.results))
        finite = false;
    });
  }

  static constexpr int64_t kFewest = 24;
  Picture p_{};
  Axis axes_[2];
  int src_, dst_;
  int64_t count_;
  bool apart_ = false;  // each thread has blocks of its own
  std::vector<float> zeros_;
  std::vector<Following> following_;
  Kernel product_;
};

// Fewer channels make slow products of matrices, and do not fill vectors.
constexpr int64_t kFewestChannels = 16;

// The convolution in tiles of so many results along each axis; false if it has another kind.
OPINFO_CALLED bool winograd(Kernel& out, const Linear& l, int outputs) {
  const int n = l.src.rank - 2;
  if (n < 1 || n > 2 || l.weights.rank != n + 2 || l.weights.from >= 0) return false;
  for (const View* v : {&l.src, &l.weights, &l.dst})
    if (v->type != dnnl_f32) return false;
  if (l.src.strides[1] != 1 || l.dst.strides[1] != 1) return false;
  if (std::min(l.src.dims[1], l.dst.dims[1]) < kFewestChannels) return false;
  if (l.bias && (l.bias->type != dnnl_f32 || l.bias->from >= 0)) return false;
  Axis rows, columns = Axis::of(l, n - 1);
  if (n == 2) rows = Axis::of(l, 0);
  for (int k = 0; k < n; ++k)
    if (l.sizes[k] != 1) return false;
  if (columns.all.window == 1) std::swap(rows, columns);
  if (columns.all.window == 1) return false;
  const Tiles* kind = OPINFO_RUNTIME(tiles)(outputs, rows.all.window == 1);
  size_t done = 0;
  while (done < l.post.items.size() && done < opinfo_loops::kMostFollowing &&
         follows_tiles(l.post.items[done]))
    ++done;
  auto whole = std::make_shared<Winograd>(l, rows, columns, kind, done);
  const std::string name = whole->implementation();
  out.push_back(Step(name, std::move(whole)));
  append_rest(out, l.post, done, l.dst);
  return true;
}

}  // namespace
}  // namespace opinfo_onednn
