
// Products of few rows with constant weights, each of which is read once: as fast as memory is. It
// follows linear.hpp, threads.hpp, large_pages.hpp and interface.hpp.
#define OPINFO_STREAMED

namespace opinfo_onednn {
namespace {

using opinfo_loops::kMostRows;
using opinfo_loops::kPanel;

// The constant weights of a product in panels of `width` columns, which every region shares.
inline Memory packed_panels(const Linear& l, int64_t width) {
  const int64_t row = l.weights.strides[0], column = l.weights.strides[1];
  const int64_t depth = l.weights.dims[0], columns = l.weights.dims[1];
  opinfo_regions::Text name;
  name << "panels " << width << " " << depth << ":" << row << " " << columns << ":" << column;
  const int64_t size[] = {(columns + width - 1) / width * width * depth};
  const MemoryDesc plain = View::plain(size, 1, dnnl_f32, 0).desc();
  return constants()[~l.weights.from]->derived(
      name.all(), plain, plain, [&](const float* data, float* out) {
        opinfo::want_large_pages(out, 4 * size[0]);
        OPINFO_RUNTIME(pack_panels)(data, row, column, depth, columns, width, out);
      });
}

class Streamed : public Work {
 public:
  explicit Streamed(const Linear& l)
      : src_(l.src), dst_(l.dst), rows_(l.dst.dims[0]), depth_(l.weights.dims[0]),
        columns_(l.weights.dims[1]), panels_((columns_ + kPanel - 1) / kPanel),
        packed_(packed_panels(l, kPanel)) {
    if (l.bias) bias_ = constants()[~l.bias->from]->elements(*l.bias);
  }

  bool run(void* const* data) const override {
    in_parallel(panels_, [&](int64_t panel) {
      const int64_t at = panel * kPanel;
      OPINFO_RUNTIME(multiply_panel)({static_cast<const float*>(packed_.data()) + at * depth_,
                                      static_cast<const float*>(data[src_.from]),
                                      bias_ ? bias_ + at : nullptr,
                                      static_cast<float*>(data[dst_.from]) + at, rows_, depth_,
                                      std::min<int64_t>(kPanel, columns_ - at), src_.strides[0],
                                      dst_.strides[0]});
    });
    return true;
  }

 private:
  View src_, dst_;
  const float* bias_ = nullptr;
  int64_t rows_, depth_, columns_, panels_;
  Memory packed_;
};

// Whether a matrix product is one of float32 with constant weights and perhaps a constant bias, whose
// result's columns lie next to each other.
inline bool has_fixed_floats(const Linear& l) {
  if (l.dst.rank != 2 || l.weights.rank != 2 || l.weights.from >= 0) return false;
  for (const View* v : {&l.src, &l.weights, &l.dst})
    if (v->type != dnnl_f32) return false;
  if (l.dst.strides[1] != 1) return false;
  return !l.bias || (l.bias->type == dnnl_f32 && l.bias->from < 0 &&
                     l.bias->flat().dims[0] == l.dst.dims[1]);
}

// False if there are many rows, or a matrix is not plain. What follows is a primitive of its own.
inline bool streamed(Kernel& out, const Linear& l) {
  if (!has_fixed_floats(l) || l.src.strides[1] != 1) return false;
  if (l.dst.dims[0] < 1 || l.dst.dims[0] > kMostRows || l.dst.dims[1] < kPanel) return false;
  if (listing()) listing()->push_back("streamed:own");
  out.push_back(Step("streamed:own", std::make_shared<Streamed>(l)));
  append_rest(out, l.post, 0, l.dst);
  return true;
}

}  // namespace
}  // namespace opinfo_onednn
