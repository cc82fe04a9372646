
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
  std::map<std::string, std::vector<View>> views;
  std::vector<int64_t> numbers;
  algorithm how = algorithm::undef;
  float alpha = 0, beta = 0;
  Post post;
  Scales scales;

  const View* find(const char* name) const {
    const auto at = views.find(name);
    return at == views.end() ? nullptr : &at->second[0];
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

template <typename Op>
void window(Kernel& out, algorithm how, const Linear& l, bool any = false) {
  const int n = l.src.rank - 2;
  const auto at = l.sizes.begin();
  const Dims strides(at, at + n), dilates(at + n, at + 2 * n), left(at + 2 * n, at + 3 * n),
      right(at + 3 * n, at + 4 * n);
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto w = wanted(l.weights);
  const auto src = any ? l.src.any() : l.src.desc();
  using Desc = typename Op::primitive_desc;
  append(
      out, l.post, 0, l.dst,
      [&](const dnnl::primitive_attr& a) {
        return l.bias ? Desc(cpu(), kind, how, src, w, l.bias->desc(), l.dst.desc(), strides,
                             dilates, left, right, a)
                      : Desc(cpu(), kind, how, src, w, l.dst.desc(), strides, dilates, left,
                             right, a);
      },
      [&](Step& s, const Description& pd) {
        s.add(DNNL_ARG_SRC, l.src, pd.src_desc(0));
        s.add(DNNL_ARG_WEIGHTS, l.weights, pd.weights_desc(0));
        if (l.bias) s.add(DNNL_ARG_BIAS, *l.bias);
      });
}

// Height and width exchanged.
inline bool swapped(Linear& l) {
  if (l.src.rank != 4) return false;
  const auto turn = [](const View& v, View* out) {
    *out = v.permuted("0132").tidied();
    return true;
  };
  Post post;
  if (!l.post.turned(turn, &post)) return false;
  l.post = post;
  turn(l.src, &l.src);
  turn(l.dst, &l.dst);
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

inline memory::desc arranged(const View& v, Weights how) {
  if (how == Weights::packed) return wanted(v);
  const int64_t rows = v.dims[v.rank - 2], columns = v.dims[v.rank - 1];
  const int64_t row = how == Weights::columns ? 1 : columns + 16 * (how == Weights::padded);
  Dims strides(v.rank, rows * (how == Weights::columns ? columns : row));
  strides[v.rank - 2] = row;
  strides[v.rank - 1] = how == Weights::columns ? rows : 1;
  return memory::desc(v.extents(), v.type, strides);
}

inline bool product(Kernel& out, const Linear& l, Weights how = Weights::packed) {
  const bool constant = l.weights.from < 0;
  if (how != Weights::packed && !(constant && l.dst.rank == 2)) return false;
  const auto w = constant ? arranged(l.weights, how) : l.weights.desc();
  View bias;
  if (l.bias) bias = l.bias->rank == l.dst.rank ? *l.bias : l.bias->expanded(l.dst.rank);
  using Desc = dnnl::matmul::primitive_desc;
  append(
      out, l.post, 0, l.dst,
      [&](const dnnl::primitive_attr& a) {
        return l.bias ? Desc(cpu(), l.src.desc(), w, bias.desc(), l.dst.desc(), a)
                      : Desc(cpu(), l.src.desc(), w, l.dst.desc(), a);
      },
      [&](Step& s, const Description& pd) {
        s.add(DNNL_ARG_SRC, l.src).add(DNNL_ARG_WEIGHTS, l.weights, pd.weights_desc(0));
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
  const auto w = wanted(weights);
  const auto kind = dnnl::prop_kind::forward_inference;
  using Desc = dnnl::inner_product_forward::primitive_desc;
  append(
      out, l.post, 0, l.dst,
      [&](const dnnl::primitive_attr& a) {
        return l.bias ? Desc(cpu(), kind, l.src.desc(), w, bias.desc(), l.dst.desc(), a)
                      : Desc(cpu(), kind, l.src.desc(), w, l.dst.desc(), a);
      },
      [&](Step& s, const Description& pd) {
        s.add(DNNL_ARG_SRC, l.src).add(DNNL_ARG_WEIGHTS, weights, pd.weights_desc(0));
        if (l.bias) s.add(DNNL_ARG_BIAS, bias);
      });
  return true;
}

}  // namespace
}  // namespace opinfo_onednn
