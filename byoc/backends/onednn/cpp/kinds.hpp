
// The other kinds of regions. It follows forms.hpp.
namespace opinfo_onednn {
namespace {

// `numbers`: strides, window, dilation less one, padding before, after.
OPINFO_CALLED Kernel pooling(const Recipe& r) {
  const View &src = r["src"], &dst = r["dst"];
  const int n = src.rank - 2;
  const auto at = r.numbers.begin();
  const Dims strides(at, at + n), window(at + n, at + 2 * n), dilates(at + 2 * n, at + 3 * n),
      left(at + 3 * n, at + 4 * n), right(at + 4 * n, at + 5 * n);
  using Desc = dnnl::pooling_forward::primitive_desc;
  return anchored(
      r.post, dst,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), dnnl::prop_kind::forward_inference, r.how, src.desc(), dst.desc(),
                    strides, window, dilates, left, right, a);
      },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_SRC, src); });
}

inline void softmax_along(Kernel& out, const Recipe& r, const Post& post, const View& src,
                          const View& dst, int axis) {
  using Desc = dnnl::softmax_forward::primitive_desc;
  append(
      out, post, 0, dst,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), dnnl::prop_kind::forward_inference, r.how, src.desc(), dst.desc(), axis,
                    a);
      },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_SRC, src); });
}

inline void copy(Kernel& out, const View& src, const View& dst) {
  using Desc = dnnl::reorder::primitive_desc;
  append(
      out, Post(), 0, dst,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), src.desc(), cpu(), dst.desc(), a);
      },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_FROM, src); });
}

// `numbers`: the axis.
OPINFO_CALLED Kernel softmax(const Recipe& r) {
  const View &src = r["src"], &dst = r["dst"];
  const int axis = static_cast<int>(r.numbers[0]);
  const Form straight{"straight", [&](Kernel& out) {
    softmax_along(out, r, r.post, src, dst, axis);
    return true;
  }};
  // Between two transposes that make the axis the innermost one.
  const Form moved{"moved", [&](Kernel& out) {
    if (axis + 1 == src.rank) return false;
    int64_t outer = 1, inner = 1;
    for (int k = 0; k < src.rank; ++k) (k < axis ? outer : inner) *= k == axis ? 1 : src.dims[k];
    const int64_t dims[] = {outer, src.dims[axis], inner}, rows[] = {outer, inner, src.dims[axis]};
    const View mine = out.own(View::plain(rows, 3, src.type, 0));
    copy(out, View::plain(dims, 3, src.type, src.from), mine.permuted("021"));
    softmax_along(out, r, Post(), mine, mine, 2);
    copy(out, mine.permuted("021"), View::plain(dims, 3, dst.type, dst.from));
    append_rest(out, r.post, 0, dst);
    return true;
  }};
  return in_form(r.form, r.strict, {straight, moved});
}

// `with`: alpha is epsilon.
OPINFO_CALLED Kernel layer_norm(const Recipe& r) {
  const View &src = r["src"], &dst = r["dst"], *scale = r.find("factor"), *shift = r.find("shift");
  auto flags = dnnl::normalization_flags::none;
  if (scale) flags |= dnnl::normalization_flags::use_scale;
  if (shift) flags |= dnnl::normalization_flags::use_shift;
  using Desc = dnnl::layer_normalization_forward::primitive_desc;
  return anchored(
      r.post, dst,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), dnnl::prop_kind::forward_inference, src.desc(), dst.desc(), r.alpha,
                    flags, a);
      },
      [&](Step& s, const Description&) {
        s.add(DNNL_ARG_SRC, src);
        if (scale) s.add(DNNL_ARG_SCALE, *scale);
        if (shift) s.add(DNNL_ARG_SHIFT, *shift);
      });
}

// `numbers`: the axis.
OPINFO_CALLED Kernel concat(const Recipe& r) {
  const std::vector<View>& parts = r.views.at("part");
  const View& dst = r["dst"];
  std::vector<memory::desc> given;
  for (const View& v : parts) given.push_back(v.desc());
  const int axis = static_cast<int>(r.numbers[0]);
  using Desc = dnnl::concat::primitive_desc;
  return anchored(
      r.post, dst,
      [&](const dnnl::primitive_attr& a) { return Desc(cpu(), dst.desc(), axis, given, a); },
      [&](Step& s, const Description&) {
        for (size_t k = 0; k < parts.size(); ++k)
          s.add(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(k), parts[k]);
      });
}

// A chain of pointwise operators that begins with two operands.
OPINFO_CALLED Kernel binary(const Recipe& r) {
  const View &one = r["src"], &two = r["other"], &dst = r["dst"];
  using Desc = dnnl::binary::primitive_desc;
  return anchored(
      r.post, dst,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), r.how, one.desc(), two.desc(), dst.desc(), a);
      },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_SRC_0, one).add(DNNL_ARG_SRC_1, two); });
}

OPINFO_CALLED Kernel eltwise(const Recipe& r) {
  const View &src = r["src"], &dst = r["dst"];
  using Desc = dnnl::eltwise_forward::primitive_desc;
  return anchored(
      r.post, dst,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), dnnl::prop_kind::forward_inference, r.how, src.desc(), dst.desc(),
                    r.alpha, r.beta, a);
      },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_SRC, src); });
}

}  // namespace
}  // namespace opinfo_onednn
