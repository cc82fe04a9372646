
// Convolutions of stride 1 by Winograd's minimal filtering. It follows threads.hpp and
// winograd_axes.hpp.
#define OPINFO_WINOGRAD

namespace opinfo_onednn {
namespace {

using opinfo_loops::Following;
using opinfo_loops::Picture;
using opinfo_loops::Tiles;

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
    return std::string("winograd ") + (panels_.empty() ? product_.steps()[0].implementation() : kOwnTiles);
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

  // The product for each point: of tiles by channels, and channels by results. It is a primitive or,
  // where this is asked for, a loop of our own.
  void multiply(const Linear& l) {
    const std::vector<std::string>& named = l.post.implementations;
    const bool own = std::find(named.begin(), named.end(), kOwnTiles) != named.end();
    p_.row = own ? opinfo_loops::whole_vectors(p_.results) : p_.results;
    if (own) {
      panels_.push_back(in_panels(l.weights));
      return;
    }
    if (listing()) listing()->push_back(kOwnTiles);
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
    return constants()[~given.from]->derived(
        name_of(given), plain.desc(), wanted, [&](const float* data, float* out) {
          OPINFO_RUNTIME(at_points)(p_, data, given.strides[0], given.strides[1], out);
        });
  }

  // The weights at each point, in panels.
  Memory in_panels(const View& given) const {
    const int64_t depth = p_.parts * p_.channels, columns = p_.results;
    const int64_t size[] = {p_.points * point_of_panels()};
    const MemoryDesc plain = View::plain(size, 1, dnnl_f32, 0).desc();
    return constants()[~given.from]->derived(
        kOwnTiles + name_of(given), plain, plain, [&](const float* data, float* out) {
          std::vector<float> all(p_.points * depth * columns);
          OPINFO_RUNTIME(at_points)(p_, data, given.strides[0], given.strides[1], all.data());
          for (int64_t k = 0; k < p_.points; ++k)
            OPINFO_RUNTIME(pack_panels)(all.data() + k * depth * columns, columns, 1, depth,
                                        columns, opinfo_loops::kPanel,
                                        out + k * point_of_panels());
        });
  }

  // The elements of the panels of a point.
  int64_t point_of_panels() const {
    const int64_t panels = (p_.results + opinfo_loops::kPanel - 1) / opinfo_loops::kPanel;
    return panels * opinfo_loops::kPanel * p_.parts * p_.channels;
  }

  // What the weights at the points depend on.
  std::string name_of(const View& given) const {
    opinfo_regions::Text name;
    name << "winograd " << p_.tiles->points[0] << " " << p_.tiles->points[1] << " "
         << axes_[0].dim;
    for (int k = 0; k < given.rank; ++k) name << " " << given.dims[k] << ":" << given.strides[k];
    return name.all();
  }

  // Calls for tiles or points, in this thread if each thread has blocks of its own.
  void each_of(int64_t count, opinfo::Each each) const {
    if (!apart_) return in_parallel(count, each);
    for (int64_t k = 0; k < count; ++k) each(k);
  }

  // The tiles from the first one on, at most as many as are transformed at a time.
  void block(void* const* data, int64_t first, std::atomic<bool>& finite) const {
    const int64_t count = std::min(p_.at_once, count_ - first);
    const int64_t sizes[] = {p_.points * p_.at_once * p_.parts * p_.channels,
                             p_.points * p_.at_once * p_.row};
    float* points = reinterpret_cast<float*>(room<2>(4 * (sizes[0] + sizes[1])));
    float* products = points + sizes[0];
    each_of(count, [&](int64_t k) {
      OPINFO_RUNTIME(gather)(p_, static_cast<const float*>(data[src_]), first + k,
                             points + k * p_.parts * p_.channels);
    });
    if (!panels_.empty()) {
      const float* panels = static_cast<const float*>(panels_[0].data());
      each_of(p_.points, [&](int64_t k) {
        OPINFO_RUNTIME(multiply_point)(p_, points + k * p_.at_once * p_.parts * p_.channels, count,
                                       panels + k * point_of_panels(),
                                       products + k * p_.at_once * p_.row);
      });
    } else {
      void* both[kOwn + kMostOwn];
      both[0] = points, both[1] = products;
      product_(both);
    }
    each_of(count, [&](int64_t k) {
      if (!OPINFO_RUNTIME(scatter)(p_, data, static_cast<float*>(data[dst_]), first + k,
                                   products + k * p_.row))
        finite = false;
    });
  }

  static constexpr int64_t kFewest = 24;
  static constexpr char kOwnTiles[] = "tiles:own";
  Picture p_{};
  Axis axes_[2];
  int src_, dst_;
  int64_t count_;
  bool apart_ = false;  // each thread has blocks of its own
  std::vector<float> zeros_;
  std::vector<Following> following_;
  std::vector<Memory> panels_;  // of weights, one if products are loops of our own
  Kernel product_;              // else
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
