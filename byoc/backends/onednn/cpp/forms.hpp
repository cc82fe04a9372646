
// Convolutions and products in equivalent forms. It follows linear.hpp, and winograd.hpp
// and streamed.hpp if they are there.
namespace opinfo_onednn {
namespace {

// The implementation to ask for where the library's own choice is known to be slow: brdgmm_dw takes
// 1.5 times as long as jit_dw, and brgconv:avx2 takes 80 times as long as jit for one channel.
inline const char* faster(const Linear& l) {
  const View& w = l.weights;
  const bool grouped = w.rank == l.src.rank + 1;
  if (grouped) return w.dims[1] == 1 && w.dims[2] == 1 ? "jit_dw:" : nullptr;
  const bool pixels = std::all_of(w.dims + 2, w.dims + w.rank, [](int64_t e) { return e == 1; });
  return w.dims[0] < 4 && !pixels ? "jit:" : nullptr;
}

OPINFO_CALLED Kernel convolution(const Recipe& r) {
  Linear l(r);
  if (const char* name = faster(l)) l.post.implementations.push_back(name);
  const auto direct = [&](const Linear& l, Kernel& out, bool any) {
    window<dnnl::convolution_forward>(out, algorithm::convolution_direct, l, any);
    return true;
  };
  const Form straight{"straight", [&](Kernel& out) { return direct(l, out, false); }};
  const Form turned{"swapped", [&](Kernel& out) {
    Linear other = l;
    return swapped(other) && direct(other, out, false);
  }};
  const Form rows{"rows", [&](Kernel& out) {
    Linear other = l;
    return as_rows(other) && product(out, other);
  }};
  const Form layer_of_rows{"layer", [&](Kernel& out) {
    Linear other = l;
    return as_rows(other) && layer(out, other);
  }};
  const Form packed{"packed", [&](Kernel& out) { return direct(l, out, true); }};
  std::vector<Form> forms = {straight, turned, rows, layer_of_rows, packed};
#ifdef OPINFO_WINOGRAD
  forms.push_back({"winograd2", [&](Kernel& out) { return winograd<2>(out, l); }, true});
  forms.push_back({"winograd4", [&](Kernel& out) { return winograd<4>(out, l); }, true});
#endif
  // The kernels over channels innermost take a row at a time.
  const bool narrow = l.dst.rank == 4 && l.dst.dims[3] == 1 && l.dst.dims[2] > 1;
  if (narrow) std::swap(forms[0], forms[1]);
  return in_form(r.form, r.strict, forms);
}

OPINFO_CALLED Kernel deconvolution(const Recipe& r) {
  const Linear l(r);
  const auto direct = [&](const Linear& l, Kernel& out) {
    window<dnnl::deconvolution_forward>(out, algorithm::deconvolution_direct, l);
    return true;
  };
  return in_form(r.form, r.strict, {{"straight", [&](Kernel& out) { return direct(l, out); }},
                          {"swapped", [&](Kernel& out) {
                             Linear other = l;
                             return swapped(other) && direct(other, out);
                           }}});
}

// An operand with one element along an axis that has none, all 0.
inline View with_zeros(Kernel& out, View v, int axis) {
  v.dims[axis] = 1;
  const View zeros = out.own(View::plain(v.dims, v.rank, v.type, 0));
  const size_t bytes = zeros.desc().get_size();
  out.push_back(Step("zeros", [from = zeros.from, bytes](void* const* data) {
    std::memset(data[from], 0, bytes);
    return true;
  }));
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
  std::vector<Form> forms = {
      {"straight", [&](Kernel& out) { return product(out, l); }},
      {"layer", [&](Kernel& out) { return layer(out, l); }},
      {"unpacked", [&](Kernel& out) { return product(out, l, Weights::rows); }},
      {"turned", [&](Kernel& out) { return product(out, l, Weights::columns); }},
      {"padded", [&](Kernel& out) { return product(out, l, Weights::padded); }}};
#ifdef OPINFO_STREAMED
  forms.push_back({"streamed", [&](Kernel& out) { return streamed(out, l); }, true});
#endif
  return in_form(r.form, r.strict, forms);
}

}  // namespace
}  // namespace opinfo_onednn
