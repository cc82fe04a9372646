
// Convolutions and products in equivalent forms. It follows linear.hpp, and winograd.hpp,
// streamed.hpp and tiled.hpp if they are there.
namespace opinfo_onednn {
namespace {

inline bool is_depthwise(const Linear& l) {
  const View& w = l.weights;
  return w.rank == l.src.rank + 1 && w.dims[1] == 1 && w.dims[2] == 1;
}

// The implementation to ask for where the library's own choice is known to be slow: brdgmm_dw takes
// 1.5 times as long as jit_dw, and brgconv:avx2 takes 80 times as long as jit for one channel.
inline const char* faster(const Linear& l) {
  const View& w = l.weights;
  if (is_depthwise(l)) return "jit_dw:";
  if (w.rank == l.src.rank + 1) return nullptr;
  const bool pixels = std::all_of(w.dims + 2, w.dims + w.rank, [](int64_t e) { return e == 1; });
  return w.dims[0] < 4 && !pixels ? "jit:" : nullptr;
}

OPINFO_CALLED Kernel convolution(const Recipe& r) {
  Linear l(r);
  if (const char* name = faster(l)) l.post.implementations.push_back(name);
  const auto direct = [&](const Linear& l, Kernel& out, bool any) {
    window(out, dnnl_convolution_forward_primitive_desc_create, dnnl_convolution_direct, l, any);
    return true;
  };
  const auto straight = [&](Kernel& out) { return direct(l, out, false); };
  const auto turned = [&](Kernel& out) {
    Linear other = l;
    return swapped(other) && direct(other, out, false);
  };
  const auto rows = [&](Kernel& out) {
    Linear other = l;
    return as_rows(other) && product(out, other);
  };
  const auto layer_of_rows = [&](Kernel& out) {
    Linear other = l;
    return as_rows(other) && layer(out, other);
  };
  const auto packed = [&](Kernel& out) { return direct(l, out, true); };
#ifdef OPINFO_WINOGRAD
  const auto two = [&](Kernel& out) { return winograd(out, l, 2); };
  const auto four = [&](Kernel& out) { return winograd(out, l, 4); };
#endif
  std::vector<Form> forms = {{"straight", straight},    {"swapped", turned}, {"rows", rows},
                             {"layer", layer_of_rows}, {"packed", packed},
#ifdef OPINFO_WINOGRAD
                             {"winograd2", two, true}, {"winograd4", four, true},
#endif
  };
  // The kernels over channels innermost take a row at a time; those of depthwise windows are 2-d.
  const bool narrow = l.dst.rank == 4 && l.dst.dims[3] == 1 && l.dst.dims[2] > 1;
  if (narrow || (l.dst.rank == 3 && is_depthwise(l))) std::swap(forms[0], forms[1]);
  return in_form(r.form, r.strict, forms);
}

OPINFO_CALLED Kernel deconvolution(const Recipe& r) {
  const Linear l(r);
  const auto direct = [&](const Linear& l, Kernel& out) {
    window(out, dnnl_deconvolution_forward_primitive_desc_create, dnnl_deconvolution_direct, l);
    return true;
  };
  const auto straight = [&](Kernel& out) { return direct(l, out); };
  const auto turned = [&](Kernel& out) {
    Linear other = l;
    return swapped(other) && direct(other, out);
  };
  return in_form(r.form, r.strict, {{"straight", straight}, {"swapped", turned}});
}

struct Zeros : Work {
  int from;
  size_t bytes;

  Zeros(int from, size_t bytes) : from(from), bytes(bytes) {}
  bool run(void* const* data) const override {
    std::memset(data[from], 0, bytes);
    return true;
  }
};

// An operand with one element along an axis that has none, all 0.
inline View with_zeros(Kernel& out, View v, int axis) {
  v.dims[axis] = 1;
  const View zeros = out.own(View::plain(v.dims, v.rank, v.type, 0));
  out.push_back(Step("zeros", std::make_shared<Zeros>(zeros.from, zeros.desc().bytes())));
  return zeros;
}

// A product whose sums have no terms, of which a primitive leaves the result unwritten.
inline Kernel product_of_nothing(Linear l) {
  Kernel out;
  l.src = with_zeros(out, l.src, l.src.rank - 1);
  l.weights = with_zeros(out, l.weights, l.weights.rank - 2);
  product(out, l);
  return out;
}

OPINFO_CALLED Kernel matmul(const Recipe& r) {
  const Linear l(r);
  if (l.src.dims[l.src.rank - 1] == 0) return product_of_nothing(l);
  const auto straight = [&](Kernel& out) { return product(out, l); };
  const auto as_layer = [&](Kernel& out) { return layer(out, l); };
  const auto unpacked = [&](Kernel& out) { return product(out, l, Weights::rows); };
  const auto turned = [&](Kernel& out) { return product(out, l, Weights::columns); };
  const auto padded = [&](Kernel& out) { return product(out, l, Weights::padded); };
#ifdef OPINFO_STREAMED
  const auto by_panels = [&](Kernel& out) { return streamed(out, l); };
#endif
#ifdef OPINFO_TILED
  const auto by_tiles = [&](Kernel& out) { return tiled(out, l); };
#endif
  const std::vector<Form> forms = {{"straight", straight}, {"layer", as_layer},
                                   {"unpacked", unpacked}, {"turned", turned},
                                   {"padded", padded},
#ifdef OPINFO_STREAMED
                                   {"streamed", by_panels, true},
#endif
#ifdef OPINFO_TILED
                                   {"tiled", by_tiles, true},
#endif
  };
  return in_form(r.form, r.strict, forms);
}

}  // namespace
}  // namespace opinfo_onednn
