// What the generated functions of the onednn backend share: tensors as strided views, constants that
// are reordered once, primitives that are made once for each shape.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/tvm_ffi.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

namespace opinfo_onednn {
namespace {  // two models in one process share nothing

using dnnl::algorithm;
using dnnl::memory;
using tvm::ffi::TensorView;
using Dims = memory::dims;
using Axes = std::vector<int>;

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
  Dims dims, strides;
  int from;

  static View plain(const Dims& dims, int from) {
    View v{dims, Dims(dims.size()), from};
    memory::dim step = 1;
    for (size_t k = dims.size(); k-- > 0;) {
      v.strides[k] = step;
      step *= dims[k];
    }
    return v;
  }

  View permuted(const Axes& axes) const {
    View v{{}, {}, from};
    for (int a : axes) {
      v.dims.push_back(dims[a]);
      v.strides.push_back(strides[a]);
    }
    return v;
  }

  // Leading axes of one element.
  View expanded(size_t rank) const {
    View v = *this;
    memory::dim step = dims.empty() ? 1 : dims[0] * strides[0];
    v.dims.insert(v.dims.begin(), rank - dims.size(), 1);
    v.strides.insert(v.strides.begin(), rank - dims.size(), step);
    return v;
  }

  // The axes before the last one as one; those of a plain tensor.
  View merged() const {
    memory::dim rows = 1;
    for (size_t k = 0; k + 1 < dims.size(); ++k) rows *= dims[k];
    return plain({rows, dims.back()}, from);
  }

  // The axis split in `groups` groups, which come first.
  View grouped(memory::dim groups, size_t axis) const {
    if (groups == 1) return *this;
    View v = *this;
    v.dims[axis] /= groups;
    v.dims.insert(v.dims.begin(), groups);
    v.strides.insert(v.strides.begin(), v.dims[axis + 1] * strides[axis]);
    return v;
  }

  memory::desc desc() const { return memory::desc(dims, memory::data_type::f32, strides); }
  memory::desc any() const {
    return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
  }
};

// A constant of the model, in each layout that a primitive took it in.
class Constant {
 public:
  explicit Constant(tvm::ffi::Tensor data) : data_(data) {}

  memory as(const memory::desc& plain, const memory::desc& wanted) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const memory& m : made_)
      if (m.get_desc() == wanted) return m;
    memory from(plain, cpu(), data_.data_ptr());
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
      if (m.get_desc().get_dims() == v.dims) return m.get_desc();
    return v.any();
  }

 private:
  tvm::ffi::Tensor data_;
  std::mutex mutex_;
  std::vector<memory> made_;
};

inline std::vector<std::unique_ptr<Constant>>& constants() {
  static std::vector<std::unique_ptr<Constant>> all;
  return all;
}

// What follows the main primitive.
struct Post {
  dnnl::post_ops ops;
  std::vector<std::pair<int, View>> operands;

  Post& eltwise(algorithm how, float alpha, float beta) {
    ops.append_eltwise(how, alpha, beta);
    return *this;
  }
  Post& binary(algorithm how, const View& other) {
    operands.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(ops.len()) | DNNL_ARG_SRC_1, other);
    ops.append_binary(how, other.desc());
    return *this;
  }
  dnnl::primitive_attr attributes() const {
    dnnl::primitive_attr a;
    a.set_post_ops(ops);
    a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return a;
  }
};

// A primitive with its arguments: constants in place, tensors by number.
class Kernel {
 public:
  template <class Descriptor>
  Kernel(const dnnl::primitive& primitive, const Descriptor& pd, const Post& post)
      : primitive_(primitive), scratch_(pd.scratchpad_desc()) {
    for (const auto& [arg, view] : post.operands) add(arg, view);
    static const bool verbose = std::getenv("OPINFO_ONEDNN_VERBOSE") != nullptr;
    if (verbose) fprintf(stderr, "onednn: %s\n", pd.impl_info_str());
  }

  Kernel& add(int arg, const View& v) { return add(arg, v, v.desc()); }

  Kernel& add(int arg, const View& v, const memory::desc& wanted) {
    if (v.from < 0) {
      fixed_.emplace(arg, constants()[~v.from]->as(v.desc(), wanted));
    } else if (v.desc() == wanted) {
      given_.push_back({arg, v.from, wanted});
    } else {
      memory a(v.desc(), cpu(), nullptr), b(wanted, cpu(), nullptr);
      turned_.push_back({arg, v.from, v.desc(), wanted, dnnl::reorder(a, b)});
    }
    return *this;
  }

  void operator()(void* const* data) const {
    auto arguments = fixed_;
    for (const Given& g : given_) arguments.emplace(g.arg, memory(g.desc, cpu(), data[g.from]));
    for (const Turned& t : turned_) {
      memory from(t.desc, cpu(), data[t.from]), to(t.wanted, cpu());
      t.reorder.execute(here(), from, to);
      arguments.emplace(t.arg, to);
    }
    if (scratch_.get_size() > 0)
      arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(scratch_, cpu(), room(scratch_.get_size())));
    primitive_.execute(here(), arguments);
    here().wait();
  }

 private:
  struct Given {
    int arg, from;
    memory::desc desc;
  };
  struct Turned {
    int arg, from;
    memory::desc desc, wanted;
    dnnl::reorder reorder;
  };

  static void* room(size_t bytes) {
    struct Free {
      void operator()(void* p) const { std::free(p); }
    };
    static thread_local std::unique_ptr<void, Free> memory;
    static thread_local size_t size = 0;
    if (size < bytes) {
      size = (bytes + 4095) / 4096 * 4096;
      memory.reset(std::aligned_alloc(4096, size));
    }
    return memory.get();
  }

  dnnl::primitive primitive_;
  memory::desc scratch_;
  std::unordered_map<int, memory> fixed_;
  std::vector<Given> given_;
  std::vector<Turned> turned_;
};

// One region: its kernel, or one for each shape.
class Function {
 public:
  using Shapes = std::vector<Dims>;
  using Make = Kernel (*)(const Shapes&);

  // `fixed` are the shapes of all tensors where none is symbolic.
  Function(Make make, Shapes fixed) : make_(make), shapes_(std::move(fixed)) {}

  void prepare() {
    if (!shapes_.empty()) find(shapes_);
  }

  template <class... Tensors>
  void operator()(const Tensors&... tensors) {
    void* data[] = {static_cast<char*>(tensors.data_ptr()) + tensors.byte_offset()...};
    const Kernel* only = only_.load(std::memory_order_acquire);
    if (only != nullptr) {
      (*only)(data);
    } else {
      auto kernel = find(shapes_.empty() ? Shapes{dims(tensors)...} : shapes_);
      (*kernel)(data);
    }
  }

 private:
  static Dims dims(const TensorView& t) { return Dims(t.shape().begin(), t.shape().end()); }

  std::shared_ptr<const Kernel> find(const Shapes& shapes) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = made_.find(shapes);
    if (found != made_.end()) return found->second;
    if (made_.size() >= 256) made_.clear();
    auto kernel = std::make_shared<const Kernel>(make_(shapes));
    made_.emplace(shapes, kernel);
    if (!shapes_.empty()) only_.store(kernel.get(), std::memory_order_release);
    return kernel;
  }

  Make make_;
  Shapes shapes_;
  std::mutex mutex_;
  std::map<Shapes, std::shared_ptr<const Kernel>> made_;
  std::atomic<const Kernel*> only_{nullptr};
};

// The weights' layout to ask for: the library's choice, or what it chose before.
inline memory::desc wanted(const View& v) {
  return v.from < 0 ? constants()[~v.from]->preferred(v) : v.any();
}

// A convolution, or the transposed one: the same arguments in the same order.
template <typename Op>
Kernel window(algorithm how, const View& src, const View& weights, const View* bias,
              const View& dst, const Dims& strides, const Dims& dilates, const Dims& left,
              const Dims& right, const Post& post) {
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto w = wanted(weights);
  const auto a = post.attributes();
  using Desc = typename Op::primitive_desc;
  auto pd = bias ? Desc(cpu(), kind, how, src.desc(), w, bias->desc(), dst.desc(), strides,
                        dilates, left, right, a)
                 : Desc(cpu(), kind, how, src.desc(), w, dst.desc(), strides, dilates, left,
                        right, a);
  Kernel k(Op(pd), pd, post);
  k.add(DNNL_ARG_SRC, src).add(DNNL_ARG_WEIGHTS, weights, pd.weights_desc());
  if (bias) k.add(DNNL_ARG_BIAS, *bias);
  return k.add(DNNL_ARG_DST, dst);
}

inline Kernel convolution(const View& src, const View& weights, const View* bias, const View& dst,
                          const Dims& strides, const Dims& dilates, const Dims& left,
                          const Dims& right, const Post& post) {
  return window<dnnl::convolution_forward>(algorithm::convolution_direct, src, weights, bias, dst,
                                           strides, dilates, left, right, post);
}

inline Kernel deconvolution(const View& src, const View& weights, const View* bias,
                            const View& dst, const Dims& strides, const Dims& dilates,
                            const Dims& left, const Dims& right, const Post& post) {
  return window<dnnl::deconvolution_forward>(algorithm::deconvolution_direct, src, weights, bias,
                                             dst, strides, dilates, left, right, post);
}

inline Kernel matmul(const View& src, const View& weights, const View* bias, const View& dst,
                     const Post& post) {
  using Op = dnnl::matmul;
  const auto w = weights.from < 0 ? wanted(weights) : weights.desc();
  const auto a = post.attributes();
  auto pd = bias ? Op::primitive_desc(cpu(), src.desc(), w, bias->desc(), dst.desc(), a)
                 : Op::primitive_desc(cpu(), src.desc(), w, dst.desc(), a);
  Kernel k(Op(pd), pd, post);
  k.add(DNNL_ARG_SRC, src).add(DNNL_ARG_WEIGHTS, weights, pd.weights_desc());
  if (bias) k.add(DNNL_ARG_BIAS, *bias);
  return k.add(DNNL_ARG_DST, dst);
}

inline Kernel pooling(algorithm how, const View& src, const View& dst, const Dims& strides,
                      const Dims& window, const Dims& dilates, const Dims& left,
                      const Dims& right, const Post& post) {
  using Op = dnnl::pooling_forward;
  auto pd = Op::primitive_desc(cpu(), dnnl::prop_kind::forward_inference, how, src.desc(),
                               dst.desc(), strides, window, dilates, left, right,
                               post.attributes());
  Kernel k(Op(pd), pd, post);
  return k.add(DNNL_ARG_SRC, src).add(DNNL_ARG_DST, dst);
}

inline Kernel softmax(algorithm how, const View& src, const View& dst, int axis,
                      const Post& post) {
  using Op = dnnl::softmax_forward;
  auto pd = Op::primitive_desc(cpu(), dnnl::prop_kind::forward_inference, how, src.desc(),
                               dst.desc(), axis, post.attributes());
  Kernel k(Op(pd), pd, post);
  return k.add(DNNL_ARG_SRC, src).add(DNNL_ARG_DST, dst);
}

inline Kernel layer_norm(const View& src, const View* scale, const View* shift, const View& dst,
                         float epsilon, const Post& post) {
  using Op = dnnl::layer_normalization_forward;
  auto flags = dnnl::normalization_flags::none;
  if (scale) flags |= dnnl::normalization_flags::use_scale;
  if (shift) flags |= dnnl::normalization_flags::use_shift;
  auto pd = Op::primitive_desc(cpu(), dnnl::prop_kind::forward_inference, src.desc(), dst.desc(),
                               epsilon, flags, post.attributes());
  Kernel k(Op(pd), pd, post);
  if (scale) k.add(DNNL_ARG_SCALE, *scale);
  if (shift) k.add(DNNL_ARG_SHIFT, *shift);
  return k.add(DNNL_ARG_SRC, src).add(DNNL_ARG_DST, dst);
}

// A chain of pointwise operators that begins with two operands.
inline Kernel binary(algorithm how, const View& one, const View& two, const View& dst,
                     const Post& post) {
  using Op = dnnl::binary;
  auto pd = Op::primitive_desc(cpu(), how, one.desc(), two.desc(), dst.desc(), post.attributes());
  Kernel k(Op(pd), pd, post);
  return k.add(DNNL_ARG_SRC_0, one).add(DNNL_ARG_SRC_1, two).add(DNNL_ARG_DST, dst);
}

inline Kernel eltwise(algorithm how, float alpha, float beta, const View& src, const View& dst,
                      const Post& post) {
  using Op = dnnl::eltwise_forward;
  auto pd = Op::primitive_desc(cpu(), dnnl::prop_kind::forward_inference, how, src.desc(),
                               dst.desc(), alpha, beta, post.attributes());
  Kernel k(Op(pd), pd, post);
  return k.add(DNNL_ARG_SRC, src).add(DNNL_ARG_DST, dst);
}

}  // namespace
}  // namespace opinfo_onednn

using namespace opinfo_onednn;
