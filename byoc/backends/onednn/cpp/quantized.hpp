
// Regions of int8: primitives with scales and zero points, that do all that follows before they
// write the result. It follows forms.hpp.
namespace opinfo_onednn {
namespace {

OPINFO_CALLED Kernel whole(const Recipe& r, Describe describe, Bind bind) {
  Attributes a(r.post, 0, r.post.items.size());
  for (const Scales::Item& i : r.scales.items) a.set(i.zero, i.arg, i.mask);
  const Description pd = describe(a);
  Step s(pd, r.post, 0, r.post.items.size());
  bind(s, pd);
  for (const Scales::Item& i : r.scales.items)
    s.add((i.zero ? DNNL_ARG_ATTR_ZERO_POINTS : DNNL_ARG_ATTR_SCALES) | i.arg, i.value);
  s.add(DNNL_ARG_DST, r["dst"]);
  Kernel out;
  out.push_back(std::move(s));
  return out;
}

inline void bind_quantized(Step& s, const Description& pd, const Linear& l) {
  s.add(DNNL_ARG_SRC, l.src).add(DNNL_ARG_WEIGHTS, l.weights, pd.weights());
  if (l.bias) s.add(DNNL_ARG_BIAS, *l.bias);
}

OPINFO_CALLED Kernel quantized_convolution(const Recipe& r) {
  const Linear l(r);
  return whole(
      r,
      [&](const Attributes& a) {
        return window_of(dnnl_convolution_forward_primitive_desc_create, dnnl_convolution_direct, l,
                         l.src.desc(), l.weights.any(), a);
      },
      [&](Step& s, const Description& pd) { bind_quantized(s, pd, l); });
}

OPINFO_CALLED Kernel quantized_matmul(const Recipe& r) {
  const Linear l(r);
  return whole(
      r,
      [&](const Attributes& a) { return product_of(l.src, l.weights.any(), l.bias, l.dst, a); },
      [&](Step& s, const Description& pd) { bind_quantized(s, pd, l); });
}

OPINFO_CALLED Kernel quantized_binary(const Recipe& r) {
  const View &one = r["src"], &two = r["other"];
  return whole(
      r, [&](const Attributes& a) { return binary_of(r.how, one, two, r["dst"], a); },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_SRC_0, one).add(DNNL_ARG_SRC_1, two); });
}

// A tensor in another type.
OPINFO_CALLED Kernel converted(const Recipe& r) {
  return whole(
      r,
      [&](const Attributes& a) {
        return Reorder::of(r["src"].desc(), r["dst"].desc(), a.get());
      },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_FROM, r["src"]); });
}

}  // namespace
}  // namespace opinfo_onednn
