
// Regions of int8: primitives with scales and zero points, that do all that follows before they
// write the result.
namespace opinfo_onednn {
namespace {

// What the arguments of a primitive are multiplied with, and what stands for 0 in them.
struct Scales {
  struct Item {
    bool zero;
    int arg, mask;
    View value;
  };
  std::vector<Item> items;

  OPINFO_CALLED Scales();
  OPINFO_CALLED ~Scales();
  OPINFO_CALLED void scale(int arg, int mask, const View& value) {
    items.push_back({false, arg, mask, value});
  }
  OPINFO_CALLED void zero(int arg, const View& value) { items.push_back({true, arg, 0, value}); }

  dnnl::primitive_attr attributes(const Post& post) const {
    dnnl::primitive_attr a = post.attributes(0, post.items.size());
    for (const Item& i : items) {
      if (i.zero)
        a.set_zero_points_mask(i.arg, i.mask);
      else
        a.set_scales_mask(i.arg, i.mask);
    }
    return a;
  }
  void bind(Step& s) const {
    for (const Item& i : items)
      s.add((i.zero ? DNNL_ARG_ATTR_ZERO_POINTS : DNNL_ARG_ATTR_SCALES) | i.arg, i.value);
  }
};
Scales::Scales() = default;
Scales::~Scales() = default;

template <typename Op, typename Make, typename Bind>
Kernel whole(const Post& post, const Scales& scales, const View& dst, Make make, Bind bind) {
  const typename Op::primitive_desc pd = make(scales.attributes(post));
  Step s(Op(pd), pd, post, 0, post.items.size());
  bind(s, pd);
  scales.bind(s);
  s.add(DNNL_ARG_DST, dst);
  Kernel out;
  out.push_back(std::move(s));
  return out;
}

OPINFO_CALLED Kernel quantised_convolution(const View& src, const View& weights, const View* bias,
                                           const View& dst, const int64_t* sizes, const Post& post,
                                           const Scales& scales) {
  const int n = src.rank - 2;
  const Dims strides(sizes, sizes + n), dilates(sizes + n, sizes + 2 * n),
      left(sizes + 2 * n, sizes + 3 * n), right(sizes + 3 * n, sizes + 4 * n);
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto how = algorithm::convolution_direct;
  using Desc = dnnl::convolution_forward::primitive_desc;
  return whole<dnnl::convolution_forward>(
      post, scales, dst,
      [&](const dnnl::primitive_attr& a) {
        return bias ? Desc(cpu(), kind, how, src.desc(), weights.any(), bias->desc(), dst.desc(),
                           strides, dilates, left, right, a)
                    : Desc(cpu(), kind, how, src.desc(), weights.any(), dst.desc(), strides,
                           dilates, left, right, a);
      },
      [&](Step& s, const Desc& pd) {
        s.add(DNNL_ARG_SRC, src).add(DNNL_ARG_WEIGHTS, weights, pd.weights_desc());
        if (bias) s.add(DNNL_ARG_BIAS, *bias);
      });
}

OPINFO_CALLED Kernel quantised_matmul(const View& src, const View& weights, const View* bias,
                                      const View& dst, const Post& post, const Scales& scales) {
  using Desc = dnnl::matmul::primitive_desc;
  return whole<dnnl::matmul>(
      post, scales, dst,
      [&](const dnnl::primitive_attr& a) {
        return bias ? Desc(cpu(), src.desc(), weights.any(), bias->desc(), dst.desc(), a)
                    : Desc(cpu(), src.desc(), weights.any(), dst.desc(), a);
      },
      [&](Step& s, const Desc& pd) {
        s.add(DNNL_ARG_SRC, src).add(DNNL_ARG_WEIGHTS, weights, pd.weights_desc());
        if (bias) s.add(DNNL_ARG_BIAS, *bias);
      });
}

OPINFO_CALLED Kernel quantised_binary(algorithm how, const View& one, const View& two,
                                      const View& dst, const Post& post, const Scales& scales) {
  using Desc = dnnl::binary::primitive_desc;
  return whole<dnnl::binary>(
      post, scales, dst,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), how, one.desc(), two.desc(), dst.desc(), a);
      },
      [&](Step& s, const Desc&) { s.add(DNNL_ARG_SRC_0, one).add(DNNL_ARG_SRC_1, two); });
}

// A tensor in another type.
OPINFO_CALLED Kernel converted(const View& src, const View& dst, const Scales& scales) {
  using Desc = dnnl::reorder::primitive_desc;
  return whole<dnnl::reorder>(
      Post(), scales, dst,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), src.desc(), cpu(), dst.desc(), a);
      },
      [&](Step& s, const Desc&) { s.add(DNNL_ARG_FROM, src); });
}

}  // namespace
}  // namespace opinfo_onednn
