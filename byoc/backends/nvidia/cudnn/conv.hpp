// A convolution and what follows it: its tensors as cuDNN sees them, and graphs that compute it. It
// follows cudnn_plans.hpp and conv_phases.hpp.
namespace opinfo_nvidia {
namespace {

// y = activation(x * w + residual + bias) + added. `order`: the axes of x and y as N, C, then the
// pixels. `last`: channels are the last axis of x and y, and the axes of w are O, pixels, I; else O, I,
// pixels.
struct Conv {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool last = false;
  bool transposed = false;  // the axes of w are those of the convolution that it is a gradient of
  std::vector<int> order;
  Extents strides, dilation, padding;
  int64_t groups = 1;
  Operand x, w, y, residual, bias, added;
  Activation activation = kIdentity;
  double limit = 0.0;  // of a clipped relu
  double slope = 0.0;  // of a leaky relu below 0
  Operand offset, factor;  // of hard swish, one float each: x * min(max(x + offset, 0), limit) * factor
  int kernels = 0;  // the number of the constant that is compiled from epilogue.cu
  int grouped = -1;  // and of that from grouped.cu, negative if there is none

  bool has_epilogue() const { return residual || bias || added || activation != kIdentity; }
};

// The ways to compute it.
enum Form {
  kWhole,      // one graph
  kWithZeros,  // with a residual times 0: the fused kernels of float32 expect one
  kAlone,      // the convolution, then all else as one kernel of our own
  kConverted,  // as above, in the other layout: channels first for last, and last for first
  kPhased,     // a transposed one as a convolution with channels last, then a kernel that orders pixels
  kGrouped,    // a kernel of our own for groups, without cuDNN
  kForms
};
// Tensors of a form's own, as in the other layout. The names are not those of attention_plans.h, which follows.
enum Own { kOwnImage, kOwnWeights, kOwnResult, kOwned };

class ConvGraphs {
 public:
  ConvGraphs(const Conv& v, const char* name, int64_t alignment)
      : v_(v), alignment_(alignment), y_(image(v.y.extents, v.last)) {
    check_operands(name);
    if (v_.residual) steps_.push_back({CUDNN_POINTWISE_ADD, y_, v_.residual, 0.0});
    if (v_.bias) steps_.push_back({CUDNN_POINTWISE_ADD, by_channel(), v_.bias, 0.0});
    add_activation();
    if (v_.added) steps_.push_back({CUDNN_POINTWISE_ADD, y_, v_.added, 0.0});
    if (has_phases()) find_phases();
  }

  bool applies(int form) const {
    constexpr int64_t kMost = (int64_t{1} << 31) - 1;  // kernels count elements in 32 bits
    const bool counted = std::max({v_.x.count(), v_.w.count(), v_.y.count()}) <= kMost;
    switch (form) {
      case kWhole: return true;
      case kWithZeros: return v_.type == CUDNN_DATA_FLOAT && v_.bias && !v_.residual;
      case kAlone: return v_.has_epilogue() && counted;
      // Halves are convolved by tensor cores, which have one layout: it was chosen for the model.
      case kConverted:
        return v_.type == CUDNN_DATA_FLOAT && counted && own_bytes(form) <= kWorkspace;
      case kGrouped: return v_.grouped >= 0 && alignment_ >= 16 && counted;
      default: return has_phases() && counted && own_bytes(form) <= kWorkspace;
    }
  }

  // Raises if cuDNN refuses an operation. That of `kGrouped` is empty.
  Graph graph(int form) const {
    if (form == kGrouped) return {};
    if (form == kPhased) return phased_graph();
    const bool own = form == kConverted, last = v_.last != own;
    const bool follows = form <= kWithZeros && !steps_.empty();
    Graph g;
    const View x_view = image(v_.x.extents, last), y_view = image(v_.y.extents, last);
    const int x = own ? g.own(x_view, kOwnImage) : g.tensor(x_view, v_.x);
    const int w = own ? g.own(kernel(last), kOwnWeights) : g.tensor(kernel(last), v_.w);
    const int y = follows ? g.intermediate(y_)
                  : own   ? g.own(y_view, kOwnResult)
                          : g.tensor(y_, v_.y);
    g.convolution(pixels(v_.padding, 0), pixels(v_.strides, 1), pixels(v_.dilation, 1),
                  v_.transposed, x, w, y);
    if (follows) follow(g, form == kWithZeros ? with_zeros(g, y) : y);
    return g;
  }

  // The bytes of a tensor of a form's own, which follow those of the others.
  int64_t own_bytes(int form, int tensor) const {
    const int64_t element = v_.type == CUDNN_DATA_FLOAT ? 4 : 2;
    return (own_count(form, tensor) * element + 255) / 256 * 256;
  }
  int64_t own_bytes(int form) const {
    return own_bytes(form, kOwnImage) + own_bytes(form, kOwnWeights) + own_bytes(form, kOwnResult);
  }

  // Whether cuDNN copies images whose groups have so many channels, which takes longer than to convolve
  // them: its kernels for groups are for powers of two.
  bool copies() const {
    const int64_t in = v_.w.last(1);
    return v_.grouped >= 0 && (in & (in - 1)) != 0;
  }
  // What kernels of groups are given, but for tensors and tiles.
  Grouped grouped() const {
    Grouped g{};
    g.groups = static_cast<int>(v_.groups);
    for (int k = 0; k < 2; ++k) {
      g.image[k] = static_cast<int>(v_.x.extents[1 + k]);
      g.result[k] = static_cast<int>(v_.y.extents[1 + k]);
      g.strides[k] = static_cast<int>(v_.strides[k]);
      g.dilation[k] = static_cast<int>(v_.dilation[k]);
      g.padding[k] = static_cast<int>(v_.padding[k]);
    }
    return g;
  }
  // Of the form `kPhased`.
  const ConvPhases& phases() const { return phases_; }
  // The pixels of the weights.
  const int64_t* window() const { return v_.w.extents.data() + (v_.last ? 1 : 2); }

  // All that the best way depends on, but for the device.
  std::string key() const {
    std::ostringstream out;
    out << "convolution " << v_.type << v_.last << v_.transposed << " g" << v_.groups << " a"
        << alignment_;
    const auto put = [&](const char* name, const Extents& e) {
      out << " " << name;
      for (int64_t k : e) out << "," << k;
    };
    put("order", Extents(v_.order.begin(), v_.order.end()));
    put("x", v_.x.extents);
    put("w", v_.w.extents);
    put("y", v_.y.extents);
    put("s", v_.strides);
    put("d", v_.dilation);
    put("p", v_.padding);
    out << " +" << bool(v_.residual) << bool(v_.bias) << bool(v_.added) << " act " << v_.activation
        << " " << v_.limit << " " << v_.slope << " own" << (v_.grouped >= 0) << " w" << (v_.w.from < 0) << " forms " << kForms;
    return out.str();
  }

 private:
  // Whether steps of a transposed convolution of images leave phases.
  bool has_phases() const {
    return v_.transposed && v_.groups == 1 && v_.strides.size() == 2 &&
           v_.strides[0] * v_.strides[1] > 1 && v_.dilation == Extents(2, 1);
  }

  void find_phases() {
    const View x = image(v_.x.extents, true);
    phases_.images = x.extents[0], phases_.in = x.extents[1], phases_.out = y_.extents[1];
    for (int k = 0; k < 2; ++k)
      phases_.axes[k] = phased_axis(x.extents[2 + k], y_.extents[2 + k], window()[k], v_.strides[k],
                                    v_.padding[k]);
  }

  Graph phased_graph() const {
    const PhasedAxis* axes = phases_.axes;
    Graph g;
    const View x_view = image(v_.x.extents, true);
    const int x = v_.last ? g.tensor(x_view, v_.x) : g.own(x_view, kOwnImage);
    const int w = g.own(view(phases_.weights(), true), kOwnWeights);
    const int y = g.own(view(phases_.results(), true), kOwnResult);
    g.convolution({axes[0].padding, axes[1].padding}, {1, 1}, {1, 1}, false, x, w, y);
    return g;
  }

  int64_t own_count(int form, int tensor) const {
    if (tensor == kOwnImage) return form == kPhased && v_.last ? 0 : v_.x.count();
    if (form != kPhased) return tensor == kOwnWeights ? v_.w.count() : v_.y.count();
    int64_t count = 1;
    for (int64_t e : tensor == kOwnWeights ? phases_.weights() : phases_.results()) count *= e;
    return count;
  }

  // One axis of pixels is a row of an image.
  static Extents pixels(Extents sizes, int64_t unit) {
    if (sizes.size() == 1) sizes.insert(sizes.begin(), unit);
    return sizes;
  }

  // N or O, channels, then pixels; in memory, channels are the last of these axes or the second.
  View view(const Extents& sizes, bool last) const {
    const size_t rank = sizes.size();
    View out{v_.type, sizes, Extents(rank, 1), alignment_};
    int64_t step = last ? sizes[1] : 1;
    for (size_t k = rank; k-- > 2; step *= sizes[k]) out.steps[k] = step;
    out.steps[1] = last ? 1 : step;
    out.steps[0] = last ? step : step * sizes[1];
    if (rank == 3) {
      out.extents.insert(out.extents.begin() + 2, 1);
      out.steps.insert(out.steps.begin() + 2, out.steps[2] * sizes[2]);
    }
    return out;
  }

  View image(const Extents& extents, bool last) const {
    Extents sizes;
    for (int axis : v_.order) sizes.push_back(extents[axis]);
    return view(sizes, last);
  }

  View kernel(bool last) const {
    Extents sizes = v_.w.extents;
    if (v_.last) std::rotate(sizes.begin() + 1, sizes.end() - 1, sizes.end());
    return view(sizes, last);
  }

  View by_channel() const {
    View out{v_.type, Extents(y_.extents.size(), 1), Extents(y_.extents.size(), 1), alignment_};
    out.extents[1] = out.steps[0] = y_.extents[1];
    return out;
  }

  View number() const {
    const Extents ones(y_.extents.size(), 1);
    return {CUDNN_DATA_FLOAT, ones, ones, alignment_};
  }

  void add_activation() {
    switch (v_.activation) {
      case kIdentity: return;
      case kRelu: return steps_.push_back({CUDNN_POINTWISE_RELU_FWD, {}, {}, v_.limit});
      case kSigmoid: return steps_.push_back({CUDNN_POINTWISE_SIGMOID_FWD, {}, {}, 0.0});
      case kTanh: return steps_.push_back({CUDNN_POINTWISE_TANH_FWD, {}, {}, 0.0});
      case kSilu: return steps_.push_back({CUDNN_POINTWISE_SWISH_FWD, {}, {}, 0.0});
      case kLeakyRelu:
        return steps_.push_back({CUDNN_POINTWISE_RELU_FWD, {}, {}, 0.0, false, v_.slope});
      case kHardSwish: break;
    }
    gate_ = steps_.size();
    steps_.push_back({CUDNN_POINTWISE_ADD, number(), v_.offset, 0.0});
    steps_.push_back({CUDNN_POINTWISE_RELU_FWD, {}, {}, v_.limit});
    steps_.push_back({CUDNN_POINTWISE_MUL, {}, {}, 0.0, true});
    steps_.push_back({CUDNN_POINTWISE_MUL, number(), v_.factor, 0.0});
  }

  void check_operands(const char* name) const {
    const View x = image(v_.x.extents, v_.last), w = kernel(v_.last);
    const auto& [in, out] = v_.transposed ? std::tie(y_, x) : std::tie(x, y_);
    if (w.extents[0] != out.extents[1] || w.extents[1] * v_.groups != in.extents[1])
      OPINFO_THROW(ValueError) << name << ": the weights do not fit the channels";
    if (v_.bias && v_.bias.count() != y_.extents[1])
      OPINFO_THROW(ValueError) << name << ": a bias of " << v_.bias.count() << " for "
                               << y_.extents[1] << " channels";
    for (const Operand* o : {&v_.residual, &v_.added})
      if (*o && o->extents != v_.y.extents)
        OPINFO_THROW(ValueError) << name << ": an addend that is not as large as the result";
  }

  // The result is the residual: what it holds does not matter.
  int with_zeros(Graph& g, int from) const {
    const int to = g.intermediate(y_);
    g.pointwise({CUDNN_POINTWISE_ADD, y_, v_.y, 0.0}, from, g.tensor(y_, v_.y), to, 0.0f);
    return to;
  }

  void follow(Graph& g, int from) const {
    int gated = -1;
    for (size_t k = 0; k < steps_.size(); ++k) {
      const Step& s = steps_[k];
      if (k == gate_) gated = from;
      const int other = s.gated ? gated : s.other ? g.tensor(s.view, s.other) : -1;
      const int to = k + 1 == steps_.size() ? g.tensor(y_, v_.y) : g.intermediate(y_);
      g.pointwise(s, from, other, to);
      from = to;
    }
  }

  const Conv& v_;
  int64_t alignment_;
  View y_;
  std::vector<Step> steps_;
  size_t gate_ = SIZE_MAX;  // the first step of a hard swish
  ConvPhases phases_;
};

}  // namespace
}  // namespace opinfo_nvidia
