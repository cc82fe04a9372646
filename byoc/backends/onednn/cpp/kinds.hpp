
// The other kinds of regions. It follows forms.hpp.
namespace opinfo_onednn {
namespace {

// `numbers`: strides, window, dilation less one, padding before, after.
OPINFO_CALLED Kernel pooling(const Recipe& r) {
  const View &src = r["src"], &dst = r["dst"];
  const int n = src.rank - 2;
  const int64_t* at = r.numbers.data();
  return anchored(
      r.post, dst,
      [&](const Attributes& a) {
        return described(dnnl_pooling_forward_primitive_desc_create, dnnl_forward_inference, r.how,
                         src.desc().get(), dst.desc().get(), at, at + n, at + 2 * n, at + 3 * n,
                         at + 4 * n, a.get());
      },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_SRC, src); });
}

inline void softmax_along(Kernel& out, const Recipe& r, const Post& post, const View& src,
                          const View& dst, int axis) {
  append(
      out, post, 0, dst,
      [&](const Attributes& a) {
        return described(dnnl_softmax_forward_primitive_desc_create, dnnl_forward_inference, r.how,
                         src.desc().get(), dst.desc().get(), axis, a.get());
      },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_SRC, src); });
}

inline void copy(Kernel& out, const View& src, const View& dst) {
  append(
      out, Post(), 0, dst,
      [&](const Attributes& a) { return Reorder::of(src.desc(), dst.desc(), a.get()); },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_FROM, src); });
}

// Whether all that follows is for each element: along the innermost axis, the library's code reads an
// operand that other axes repeat as if it had an element for each.
inline bool is_elementwise(const Post& post, const View& dst) {
  return std::all_of(post.items.begin(), post.items.end(), [&](const Post::Item& i) {
    return !i.binary || std::equal(dst.dims, dst.dims + dst.rank, i.other.dims);
  });
}

// `numbers`: the axis.
OPINFO_CALLED Kernel softmax(const Recipe& r) {
  const View &src = r["src"], &dst = r["dst"];
  const int axis = static_cast<int>(r.numbers[0]);
  const auto straight = [&](Kernel& out) {
    const bool whole = is_elementwise(r.post, dst);
    softmax_along(out, r, whole ? r.post : Post{{}, r.post.implementations}, src, dst, axis);
    if (!whole) append_rest(out, r.post, 0, dst);
    return true;
  };
  // Between two transposes that make the axis the innermost one.
  const auto moved = [&](Kernel& out) {
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
  };
  return in_form(r.form, r.strict, {{"straight", straight}, {"moved", moved}});
}

// `with`: alpha is epsilon.
OPINFO_CALLED Kernel layer_norm(const Recipe& r) {
  const View &src = r["src"], &dst = r["dst"], *scale = r.find("factor"), *shift = r.find("shift");
  const unsigned flags =
      (scale ? dnnl_use_scale : 0) | static_cast<unsigned>(shift ? dnnl_use_shift : 0);
  return anchored(
      r.post, dst,
      [&](const Attributes& a) {
        return described(dnnl_layer_normalization_forward_primitive_desc_create,
                         dnnl_forward_inference, src.desc().get(), dst.desc().get(), nullptr,
                         r.alpha, flags, a.get());
      },
      [&](Step& s, const Description&) {
        s.add(DNNL_ARG_SRC, src);
        if (scale) s.add(DNNL_ARG_SCALE, *scale);
        if (shift) s.add(DNNL_ARG_SHIFT, *shift);
      });
}

// `numbers`: the axis.
OPINFO_CALLED Kernel concat(const Recipe& r) {
  const std::vector<View> parts = r.all("part");
  const View& dst = r["dst"];
  std::vector<MemoryDesc> own;
  std::vector<const_dnnl_memory_desc_t> descs;
  for (const View& v : parts) {
    own.push_back(v.desc());
    descs.push_back(own.back().get());
  }
  const int axis = static_cast<int>(r.numbers[0]);
  return anchored(
      r.post, dst,
      [&](const Attributes& a) {
        return described(dnnl_concat_primitive_desc_create, dst.desc().get(),
                         static_cast<int>(descs.size()), axis, descs.data(), a.get());
      },
      [&](Step& s, const Description&) {
        for (size_t k = 0; k < parts.size(); ++k)
          s.add(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(k), parts[k]);
      });
}

// A chain of pointwise operators that begins with two operands.
OPINFO_CALLED Kernel binary(const Recipe& r) {
  const View &one = r["src"], &two = r["other"], &dst = r["dst"];
  return anchored(
      r.post, dst, [&](const Attributes& a) { return binary_of(r.how, one, two, dst, a); },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_SRC_0, one).add(DNNL_ARG_SRC_1, two); });
}

OPINFO_CALLED Kernel eltwise(const Recipe& r) {
  const View &src = r["src"], &dst = r["dst"];
#ifdef OPINFO_TANGENTS
  if (has_own_tangent(r.how, dst) && src.desc() == dst.desc()) {
    Kernel out;
    out.push_back(tangents(r.how, src, dst));
    append_rest(out, r.post, 0, dst);
    return out;
  }
#endif
  return anchored(
      r.post, dst,
      [&](const Attributes& a) { return eltwise_of(r.how, src, dst, r.alpha, r.beta, a); },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_SRC, src); });
}

}  // namespace
}  // namespace opinfo_onednn
