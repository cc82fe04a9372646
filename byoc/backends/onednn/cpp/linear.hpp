
// What a region is, and pieces that its convolutions and products are made of. It follows chains.hpp.
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
};

struct Recipe {
  std::string kind, form;
  bool strict = false;  // no other form will do
  std::vector<std::pair<std::string, View>> views;  // some names have several
  std::vector<int64_t> numbers;
  Algorithm how = dnnl_alg_kind_undef;
  float alpha = 0, beta = 0;
  Post post;
  Scales scales;

  const View* find(const char* name) const {
    for (const auto& [known, view] : views)
      if (known == name) return &view;
    return nullptr;
  }
  std::vector<View> all(const char* name) const {
    std::vector<View> out;
    for (const auto& [known, view] : views)
      if (known == name) out.push_back(view);
    return out;
  }
  const View& operator[](const char* name) const {
    if (const View* v = find(name)) return *v;
    OPINFO_THROW(ValueError) << kind << " has no " << name;
  }
};

// A convolution or a product of matrices. `sizes`: strides, dilation less one, padding before, after.
struct Linear {
  View src, weights, dst;
  const View* bias;
  std::vector<int64_t> sizes;
  Post post;

  explicit Linear(const Recipe& r)
      : src(r["src"]), weights(r["weights"]), dst(r["dst"]), bias(r.find("bias")),
        sizes(r.numbers), post(r.post) {}
};

// The function of the library that describes a convolution or, with the same arguments, a transposed one.
using DescribeWindow = decltype(&dnnl_convolution_forward_primitive_desc_create);

// The descriptor of a bias, null without one.
inline MemoryDesc described_bias(const View* bias) { return bias ? bias->desc() : MemoryDesc(); }

inline Description window_of(DescribeWindow create, Algorithm how, const Linear& l,
                             const MemoryDesc& src, const MemoryDesc& weights,
                             const Attributes& a) {
  const int n = l.src.rank - 2;
  const int64_t* at = l.sizes.data();
  return described(create, dnnl_forward_inference, how, src.get(), weights.get(),
                   described_bias(l.bias).get(), l.dst.desc().get(), at, at + n, at + 2 * n,
                   at + 3 * n, a.get());
}

// Gives a step the operands of a convolution or a product in the layouts that it wants.
inline void bind_linear(Step& s, const Description& pd, const Linear& l) {
  s.add(DNNL_ARG_SRC, l.src, pd.src());
  s.add(DNNL_ARG_WEIGHTS, l.weights, pd.weights());
  if (l.bias) s.add(DNNL_ARG_BIAS, *l.bias);
}

OPINFO_CALLED void window(Kernel& out, DescribeWindow create, Algorithm how, const Linear& l,
                          bool any = false) {
  const MemoryDesc w = wanted(l.weights), src = any ? l.src.any() : l.src.desc();
  append(
      out, l.post, 0, l.dst,
      [&](const Attributes& a) { return window_of(create, how, l, src, w, a); },
      [&](Step& s, const Description& pd) { bind_linear(s, pd, l); });
}

// Height and width exchanged; what has a width only gets the height of an image of width 1. The
// kernels of depthwise windows over channels innermost have 2-d ones only, and short rows.
inline bool swapped(Linear& l) {
  const bool line = l.src.rank == 3;
  if (!line && l.src.rank != 4) return false;
  const auto turn = [&](const View& v, View* out) {
    *out = (line ? v.trailing(4) : v.permuted("0132")).tidied();
    return true;
  };
  Post post;
  if (!l.post.turned(turn, &post)) return false;
  l.post = post;
  turn(l.src, &l.src);
  turn(l.dst, &l.dst);
  if (line) {
    l.weights = l.weights.trailing(l.weights.rank + 1);
    l.sizes = {l.sizes[0], 1, l.sizes[1], 0, l.sizes[2], 0, l.sizes[3], 0};
    return true;
  }
  l.weights = l.weights.permuted(l.weights.rank == 5 ? "01243" : "0132");
  for (size_t k = 0; k + 1 < l.sizes.size(); k += 2) std::swap(l.sizes[k], l.sizes[k + 1]);
  return true;
}

// A product of the pixels as rows, where a window is one pixel and channels are innermost.
inline bool as_rows(Linear& l) {
  const int n = l.src.rank - 2;
  if (l.weights.rank != n + 2) return false;  // groups
  for (int k = 0; k < n; ++k)
    if (l.weights.dims[2 + k] != 1 || l.sizes[k] != 1 || l.sizes[2 * n + k] || l.sizes[3 * n + k])
      return false;
  if (!l.src.to_rows(&l.src) || !l.dst.to_rows(&l.dst)) return false;
  const auto turn = [&](const View& v, View* out) {
    return v.to_rows(out) && (out->dims[0] == 1 || out->dims[0] == l.dst.dims[0]);
  };
  Post post;
  if (!l.post.turned(turn, &post)) return false;
  l.post = post;
  View w = l.weights;
  w.rank = 2;
  l.weights = w.permuted("10");
  return true;
}

// Constant weights of a product: as the library packs them, in rows or columns, in rows with a gap
// between them, without which those of some lengths share few places in a cache.
enum class Weights { packed, rows, columns, padded };

inline MemoryDesc arranged(const View& v, Weights how) {
  if (how == Weights::packed) return wanted(v);
  const int64_t rows = v.dims[v.rank - 2], columns = v.dims[v.rank - 1];
  const int64_t row = how == Weights::columns ? 1 : columns + 16 * (how == Weights::padded);
  Dims strides(v.rank, rows * (how == Weights::columns ? columns : row));
  strides[v.rank - 2] = row;
  strides[v.rank - 1] = how == Weights::columns ? rows : 1;
  return v.with_strides(strides.data());
}

OPINFO_CALLED Description product_of(const View& src, const MemoryDesc& weights, const View* bias,
                                     const View& dst, const Attributes& a) {
  return described(dnnl_matmul_primitive_desc_create, src.desc().get(), weights.get(),
                   described_bias(bias).get(), dst.desc().get(), a.get());
}

inline bool product(Kernel& out, const Linear& l, Weights how = Weights::packed) {
  const bool constant = l.weights.from < 0;
  if (how != Weights::packed && !(constant && l.dst.rank == 2)) return false;
  const MemoryDesc w = constant ? arranged(l.weights, how) : l.weights.desc();
  View bias;
  if (l.bias) bias = l.bias->rank == l.dst.rank ? *l.bias : l.bias->expanded(l.dst.rank);
  append(
      out, l.post, 0, l.dst,
      [&](const Attributes& a) {
        return product_of(l.src, w, l.bias ? &bias : nullptr, l.dst, a);
      },
      [&](Step& s, const Description& pd) {
        s.add(DNNL_ARG_SRC, l.src).add(DNNL_ARG_WEIGHTS, l.weights, pd.weights());
        if (l.bias) s.add(DNNL_ARG_BIAS, bias);
      });
  return true;
}

// A product with constant weights as a layer of a network: other implementations take it.
inline bool layer(Kernel& out, const Linear& l) {
  if (l.dst.rank != 2 || l.weights.from >= 0 || l.weights.rank != 2) return false;
  const View weights = l.weights.permuted("10");
  View bias;
  if (l.bias) bias = l.bias->flat();
  const MemoryDesc w = wanted(weights);
  append(
      out, l.post, 0, l.dst,
      [&](const Attributes& a) {
        return described(dnnl_inner_product_forward_primitive_desc_create, dnnl_forward_inference,
                         l.src.desc().get(), w.get(),
                         described_bias(l.bias ? &bias : nullptr).get(), l.dst.desc().get(),
                         a.get());
      },
      [&](Step& s, const Description& pd) {
        s.add(DNNL_ARG_SRC, l.src).add(DNNL_ARG_WEIGHTS, weights, pd.weights());
        if (l.bias) s.add(DNNL_ARG_BIAS, bias);
      });
  return true;
}

}  // namespace
}  // namespace opinfo_onednn
