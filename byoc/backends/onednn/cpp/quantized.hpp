
// Regions of int8: primitives with scales and zero points, that do all that follows before they
// write the result. It follows forms.hpp.
namespace opinfo_onednn {
namespace {

OPINFO_CALLED Kernel whole(const Recipe& r, Describe describe, Bind bind) {
  dnnl::primitive_attr a = r.post.attributes(0, r.post.items.size());
  for (const Scales::Item& i : r.scales.items) {
    if (i.zero)
      a.set_zero_points_mask(i.arg, i.mask);
    else
      a.set_scales_mask(i.arg, i.mask);
  }
  const Description pd = describe(a);
  Step s(dnnl::primitive(pd.get()), pd, r.post, 0, r.post.items.size());
  bind(s, pd);
  for (const Scales::Item& i : r.scales.items)
    s.add((i.zero ? DNNL_ARG_ATTR_ZERO_POINTS : DNNL_ARG_ATTR_SCALES) | i.arg, i.value);
  s.add(DNNL_ARG_DST, r["dst"]);
  Kernel out;
  out.push_back(std::move(s));
  return out;
}

OPINFO_CALLED Kernel quantized_convolution(const Recipe& r) {
  const Linear l(r);
  const int n = l.src.rank - 2;
  const auto at = l.sizes.begin();
  const Dims strides(at, at + n), dilates(at + n, at + 2 * n), left(at + 2 * n, at + 3 * n),
      right(at + 3 * n, at + 4 * n);
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto how = algorithm::convolution_direct;
  using Desc = dnnl::convolution_forward::primitive_desc;
  return whole(
      r,
      [&](const dnnl::primitive_attr& a) {
        return l.bias ? Desc(cpu(), kind, how, l.src.desc(), l.weights.any(), l.bias->desc(),
                             l.dst.desc(), strides, dilates, left, right, a)
                      : Desc(cpu(), kind, how, l.src.desc(), l.weights.any(), l.dst.desc(), strides,
                             dilates, left, right, a);
      },
      [&](Step& s, const Description& pd) {
        s.add(DNNL_ARG_SRC, l.src).add(DNNL_ARG_WEIGHTS, l.weights, pd.weights_desc(0));
        if (l.bias) s.add(DNNL_ARG_BIAS, *l.bias);
      });
}

OPINFO_CALLED Kernel quantized_matmul(const Recipe& r) {
  const Linear l(r);
  using Desc = dnnl::matmul::primitive_desc;
  return whole(
      r,
      [&](const dnnl::primitive_attr& a) {
        return l.bias ? Desc(cpu(), l.src.desc(), l.weights.any(), l.bias->desc(), l.dst.desc(), a)
                      : Desc(cpu(), l.src.desc(), l.weights.any(), l.dst.desc(), a);
      },
      [&](Step& s, const Description& pd) {
        s.add(DNNL_ARG_SRC, l.src).add(DNNL_ARG_WEIGHTS, l.weights, pd.weights_desc(0));
        if (l.bias) s.add(DNNL_ARG_BIAS, *l.bias);
      });
}

OPINFO_CALLED Kernel quantized_binary(const Recipe& r) {
  const View &one = r["src"], &two = r["other"];
  using Desc = dnnl::binary::primitive_desc;
  return whole(
      r,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), r.how, one.desc(), two.desc(), r["dst"].desc(), a);
      },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_SRC_0, one).add(DNNL_ARG_SRC_1, two); });
}

// A tensor in another type.
OPINFO_CALLED Kernel converted(const Recipe& r) {
  using Desc = dnnl::reorder::primitive_desc;
  return whole(
      r,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), r["src"].desc(), cpu(), r["dst"].desc(), a);
      },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_FROM, r["src"]); });
}

}  // namespace
}  // namespace opinfo_onednn
