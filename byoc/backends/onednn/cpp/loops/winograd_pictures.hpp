
// Convolutions of pictures in tiles: their weights, and tiles from and to pictures. It follows
// winograd_tiles.hpp.
namespace opinfo_loops {
namespace {

// The weights of one window at each point, computed in float64.
template <typename Store>
void window_at_points(const Picture& p, const float* window, int64_t part, Store store) {
  const Tiles& t = *p.tiles;
  const int *points = t.points, *taps = t.taps;
  const auto tap = [&](int axis, int64_t k) {
    const PictureAxis& a = p.axes[axis];
    const int64_t at = k + 3 * (axis == 0 ? part / p.axes[1].parts : part % p.axes[1].parts);
    return at < a.window ? at * a.taps_apart : -1;
  };
  double half[6][3];
  for (int q = 0; q < points[0]; ++q)
    for (int j = 0; j < taps[1]; ++j) {
      half[q][j] = 0;
      for (int i = 0; i < taps[0]; ++i) {
        const int64_t y = tap(0, i), x = tap(1, j);
        if (y >= 0 && x >= 0) half[q][j] += t.weights[0][q * taps[0] + i] * window[y + x];
      }
    }
  for (int q = 0; q < points[0]; ++q)
    for (int r = 0; r < points[1]; ++r) {
      double sum = 0;
      for (int j = 0; j < taps[1]; ++j) sum += half[q][j] * t.weights[1][r * taps[1] + j];
      store(q * points[1] + r, sum);
    }
}

// The element of the batch and the first result of a tile.
struct Place {
  int64_t element, start[2];
};
inline Place place(const Picture& p, int64_t tile) {
  const int64_t across = p.axes[1].tiles, down = p.axes[0].tiles;
  return {tile / (across * down),
          {p.axes[0].starts[tile / across % down], p.axes[1].starts[tile % across]}};
}

}  // namespace
}  // namespace opinfo_loops

OPINFO_LINKAGE void OPINFO_RUNTIME(at_points)(const opinfo_loops::Picture& p, const float* taps,
                                              int64_t results_apart, int64_t channels_apart,
                                              float* out) {
  const int64_t plane = p.parts * p.channels * p.results;
  for (int64_t part = 0; part < p.parts; ++part)
    for (int64_t c = 0; c < p.channels; ++c)
      for (int64_t k = 0; k < p.results; ++k) {
        float* to = out + (part * p.channels + c) * p.results + k;
        opinfo_loops::window_at_points(
            p, taps + k * results_apart + c * channels_apart, part,
            [&](int point, double v) { to[point * plane] = static_cast<float>(v); });
      }
}

OPINFO_LINKAGE void OPINFO_RUNTIME(gather)(const opinfo_loops::Picture& p, const float* source,
                                           int64_t tile, float* points) {
  using namespace opinfo_loops;
  const Place at = place(p, tile);
  const Tiles& t = *p.tiles;
  const float* from = source + at.element * p.from;
  for (int64_t part = 0; part < p.parts; ++part) {
    const int64_t parts[] = {part / p.axes[1].parts, part % p.axes[1].parts};
    int64_t offsets[2][6];  // -1 outside of the picture
    for (int k = 0; k < 2; ++k) {
      const PictureAxis& a = p.axes[k];
      int64_t x = at.start[k] - a.pad + 3 * parts[k] * a.step;
      for (int j = 0; j < t.points[k]; ++j, x += a.step)
        offsets[k][j] = x >= 0 && x < a.in ? x * a.from : -1;
    }
    const float* pixels[36];
    for (int y = 0, n = 0; y < t.points[0]; ++y)
      for (int x = 0; x < t.points[1]; ++x, ++n)
        pixels[n] = offsets[0][y] < 0 || offsets[1][x] < 0
                        ? p.zeros
                        : from + offsets[0][y] + offsets[1][x];
    t.to(pixels, p.channels, points + part * p.channels, p.at_once * p.parts * p.channels);
  }
}

OPINFO_LINKAGE bool OPINFO_RUNTIME(scatter)(const opinfo_loops::Picture& p, void* const* data,
                                            float* result, int64_t tile, const float* products) {
  using namespace opinfo_loops;
  const Place at = place(p, tile);
  const PictureAxis* axes = p.axes;
  float* to = result + at.element * p.to;
  Results results;
  for (int i = 0, n = 0; i < p.tiles->out[0]; ++i)
    for (int j = 0; j < p.tiles->out[1]; ++j, ++n) {
      const int64_t y = at.start[0] + i * axes[0].step, x = at.start[1] + j * axes[1].step;
      const bool inside = y < axes[0].out && x < axes[1].out;
      results.to[n] = inside ? to + y * axes[0].to + x * axes[1].to : nullptr;
      for (int64_t k = 0; k < p.followings; ++k) {
        const Following& f = p.following[k];
        const float* other = f.constant;
        if (f.from >= 0) other = static_cast<const float*>(data[f.from]);
        const int64_t offset = at.element * f.strides[0] + y * f.strides[1] + x * f.strides[2];
        results.others[k][n] = inside && other ? other + offset : nullptr;
      }
    }
  return p.tiles->from(products, p.at_once * p.row, p.results, p.bias, p.following,
                       p.followings, results);
}
