
// Convolutions of stride 1 by Winograd's minimal filtering. It follows linear.hpp, threads.hpp and
// winograd_tiles.hpp.
#define OPINFO_WINOGRAD

namespace opinfo_onednn {
namespace {

// Rows or columns of a picture, with the first result of each tile. A window of more than three
// taps is a sum of windows of three, whose inputs are like further channels.
struct Axis {
  int dim = -1;  // of the tensors; -1 for an axis of one element
  int64_t in = 1, out = 1, from = 0, to = 0, window = 1, step = 1, pad = 0, parts = 1;
  std::vector<int64_t> starts;

  static Axis of(const Linear& l, int k) {
    const int n = l.src.rank - 2, d = 2 + k;
    Axis a;
    a.dim = d;
    a.in = l.src.dims[d], a.from = l.src.strides[d];
    a.out = l.dst.dims[d], a.to = l.dst.strides[d];
    a.window = l.weights.dims[d];
    a.step = l.sizes[n + k] + 1;
    a.pad = l.sizes[2 * n + k];
    return a;
  }
  // The results of a tile lie as far apart as the window's taps.
  void divide(int outputs) {
    parts = window > 1 ? (window + 2) / 3 : 1;
    for (int64_t phase = 0; phase < std::min(step, out); ++phase)
      for (int64_t at = phase; at < out; at += outputs * step) starts.push_back(at);
  }
};

class Winograd {
 public:
  Winograd(const Linear& l, const Axis& rows, const Axis& columns, const Tiles& tiles, size_t done)
      : tiles_(tiles), axes_{rows, columns}, src_(l.src), dst_(l.dst),
        channels_(l.src.dims[1]), results_(l.dst.dims[1]), zeros_(channels_, 0.f) {
    for (int k : {0, 1}) axes_[k].divide(tiles.out[k]);
    parts_ = axes_[0].parts * axes_[1].parts;
    points_ = tiles.points[0] * tiles.points[1];
    count_ = src_.dims[0] * static_cast<int64_t>(axes_[0].starts.size() * axes_[1].starts.size());
    divide();
    if (l.bias) bias_ = constant_of(*l.bias);
    for (size_t k = 0; k < done; ++k) following_.push_back(following(l.post.items[k]));
    OneThread one(apart_);
    multiply(l);
  }

  std::string implementation() const {
    return "winograd " + product_.steps()[0].implementation();
  }

  // Whether all sums are finite. Where one is not, another of the same tile may be wrong: a transform
  // subtracts infinities, or overflows, that a direct convolution does not add up.
  bool operator()(void* const* data) const {
    const int64_t blocks = (count_ + tile_ - 1) / tile_;
    std::atomic<bool> finite{true};
    if (apart_)
      in_parallel(blocks, [&](int64_t b) { block(data, b * tile_, finite, [](int64_t count, auto each) {
        for (int64_t k = 0; k < count; ++k) each(k);
      }); });
    else
      for (int64_t b = 0; b < blocks; ++b)
        block(data, b * tile_, finite,
              [](int64_t count, auto each) { in_parallel(count, each); });
    return finite;
  }

 private:
  // How many tiles are transformed at a time: as many as have room in a part of the second cache,
  // but enough for a product of matrices.
  void divide() {
    const int64_t room = second_cache() / 3;
    const int64_t bytes = 4 * points_ * (parts_ * channels_ + results_);
    const int64_t most = std::max<int64_t>(room / bytes, kFewest), threads = most_threads();
    apart_ = threads > 1 && count_ >= kFewest * threads;
    int64_t blocks = (count_ + most - 1) / most;
    if (apart_) blocks = (blocks + threads - 1) / threads * threads;
    tile_ = (count_ + blocks - 1) / blocks;
  }

  static const float* constant_of(const View& v) {
    return v.from < 0 ? static_cast<const float*>(
                            constants()[~v.from]->as(v.desc(), v.desc()).get_data_handle())
                      : nullptr;
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
    const int64_t a[] = {points_, tile_, parts_ * channels_}, b[] = {points_, a[2], results_},
                  c[] = {points_, tile_, results_};
    const View src = View::plain(a, 3, Type::f32, 0), dst = View::plain(c, 3, Type::f32, 1);
    const View weights = View::plain(b, 3, Type::f32, l.weights.from);
    Post post;
    post.implementations = l.post.implementations;
    using Desc = dnnl::matmul::primitive_desc;
    append(
        product_, post, 0, dst,
        [&](const dnnl::primitive_attr& attr) {
          return Desc(cpu(), src.desc(), weights.any(), dst.desc(), attr);
        },
        [&](Step& s, const Description& pd) {
          s.add(DNNL_ARG_SRC, src);
          s.fixed(DNNL_ARG_WEIGHTS, transformed(l.weights, weights, pd.weights_desc(0)));
        });
  }

  // The weights at each point, computed in float64.
  memory transformed(const View& given, const View& plain, const memory::desc& wanted) const {
    std::ostringstream name;
    name << "winograd " << tiles_.points[0] << " " << tiles_.points[1] << " " << axes_[0].dim;
    for (int k = 0; k < given.rank; ++k) name << " " << given.dims[k] << ":" << given.strides[k];
    const auto compute = [&](const float* data, float* out) {
      const int64_t plane = plain.strides[0];
      for (int64_t part = 0; part < parts_; ++part)
        for (int64_t c = 0; c < channels_; ++c)
          for (int64_t k = 0; k < results_; ++k) {
            float* to = out + (part * channels_ + c) * results_ + k;
            at_points(given, data + k * given.strides[0] + c * given.strides[1], part,
                      [&](int p, double v) { to[p * plane] = static_cast<float>(v); });
          }
    };
    return constants()[~given.from]->derived(name.str(), plain.desc(), wanted, compute);
  }

  template <typename Store>
  void at_points(const View& given, const float* window, int64_t part, Store store) const {
    const int *points = tiles_.points, *taps = tiles_.taps;
    const auto tap = [&](int axis, int64_t k) {
      const Axis& a = axes_[axis];
      const int64_t at = k + 3 * (axis == 0 ? part / axes_[1].parts : part % axes_[1].parts);
      return at < a.window ? at * (a.dim < 0 ? 0 : given.strides[a.dim]) : -1;
    };
    double half[6][3];
    for (int p = 0; p < points[0]; ++p)
      for (int j = 0; j < taps[1]; ++j) {
        half[p][j] = 0;
        for (int i = 0; i < taps[0]; ++i) {
          const int64_t y = tap(0, i), x = tap(1, j);
          if (y >= 0 && x >= 0) half[p][j] += tiles_.weights[0][p * taps[0] + i] * window[y + x];
        }
      }
    for (int p = 0; p < points[0]; ++p)
      for (int q = 0; q < points[1]; ++q) {
        double sum = 0;
        for (int j = 0; j < taps[1]; ++j) sum += half[p][j] * tiles_.weights[1][q * taps[1] + j];
        store(p * points[1] + q, sum);
      }
  }

  // The tiles from the first one on, at most as many as are transformed at a time.
  template <typename Each>
  void block(void* const* data, int64_t first, std::atomic<bool>& finite, Each each) const {
    const int64_t count = std::min(tile_, count_ - first);
    const int64_t sizes[] = {points_ * tile_ * parts_ * channels_, points_ * tile_ * results_};
    float* points = reinterpret_cast<float*>(room<2>(4 * (sizes[0] + sizes[1])));
    float* products = points + sizes[0];
    each(count, [&](int64_t k) { gather(data, first + k, points + k * parts_ * channels_); });
    void* both[kOwn + kMostOwn];
    both[0] = points, both[1] = products;
    product_(both);
    each(count, [&](int64_t k) {
      if (!scatter(data, first + k, products + k * results_)) finite = false;
    });
  }

  // The element of the batch and the first result of a tile.
  struct Place {
    int64_t element, start[2];
  };
  Place place(int64_t tile) const {
    const int64_t across = axes_[1].starts.size(), down = axes_[0].starts.size();
    return {tile / (across * down),
            {axes_[0].starts[tile / across % down], axes_[1].starts[tile % across]}};
  }

  void gather(void* const* data, int64_t tile, float* points) const {
    const Place at = place(tile);
    const float* from = static_cast<const float*>(data[src_.from]) + at.element * src_.strides[0];
    for (int64_t part = 0; part < parts_; ++part) {
      const int64_t parts[] = {part / axes_[1].parts, part % axes_[1].parts};
      int64_t offsets[2][6];  // -1 outside of the picture
      for (int k : {0, 1}) {
        const Axis& a = axes_[k];
        int64_t x = at.start[k] - a.pad + 3 * parts[k] * a.step;
        for (int j = 0; j < tiles_.points[k]; ++j, x += a.step)
          offsets[k][j] = x >= 0 && x < a.in ? x * a.from : -1;
      }
      const float* pixels[36];
      for (int y = 0, n = 0; y < tiles_.points[0]; ++y)
        for (int x = 0; x < tiles_.points[1]; ++x, ++n)
          pixels[n] = offsets[0][y] < 0 || offsets[1][x] < 0
                          ? zeros_.data()
                          : from + offsets[0][y] + offsets[1][x];
      tiles_.to(pixels, channels_, points + part * channels_, tile_ * parts_ * channels_);
    }
  }

  // Whether the tile's sums are finite.
  bool scatter(void* const* data, int64_t tile, const float* products) const {
    const Place at = place(tile);
    float* to = static_cast<float*>(data[dst_.from]) + at.element * dst_.strides[0];
    Results results;
    for (int i = 0, n = 0; i < tiles_.out[0]; ++i)
      for (int j = 0; j < tiles_.out[1]; ++j, ++n) {
        const int64_t y = at.start[0] + i * axes_[0].step, x = at.start[1] + j * axes_[1].step;
        const bool inside = y < axes_[0].out && x < axes_[1].out;
        results.to[n] = inside ? to + y * axes_[0].to + x * axes_[1].to : nullptr;
        for (size_t k = 0; k < following_.size(); ++k) {
          const Following& f = following_[k];
          const float* other = f.constant;
          if (f.from >= 0) other = static_cast<const float*>(data[f.from]);
          const int64_t offset = at.element * f.strides[0] + y * f.strides[1] + x * f.strides[2];
          results.others[k][n] = inside && other ? other + offset : nullptr;
        }
      }
    return tiles_.from(products, tile_ * results_, results_, bias_, following_, results);
  }

  static constexpr int64_t kFewest = 24;
  Tiles tiles_;
  Axis axes_[2];
  View src_, dst_;
  int64_t channels_, results_, parts_, points_, count_, tile_ = 1;
  bool apart_ = false;  // each thread has blocks of its own
  std::vector<float> zeros_;
  const float* bias_ = nullptr;
  std::vector<Following> following_;
  Kernel product_;
};

// Of fewer channels, products of matrices are slow, and there are no vectors.
constexpr int64_t kFewestChannels = 16;

// The convolution in tiles of so many results along each axis; false if it has another kind.
template <int outputs>
bool winograd(Kernel& out, const Linear& l) {
  const int n = l.src.rank - 2;
  if (n < 1 || n > 2 || l.weights.rank != n + 2 || l.weights.from >= 0) return false;
  for (const View* v : {&l.src, &l.weights, &l.dst})
    if (v->type != Type::f32) return false;
  if (l.src.strides[1] != 1 || l.dst.strides[1] != 1) return false;
  if (std::min(l.src.dims[1], l.dst.dims[1]) < kFewestChannels) return false;
  if (l.bias && (l.bias->type != Type::f32 || l.bias->from >= 0)) return false;
  Axis rows, columns = Axis::of(l, n - 1);
  if (n == 2) rows = Axis::of(l, 0);
  for (int k = 0; k < n; ++k)
    if (l.sizes[k] != 1) return false;
  if (columns.window == 1) std::swap(rows, columns);
  if (columns.window == 1) return false;
  using F = Minimal<outputs>;
  const Tiles kind = rows.window == 1 ? tiles<Minimal<1>, F>() : tiles<F, F>();
  size_t done = 0;
  while (done < l.post.items.size() && done < Results::kFollowing &&
         Following::knows(l.post.items[done]))
    ++done;
  auto whole = std::make_shared<Winograd>(l, rows, columns, kind, done);
  const std::string name = whole->implementation();
  out.push_back(Step(name, [whole](void* const* data) { return (*whole)(data); }));
  append_rest(out, l.post, done, l.dst);
  return true;
}

}  // namespace
}  // namespace opinfo_onednn
