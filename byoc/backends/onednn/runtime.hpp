// What the generated functions of the onednn backend share: tensors as strided views, constants that
// are reordered once, primitives that are made once for each shape. What the generated code calls is
// neither a template nor inlined, so that a region costs the compiler little.
// It follows common/regions.hpp.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_debug.h>

#define OPINFO_CALLED __attribute__((noinline, unused))

namespace opinfo_onednn {
namespace {  // two models in one process share nothing

using dnnl::algorithm;
using dnnl::memory;
using Dims = memory::dims;
using Type = memory::data_type;

inline dnnl::engine& cpu() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

inline dnnl::stream& here() {
  static thread_local dnnl::stream stream(cpu());
  return stream;
}

// A tensor as oneDNN sees it. `from` counts the function's tensors, or is ~k for constant k.
struct View {
  int rank, from;
  Type type;
  int64_t dims[DNNL_MAX_NDIMS], strides[DNNL_MAX_NDIMS];

  OPINFO_CALLED static View plain(const int64_t* dims, int rank, Type type, int from) {
    if (rank > DNNL_MAX_NDIMS - 1) OPINFO_THROW(ValueError) << "a tensor of rank " << rank;
    View v{rank, from, type, {}, {}};
    int64_t step = 1;
    for (int k = rank; k-- > 0; step *= dims[k]) {
      v.dims[k] = dims[k];
      v.strides[k] = step;
    }
    return v;
  }

  // Axes in another order, a digit for each.
  OPINFO_CALLED View permuted(const char* axes) const {
    View v = *this;
    for (int k = 0; k < rank; ++k) {
      v.dims[k] = dims[axes[k] - '0'];
      v.strides[k] = strides[axes[k] - '0'];
    }
    return v;
  }

  // Leading axes of one element.
  OPINFO_CALLED View expanded(int to) const {
    View v = *this;
    v.rank = to;
    const int more = to - rank;
    for (int k = 0; k < to; ++k) {
      v.dims[k] = k < more ? 1 : dims[k - more];
      v.strides[k] = k < more ? (rank > 0 ? dims[0] * strides[0] : 1) : strides[k - more];
    }
    return v;
  }

  // Trailing axes of one element.
  OPINFO_CALLED View trailing(int to) const {
    View v = *this;
    for (v.rank = to; to-- > rank;) v.dims[to] = v.strides[to] = 1;
    return v;
  }

  // The axes before the last one as one; those of a plain tensor.
  OPINFO_CALLED View merged() const {
    int64_t rows[2] = {1, dims[rank - 1]};
    for (int k = 0; k + 1 < rank; ++k) rows[0] *= dims[k];
    return plain(rows, 2, type, from);
  }

  // All axes as one; those of a plain tensor.
  OPINFO_CALLED View flat() const {
    int64_t count[1] = {1};
    for (int k = 0; k < rank; ++k) count[0] *= dims[k];
    return plain(count, 1, type, from);
  }

  // The first axis split in `groups` groups, which come first.
  OPINFO_CALLED View grouped(int64_t groups) const {
    if (groups == 1) return *this;
    View v = expanded(rank + 1);
    v.dims[1] /= groups;
    v.dims[0] = groups;
    v.strides[0] = v.dims[1] * strides[0];
    return v;
  }

  Dims extents() const { return Dims(dims, dims + rank); }
  memory::desc desc() const {
    return memory::desc(extents(), type, Dims(strides, strides + rank));
  }
  memory::desc any() const { return memory::desc(extents(), type, memory::format_tag::any); }
};

inline Type type_of(DLDataType t) {
  if (t.lanes == 1) {
    if (t.code == kDLFloat && t.bits == 32) return Type::f32;
    if (t.code == kDLBfloat && t.bits == 16) return Type::bf16;
    if (t.code == kDLInt && t.bits == 32) return Type::s32;
    if (t.code == kDLInt && t.bits == 8) return Type::s8;
    if (t.code == kDLUInt && t.bits == 8) return Type::u8;
  }
  return Type::undef;
}

// A constant of the model, in each layout that a primitive took it in.
class Constant {
 public:
  explicit Constant(const DLTensor* data) : data_(data) {}

  View view(int k) const {
    return View::plain(data_->shape, data_->ndim, type_of(data_->dtype), ~k);
  }

  memory as(const memory::desc& plain, const memory::desc& wanted) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const memory& m : made_)
      if (m.get_desc() == wanted) return m;
    memory from(plain, cpu(), opinfo::data(data_));
    memory to = plain == wanted ? from : memory(wanted, cpu());
    if (plain != wanted) {
      dnnl::reorder(from, to).execute(here(), from, to);
      here().wait();
    }
    made_.push_back(to);
    return to;
  }

  // The layout that later primitives should ask for, so that few copies are made.
  memory::desc preferred(const View& v) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const memory& m : made_)
      if (m.get_desc().get_dims() == v.extents()) return m.get_desc();
    return v.any();
  }

 private:
  const DLTensor* data_;
  std::mutex mutex_;
  std::vector<memory> made_;
};

inline std::vector<std::unique_ptr<Constant>>& constants() {
  static std::vector<std::unique_ptr<Constant>> all;
  return all;
}

OPINFO_CALLED View constant(int k) { return constants()[k]->view(k); }

// What follows the main primitive.
struct Post {
  struct Item {
    bool binary;
    algorithm how;
    float alpha, beta;
    View other;
  };
  std::vector<Item> items;

  OPINFO_CALLED Post();
  OPINFO_CALLED ~Post();
  OPINFO_CALLED void eltwise(algorithm how, float alpha, float beta) {
    items.push_back({false, how, alpha, beta, View{}});
  }
  OPINFO_CALLED void binary(algorithm how, const View& other) {
    items.push_back({true, how, 0, 0, other});
  }
  dnnl::primitive_attr attributes(size_t from, size_t to) const {
    dnnl::post_ops ops;
    for (size_t k = from; k < to; ++k) {
      const Item& i = items[k];
      if (i.binary)
        ops.append_binary(i.how, i.other.desc());
      else
        ops.append_eltwise(i.how, i.alpha, i.beta);
    }
    dnnl::primitive_attr a;
    a.set_post_ops(ops);
    a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return a;
  }
};
Post::Post() = default;
Post::~Post() = default;

// A primitive with its arguments: constants in place, tensors by number.
class Step {
 public:
  // `from` to `to`: the items of `post` that the primitive does too.
  Step(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& pd, const Post& post,
       size_t from, size_t to)
      : primitive_(primitive), scratch_(pd.scratchpad_desc()) {
    for (size_t k = from; k < to; ++k)
      if (post.items[k].binary)
        add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(k - from)) | DNNL_ARG_SRC_1,
            post.items[k].other);
    static const bool verbose = std::getenv("OPINFO_ONEDNN_VERBOSE") != nullptr;
    if (verbose) fprintf(stderr, "onednn: %s\n", pd.impl_info_str());
  }

  Step& add(int arg, const View& v) { return add(arg, v, v.desc()); }

  Step& add(int arg, const View& v, const memory::desc& wanted) {
    if (v.from < 0) {
      fixed_.push_back({arg, constants()[~v.from]->as(v.desc(), wanted)});
    } else if (v.desc() == wanted) {
      given_.push_back({arg, v.from, wanted});
    } else {
      memory a(v.desc(), cpu(), nullptr), b(wanted, cpu(), nullptr);
      turned_.push_back({arg, v.from, v.desc(), wanted, dnnl::reorder(a, b)});
    }
    return *this;
  }

  void operator()(void* const* data) const {
    std::unique_ptr<Arguments> a = free_->take();
    if (!a) a = arguments();
    for (size_t k = 0; k < given_.size(); ++k) a->own[k].set_data_handle(data[given_[k].from]);
    for (size_t k = 0; k < turned_.size(); ++k) {
      memory from(turned_[k].desc, cpu(), data[turned_[k].from]);
      turned_[k].reorder.execute(here(), from, a->own[given_.size() + k]);
    }
    if (scratch_.get_size() > 0) a->own.back().set_data_handle(room(scratch_.get_size()));
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), here().get(),
                                                   static_cast<int>(a->all.size()), a->all.data()),
                            "could not execute a primitive");
    here().wait();
    free_->give(std::move(a));
  }

 private:
  struct Fixed {
    int arg;
    memory data;
  };
  struct Given {
    int arg, from;
    memory::desc desc;
  };
  struct Turned {
    int arg, from;
    memory::desc desc, wanted;
    dnnl::reorder reorder;
  };
  // Memory objects of one call at a time: what is given, what is turned, the scratchpad.
  struct Arguments {
    std::vector<memory> own;
    std::vector<dnnl_exec_arg_t> all;
  };
  class Free {
   public:
    std::unique_ptr<Arguments> take() {
      std::lock_guard<std::mutex> lock(mutex_);
      if (all_.empty()) return nullptr;
      auto last = std::move(all_.back());
      all_.pop_back();
      return last;
    }
    void give(std::unique_ptr<Arguments> a) {
      std::lock_guard<std::mutex> lock(mutex_);
      all_.push_back(std::move(a));
    }

   private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Arguments>> all_;
  };

  std::unique_ptr<Arguments> arguments() const {
    auto a = std::make_unique<Arguments>();
    auto own = [&](int arg, memory m) {
      a->own.push_back(m);
      a->all.push_back({arg, m.get()});
    };
    for (const Given& g : given_) own(g.arg, memory(g.desc, cpu(), nullptr));
    for (const Turned& t : turned_) own(t.arg, memory(t.wanted, cpu()));
    if (scratch_.get_size() > 0) own(DNNL_ARG_SCRATCHPAD, memory(scratch_, cpu(), nullptr));
    for (const Fixed& f : fixed_) a->all.push_back({f.arg, f.data.get()});
    return a;
  }

  static void* room(size_t bytes) {
    struct Release {
      void operator()(void* p) const { std::free(p); }
    };
    static thread_local std::unique_ptr<void, Release> memory;
    static thread_local size_t size = 0;
    if (size < bytes) {
      size = (bytes + 4095) / 4096 * 4096;
      memory.reset(std::aligned_alloc(4096, size));
    }
    return memory.get();
  }

  dnnl::primitive primitive_;
  memory::desc scratch_;
  std::vector<Fixed> fixed_;
  std::vector<Given> given_;
  std::vector<Turned> turned_;
  std::unique_ptr<Free> free_ = std::make_unique<Free>();
};

// What a region does, step by step.
using Kernel = std::vector<Step>;

// The tensors of a call, each as its data type and its extents.
using Shapes = std::vector<Dims>;

OPINFO_CALLED View tensor(const Shapes& in, int k) {
  return View::plain(in[k].data() + 1, static_cast<int>(in[k].size()) - 1,
                     static_cast<Type>(in[k][0]), k);
}

// One region: its kernel, or one for each shape.
class Function {
 public:
  using Make = Kernel (*)(const Shapes&);

  // `spec` has the rank, the type and the extents of each tensor, -1 where one is symbolic.
  Function(const char* name, Make make, int count, const int64_t* spec)
      : name_(name), make_(make), fixed_(true) {
    for (; count > 0; --count, spec += spec[0] + 2) {
      shapes_.emplace_back(spec + 1, spec + spec[0] + 2);
      for (int64_t e : shapes_.back()) fixed_ = fixed_ && e >= 0;
    }
  }

  void prepare() {
    if (fixed_) find(shapes_);
  }

  // The calling convention of TVM's packed functions.
  int safe_call(const TVMFFIAny* args, int32_t count, TVMFFIAny*) {
    return opinfo::guarded([&] { call(args, count); });
  }

 private:
  static constexpr int kMost = 64;

  void call(const TVMFFIAny* args, int32_t count) {
    if (count != static_cast<int32_t>(shapes_.size()) || count > kMost)
      OPINFO_THROW(TypeError) << name_ << ": " << count << " arguments, expected "
                               << shapes_.size();
    void* data[kMost];
    const DLTensor* tensors[kMost];
    for (int k = 0; k < count; ++k) {
      const DLTensor* t = opinfo::tensor(args[k]);
      if (t == nullptr || !fits(*t, shapes_[k]))
        OPINFO_THROW(TypeError) << name_ << ": argument " << k << " is not a plain CPU tensor of "
                                 << told(shapes_[k]);
      tensors[k] = t;
      data[k] = opinfo::data(t);
    }
    const Kernel* only = only_.load(std::memory_order_acquire);
    if (only != nullptr) {
      for (const Step& step : *only) step(data);
    } else {
      const auto kernel = find(fixed_ ? shapes_ : known(tensors));
      for (const Step& step : *kernel) step(data);
    }
  }

  static bool fits(const DLTensor& t, const Dims& spec) {
    return t.device.device_type == kDLCPU && t.ndim + 1 == static_cast<int>(spec.size()) &&
           static_cast<int64_t>(type_of(t.dtype)) == spec[0] &&
           opinfo_regions::is_plain(t, spec.data() + 1);
  }

  static std::string told(const Dims& spec) {
    return opinfo_regions::spelled(dnnl_dt2str(static_cast<dnnl_data_type_t>(spec[0])),
                                   spec.data() + 1, static_cast<int64_t>(spec.size()) - 1);
  }

  Shapes known(const DLTensor* const* tensors) const {
    Shapes out = shapes_;
    for (size_t k = 0; k < out.size(); ++k)
      std::copy(tensors[k]->shape, tensors[k]->shape + tensors[k]->ndim, out[k].begin() + 1);
    return out;
  }

  std::shared_ptr<const Kernel> find(const Shapes& shapes) {
    auto kernel = kernels_.find(
        shapes, [&] { return std::make_shared<const Kernel>(make_(shapes)); });
    if (fixed_) only_.store(kernel.get(), std::memory_order_release);
    return kernel;
  }

  const char* name_;
  Make make_;
  bool fixed_;
  Shapes shapes_;
  opinfo_regions::Kernels<Shapes, Kernel> kernels_;
  std::atomic<const Kernel*> only_{nullptr};
};

OPINFO_CALLED int begin(const TVMFFIAny* args, TVMFFIAny* result, Function* const* functions,
                        int number) {
  return opinfo_regions::take_constants(args, result, constants(), [&] {
    for (int k = 0; k < number; ++k) functions[k]->prepare();
  });
}

// The weights' layout to ask for: the library's choice, or what it chose before.
inline memory::desc wanted(const View& v) {
  return v.from < 0 ? constants()[~v.from]->preferred(v) : v.any();
}

// Whether a primitive is a reference implementation, or does its post-ops with one.
inline bool slow(const dnnl::primitive_desc_base& pd, bool post) {
  const char* name = pd.impl_info_str();
  return std::strncmp(name, "ref", 3) == 0 || (post && std::strncmp(name, "conv:any", 8) == 0);
}

// A primitive that does what it can of `post` from item `from` on: all of it, or as much as it has
// more than a reference implementation for. What is left follows in place, step by step.
template <typename Op, typename Make, typename Bind>
void append(Kernel& out, const Post& post, size_t from, const View& dst, Make make, Bind bind);

OPINFO_CALLED void append_rest(Kernel& out, const Post& post, size_t from, const View& dst) {
  if (from == post.items.size()) return;
  const Post::Item& i = post.items[from];
  if (i.binary) {
    append<dnnl::binary>(
        out, post, from + 1, dst,
        [&](const dnnl::primitive_attr& a) {
          return dnnl::binary::primitive_desc(cpu(), i.how, dst.desc(), i.other.desc(),
                                              dst.desc(), a);
        },
        [&](Step& s, const dnnl::binary::primitive_desc&) {
          s.add(DNNL_ARG_SRC_0, dst).add(DNNL_ARG_SRC_1, i.other);
        });
    return;
  }
  append<dnnl::eltwise_forward>(
      out, post, from + 1, dst,
      [&](const dnnl::primitive_attr& a) {
        return dnnl::eltwise_forward::primitive_desc(cpu(), dnnl::prop_kind::forward_inference,
                                                     i.how, dst.desc(), dst.desc(), i.alpha,
                                                     i.beta, a);
      },
      [&](Step& s, const dnnl::eltwise_forward::primitive_desc&) { s.add(DNNL_ARG_SRC, dst); });
}

template <typename Op, typename Make, typename Bind>
void append(Kernel& out, const Post& post, size_t from, const View& dst, Make make, Bind bind) {
  typename Op::primitive_desc best;
  size_t to = from;
  for (size_t k = post.items.size() + 1; k-- > from && (!best || slow(best, to > from));) {
    try {
      auto pd = make(post.attributes(from, k));
      if (!best || !slow(pd, k > from)) best = pd, to = k;
    } catch (const dnnl::error&) {  // not with these items
    }
  }
  if (!best) best = make(post.attributes(from, from));  // says why not
  Step s(Op(best), best, post, from, to);
  bind(s, best);
  s.add(DNNL_ARG_DST, dst);
  out.push_back(std::move(s));
  append_rest(out, post, to, dst);
}

template <typename Op, typename Make, typename Bind>
Kernel anchored(const Post& post, const View& dst, Make make, Bind bind) {
  Kernel out;
  append<Op>(out, post, 0, dst, make, bind);
  return out;
}

// A convolution, or the transposed one. `sizes`: strides, dilation less one, padding before, after.
template <typename Op>
Kernel window(algorithm how, const View& src, const View& weights, const View* bias,
              const View& dst, const int64_t* sizes, const Post& post) {
  const int n = src.rank - 2;
  const Dims strides(sizes, sizes + n), dilates(sizes + n, sizes + 2 * n),
      left(sizes + 2 * n, sizes + 3 * n), right(sizes + 3 * n, sizes + 4 * n);
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto w = wanted(weights);
  using Desc = typename Op::primitive_desc;
  return anchored<Op>(
      post, dst,
      [&](const dnnl::primitive_attr& a) {
        return bias ? Desc(cpu(), kind, how, src.desc(), w, bias->desc(), dst.desc(), strides,
                           dilates, left, right, a)
                    : Desc(cpu(), kind, how, src.desc(), w, dst.desc(), strides, dilates, left,
                           right, a);
      },
      [&](Step& s, const Desc& pd) {
        s.add(DNNL_ARG_SRC, src).add(DNNL_ARG_WEIGHTS, weights, pd.weights_desc());
        if (bias) s.add(DNNL_ARG_BIAS, *bias);
      });
}

OPINFO_CALLED Kernel convolution(const View& src, const View& weights, const View* bias,
                                 const View& dst, const int64_t* sizes, const Post& post) {
  return window<dnnl::convolution_forward>(algorithm::convolution_direct, src, weights, bias, dst,
                                           sizes, post);
}

OPINFO_CALLED Kernel deconvolution(const View& src, const View& weights, const View* bias,
                                   const View& dst, const int64_t* sizes, const Post& post) {
  return window<dnnl::deconvolution_forward>(algorithm::deconvolution_direct, src, weights, bias,
                                             dst, sizes, post);
}

OPINFO_CALLED Kernel matmul(const View& src, const View& weights, const View* bias,
                            const View& dst, const Post& post) {
  const auto w = weights.from < 0 ? wanted(weights) : weights.desc();
  using Desc = dnnl::matmul::primitive_desc;
  return anchored<dnnl::matmul>(
      post, dst,
      [&](const dnnl::primitive_attr& a) {
        return bias ? Desc(cpu(), src.desc(), w, bias->desc(), dst.desc(), a)
                    : Desc(cpu(), src.desc(), w, dst.desc(), a);
      },
      [&](Step& s, const Desc& pd) {
        s.add(DNNL_ARG_SRC, src).add(DNNL_ARG_WEIGHTS, weights, pd.weights_desc());
        if (bias) s.add(DNNL_ARG_BIAS, *bias);
      });
}

// `sizes`: strides, window, dilation less one, padding before, after.
OPINFO_CALLED Kernel pooling(algorithm how, const View& src, const View& dst,
                             const int64_t* sizes, const Post& post) {
  const int n = src.rank - 2;
  const Dims strides(sizes, sizes + n), window(sizes + n, sizes + 2 * n),
      dilates(sizes + 2 * n, sizes + 3 * n), left(sizes + 3 * n, sizes + 4 * n),
      right(sizes + 4 * n, sizes + 5 * n);
  using Desc = dnnl::pooling_forward::primitive_desc;
  return anchored<dnnl::pooling_forward>(
      post, dst,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), dnnl::prop_kind::forward_inference, how, src.desc(), dst.desc(),
                    strides, window, dilates, left, right, a);
      },
      [&](Step& s, const Desc&) { s.add(DNNL_ARG_SRC, src); });
}

OPINFO_CALLED Kernel softmax(algorithm how, const View& src, const View& dst, int axis,
                             const Post& post) {
  using Desc = dnnl::softmax_forward::primitive_desc;
  return anchored<dnnl::softmax_forward>(
      post, dst,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), dnnl::prop_kind::forward_inference, how, src.desc(), dst.desc(), axis,
                    a);
      },
      [&](Step& s, const Desc&) { s.add(DNNL_ARG_SRC, src); });
}

OPINFO_CALLED Kernel layer_norm(const View& src, const View* scale, const View* shift,
                                const View& dst, float epsilon, const Post& post) {
  auto flags = dnnl::normalization_flags::none;
  if (scale) flags |= dnnl::normalization_flags::use_scale;
  if (shift) flags |= dnnl::normalization_flags::use_shift;
  using Desc = dnnl::layer_normalization_forward::primitive_desc;
  return anchored<dnnl::layer_normalization_forward>(
      post, dst,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), dnnl::prop_kind::forward_inference, src.desc(), dst.desc(), epsilon,
                    flags, a);
      },
      [&](Step& s, const Desc&) {
        s.add(DNNL_ARG_SRC, src);
        if (scale) s.add(DNNL_ARG_SCALE, *scale);
        if (shift) s.add(DNNL_ARG_SHIFT, *shift);
      });
}

OPINFO_CALLED Kernel concat(const View* parts, int count, const View& dst, int axis,
                            const Post& post) {
  std::vector<memory::desc> given;
  for (int k = 0; k < count; ++k) given.push_back(parts[k].desc());
  using Desc = dnnl::concat::primitive_desc;
  return anchored<dnnl::concat>(
      post, dst,
      [&](const dnnl::primitive_attr& a) { return Desc(cpu(), dst.desc(), axis, given, a); },
      [&](Step& s, const Desc&) {
        for (int k = 0; k < count; ++k) s.add(DNNL_ARG_MULTIPLE_SRC + k, parts[k]);
      });
}

// A chain of pointwise operators that begins with two operands.
OPINFO_CALLED Kernel binary(algorithm how, const View& one, const View& two, const View& dst,
                            const Post& post) {
  using Desc = dnnl::binary::primitive_desc;
  return anchored<dnnl::binary>(
      post, dst,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), how, one.desc(), two.desc(), dst.desc(), a);
      },
      [&](Step& s, const Desc&) { s.add(DNNL_ARG_SRC_0, one).add(DNNL_ARG_SRC_1, two); });
}

OPINFO_CALLED Kernel eltwise(algorithm how, float alpha, float beta, const View& src,
                             const View& dst, const Post& post) {
  using Desc = dnnl::eltwise_forward::primitive_desc;
  return anchored<dnnl::eltwise_forward>(
      post, dst,
      [&](const dnnl::primitive_attr& a) {
        return Desc(cpu(), dnnl::prop_kind::forward_inference, how, src.desc(), dst.desc(), alpha,
                    beta, a);
      },
      [&](Step& s, const Desc&) { s.add(DNNL_ARG_SRC, src); });
}

}  // namespace
}  // namespace opinfo_onednn

using namespace opinfo_onednn;
