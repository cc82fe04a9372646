// A convolution and what follows it, as plans of cuDNN. It follows cudnn_winograd.hpp.
namespace opinfo_nvidia {
namespace {

constexpr int kNoActivation = -1, kHardSwish = -2;

// y = act(x * w + residual + bias) + added. `order`: the axes of x and y as N, C, then the pixels.
struct Conv {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool last = false;        // the axes of w: O, pixels, I; else O, I, pixels
  bool transposed = false;  // the axes of w are those of the convolution that it is a gradient of
  std::vector<int> order;
  Extents strides, dilation, padding;
  int64_t groups = 1;
  Operand x, w, y, residual, bias, added;
  int activation = kNoActivation;
  double limit = 0.0;  // of a clipped relu
  Operand offset, factor;  // of hard swish, one float each: x * min(max(x + offset, 0), limit) * factor
};

// The ways to compute it.
enum Form {
  kWhole,      // one graph
  kWithZeros,  // with a residual times 0: the fused kernels of float32 expect one
  kSplit,      // the convolution, then the rest as a graph
  kInSteps,    // the convolution, then a kernel for each step
  kForms
};

class Convolution : public Kernel {
 public:
  Convolution(const Context& c, const Conv& v)
      : v_(v), name_(c.name), device_(c.device), alignment_(std::min(c.alignment, 16)) {
    y_ = image(v_.y.extents);
    check_operands();
    if (v_.residual) steps_.push_back({CUDNN_POINTWISE_ADD, y_, v_.residual, 0.0});
    if (v_.bias) steps_.push_back({CUDNN_POINTWISE_ADD, by_channel(), v_.bias, 0.0});
    if (v_.activation == kHardSwish)
      add_hard_swish();
    else if (v_.activation != kNoActivation)
      steps_.push_back({static_cast<cudnnPointwiseMode_t>(v_.activation), {}, {}, v_.limit});
    if (v_.added) steps_.push_back({CUDNN_POINTWISE_ADD, y_, v_.added, 0.0});
    key_ = key();
    if (c.known != nullptr) {
      *c.known = usable(Records::all().find(key_));
      return;
    }
    ways_ = ways_of(key_);
    std::unique_lock<std::mutex> lock(ways_->mutex, std::defer_lock);
    if (c.data != nullptr)
      lock.lock();
    else if (!lock.try_lock())
      return;  // another thread prepares the same
    if (ways_->form < 0) find(c, key_, *ways_);
    if (c.data != nullptr) way_ = way(ways_->form, ways_->plans);
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    cudnnHandle_t h = handle_on(device_);
    check(cudnnSetStream(h, stream), "cudnnSetStream");
    const std::shared_ptr<const Way> way = std::atomic_load(&way_);
    const cudnnStatus_t status = launched(h, *way, data, stream);
    if (status != CUDNN_STATUS_SUCCESS) recover(h, *way, data, stream, status);
  }

 private:
  struct Part {
    Graph graph;
    Plan plan;
  };

  struct Way {
    int form = kWhole;
    std::vector<Part> parts;
    int64_t bytes = 0;
    Record record;
  };

  std::shared_ptr<const Way> way(int form, const std::vector<Plan>& plans) const {
    auto out = std::make_shared<Way>();
    out->form = out->record.form = form;
    const std::vector<Graph> parts = graphs(form);
    for (size_t k = 0; k < parts.size(); ++k) {
      out->parts.push_back({parts[k], plans[k]});
      out->bytes = std::max(out->bytes, plans[k].bytes);
      out->record.choices.push_back(plans[k].choice);
    }
    return out;
  }

  // The first status other than success.
  cudnnStatus_t launched(cudnnHandle_t h, const Way& way, void* const* data,
                         cudaStream_t stream) const {
    const int64_t scratch = way.form == kSplit ? scratch_bytes() : 0;
    char* room = static_cast<char*>(workspace(device_, stream, scratch + way.bytes));
    for (const Part& p : way.parts) {
      const cudnnStatus_t status = p.plan.run(h, p.graph, data, room, room + scratch);
      if (status != CUDNN_STATUS_SUCCESS) return status;
    }
    return way.form == kInSteps ? in_steps(h, data) : CUDNN_STATUS_SUCCESS;
  }

  // cuDNN refused to run the chosen way: this call and later ones take the first that it runs.
  void recover(cudnnHandle_t h, const Way& failed, void* const* data, cudaStream_t stream,
               cudnnStatus_t status) const {
    std::lock_guard<std::mutex> lock(ways_->mutex);
    for (int form = kShared; form < kForms; ++form) {
      for (const std::shared_ptr<const Way>& other : others(h, form)) {
        if (other->record.text() == failed.record.text() ||
            launched(h, *other, data, stream) != CUDNN_STATUS_SUCCESS)
          continue;
        std::fprintf(stderr, "opinfo: %s: cuDNN does not run the engine that was chosen (%s); "
                     "another one is taken\n", name_, cudnnGetErrorString(status));
        ways_->form = other->form;
        ways_->plans.clear();
        for (const Part& p : other->parts) ways_->plans.push_back(p.plan);
        Records::all().put(key_, other->record);
        std::atomic_store(&way_, other);
        return;
      }
    }
    check(status, name_);
  }

  static constexpr int kShared = -1;

  // Ways of a form; of `kShared`, what a region with the same convolution has taken meanwhile.
  std::vector<std::shared_ptr<const Way>> others(cudnnHandle_t h, int form) const {
    constexpr size_t kMost = 8;
    if (form == kShared) return {way(ways_->form, ways_->plans)};
    std::vector<std::shared_ptr<const Way>> out;
    if (!applies(form)) return out;
    try {
      const std::vector<Graph> parts = graphs(form);
      const std::vector<Plan> first = first_plans(h, parts[0], v_.type, kMost);
      const std::vector<Plan> second =
          parts.size() > 1 ? first_plans(h, parts[1], v_.type, kMost) : std::vector<Plan>(1);
      for (const Plan& a : first)
        for (const Plan& b : second) out.push_back(way(form, {a, b}));
    } catch (const opinfo::Error&) {  // cuDNN refuses an operation of this form
    }
    return out;
  }

  // One axis of pixels is a row of an image.
  static Extents pixels(Extents sizes, int64_t unit) {
    if (sizes.size() == 1) sizes.insert(sizes.begin(), unit);
    return sizes;
  }

  View view(const Extents& extents, const std::vector<int>& order) const {
    Extents steps(extents.size(), 1);
    for (size_t k = extents.size() - 1; k-- > 0;) steps[k] = steps[k + 1] * extents[k + 1];
    View out{v_.type, {}, {}, alignment_};
    for (int axis : order) {
      out.extents.push_back(extents[axis]);
      out.steps.push_back(steps[axis]);
    }
    if (out.extents.size() == 3) {
      out.extents.insert(out.extents.begin() + 2, 1);
      out.steps.insert(out.steps.begin() + 2, out.steps[2] * out.extents[3]);
    }
    return out;
  }

  View image(const Extents& extents) const { return view(extents, v_.order); }

  View kernel() const {
    const int rank = static_cast<int>(v_.w.extents.size());
    std::vector<int> order{0, v_.last ? rank - 1 : 1};
    for (int k = 1; k < rank - 1; ++k) order.push_back(v_.last ? k : k + 1);
    return view(v_.w.extents, order);
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

  void add_hard_swish() {
    gate_ = steps_.size();
    steps_.push_back({CUDNN_POINTWISE_ADD, number(), v_.offset, 0.0});
    steps_.push_back({CUDNN_POINTWISE_RELU_FWD, {}, {}, v_.limit});
    steps_.push_back({CUDNN_POINTWISE_MUL, {}, {}, 0.0, true});
    steps_.push_back({CUDNN_POINTWISE_MUL, number(), v_.factor, 0.0});
  }

  int64_t scratch_bytes() const {
    return (v_.y.count() * (v_.type == CUDNN_DATA_FLOAT ? 4 : 2) + 255) / 256 * 256;
  }

  void check_operands() const {
    const View x = image(v_.x.extents), w = kernel();
    const auto& [in, out] = v_.transposed ? std::tie(y_, x) : std::tie(x, y_);
    if (w.extents[0] != out.extents[1] || w.extents[1] * v_.groups != in.extents[1])
      OPINFO_THROW(ValueError) << name_ << ": the weights do not fit the channels";
    if (v_.bias && v_.bias.count() != y_.extents[1])
      OPINFO_THROW(ValueError) << name_ << ": a bias of " << v_.bias.count() << " for "
                               << y_.extents[1] << " channels";
    for (const Operand* o : {&v_.residual, &v_.added})
      if (*o && o->extents != v_.y.extents)
        OPINFO_THROW(ValueError) << name_ << ": an addend that is not as large as the result";
  }

  bool applies(int form) const {
    if (form == kWhole) return true;
    if (steps_.empty() || (form == kInSteps && v_.activation == kHardSwish)) return false;
    return form != kWithZeros || (v_.type == CUDNN_DATA_FLOAT && v_.bias && !v_.residual);
  }

  bool usable(const Record& r) const {
    return r.form >= 0 && r.form < kForms && applies(r.form);
  }

  // The graphs of a form. Raises if cuDNN refuses an operation.
  std::vector<Graph> graphs(int form) const {
    std::vector<Graph> out(form == kSplit ? 2 : 1);
    Graph& g = out[0];
    const bool fused = form == kWhole || form == kWithZeros;
    const int x = g.tensor(image(v_.x.extents), v_.x), w = g.tensor(kernel(), v_.w);
    const int y = fused && !steps_.empty() ? g.intermediate(y_)
                  : form == kSplit         ? g.scratch(y_)
                                           : g.tensor(y_, v_.y);
    g.convolution(pixels(v_.padding, 0), pixels(v_.strides, 1), pixels(v_.dilation, 1),
                  v_.transposed, x, w, y);
    if (form == kSplit)
      follow(out[1], out[1].scratch(y_));
    else if (form == kWithZeros)
      follow(g, with_zeros(g, y));
    else if (fused)
      follow(g, y);
    return out;
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

  // All that the best way depends on.
  std::string key() const {
    std::ostringstream out;
    out << told_of(device_) << " convolution " << v_.type << v_.last << v_.transposed << " g" << v_.groups
        << " a" << alignment_;
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
        << " " << v_.limit << (may_filter(v_.type) ? " winograd" : "");
    return out.str();
  }

  // Without a call, plans are prepared; in one, the fastest way is in `ways` afterwards.
  void find(const Context& c, const std::string& all, Ways& ways) {
    cudnnHandle_t h = handle_on(device_);
    const Record known = Records::all().find(all);
    if (usable(known) && taken(h, known, ways)) return;
    if (c.data == nullptr && !c.waits)
      prepare(h, ways);
    else if (c.data == nullptr || Capture(stream_of(device_)).id() != 0 || c.waits ||
             !(Patience::is_left() || !ways.candidates.empty()))  // to time them takes little
      take_first(h, ways);
    else
      choose(c, h, all, ways);
    if (c.data == nullptr && !c.waits) return;
    ways.candidates.clear();
    if (ways.form < 0)
      OPINFO_THROW(RuntimeError) << name_ << ": no engine of cuDNN runs this convolution" << why_
                                 << ": " << all;
  }

  // The forms that are timed in any case. The elementwise graph of a split one may not be needed.
  void prepare(cudnnHandle_t h, Ways& ways) {
    for (int form : {kWhole, kWithZeros, kSplit})
      if (applies(form)) candidates(h, form, 0, ways);
  }

  // The first plan of the first form that has one: nothing is timed.
  void take_first(cudnnHandle_t h, Ways& ways) {
    for (int form = 0; form < kForms && ways.form < 0; ++form) {
      if (!applies(form)) continue;
      std::vector<Plan> plans;
      const size_t count = form == kSplit ? 2 : 1;
      for (size_t k = 0; k < count; ++k) {
        const std::vector<Plan>& all = candidates(h, form, k, ways, 1);
        if (all.empty() || all[0].filters) break;  // the others come first
        plans.push_back(all[0]);
      }
      if (plans.size() < count) continue;
      ways.form = form;
      ways.plans = plans;
    }
  }

  void choose(const Context& c, cudnnHandle_t h, const std::string& all, Ways& ways) {
    const Alone alone(kept_plans());
    const Patience patience;
    check(cudaStreamSynchronize(stream_of(device_)), "stream");
    GraphTimer timer;
    check(cudnnSetStream(h, timer.stream()), "cudnnSetStream");
    float best = -1.0f;
    for (int form = 0; form < kForms; ++form)
      if (applies(form) && (form != kInSteps || best < 0)) measure(c, h, form, timer, ways, best);
    if (ways.form < 0) return;
    Record record{ways.form, {}};
    for (const Plan& p : ways.plans) record.choices.push_back(p.choice);
    Records::all().put(all, record);
  }

  // Whether a remembered way can be taken again.
  bool taken(cudnnHandle_t h, const Record& record, Ways& ways) {
    std::vector<Plan> plans;
    try {
      const std::vector<Graph> parts = graphs(record.form);
      if (parts.size() != record.choices.size()) return false;
      for (size_t k = 0; k < parts.size(); ++k) {
        const Descriptor made = parts[k].made(h);
        if (!made) return false;
        plans.push_back(planned(h, made, record.choices[k], v_.type));
        if (!plans.back()) return false;
      }
    } catch (const opinfo::Error&) {
      return false;
    }
    ways.form = record.form;
    ways.plans = plans;
    return true;
  }

  // Plans of a graph of a form, at most as many as are timed. None if cuDNN refuses an operation.
  const std::vector<Plan>& candidates(cudnnHandle_t h, int form, size_t k, Ways& ways,
                                      size_t most = 0) {
    static const size_t usual =
        std::max<size_t>(1, static_cast<size_t>(from_environment("OPINFO_CUDNN_PLANS", 4.0)));
    const auto [at, added] = ways.candidates.try_emplace({form, k});
    // Of gradients more are timed: those of a U-Net took twice as long as in torch, which times all.
    const size_t wanted = most > 0 ? most : v_.transposed && k == 0 ? 3 * usual : usual;
    const size_t filtering = most == 0 && k == 0 && may_filter(v_.type) ? usual : 0;
    if (added) try {
        at->second = first_plans(h, graphs(form)[k], v_.type, wanted, filtering);
      } catch (const opinfo::Error& e) {
        why_ = " (" + std::string(e.what()) + ")";
      }
    return at->second;
  }

  // Times the plans of a form. If it is faster than `best` milliseconds, or that is negative, it is
  // what `ways` has from then on. A form whose first graph is not as fast ends there.
  void measure(const Context& c, cudnnHandle_t h, int form, GraphTimer& timer, Ways& ways,
               float& best) {
    float total = 0.0f;
    std::vector<Plan> plans;
    std::vector<Graph> parts;
    try {
      parts = graphs(form);
    } catch (const opinfo::Error& e) {
      why_ = " (" + std::string(e.what()) + ")";
      return;
    }
    for (size_t k = 0; k < parts.size(); ++k) {
      float time = -1.0f;
      plans.push_back(fastest(c, h, parts[k], candidates(h, form, k, ways), timer, time));
      if (!plans.back()) return;
      total += time;
      if (best >= 0 && best <= total) return;
    }
    best = total;
    ways.form = form;
    ways.plans = plans;
  }

  // The fastest of the plans of a graph, and its milliseconds; none if none of them runs.
  Plan fastest(const Context& c, cudnnHandle_t h, const Graph& graph,
               const std::vector<Plan>& plans, GraphTimer& timer, float& best) const {
    const std::vector<float> times = timed(c, h, graph, plans, timer);
    const int direct = first(plans, times, false), filters = first(plans, times, true);
    if (direct < 0) return Plan{};
    const bool taken = filters >= 0 && times[filters] <= kWorthwhile * times[direct] &&
                       is_accurate(c, h, graph, plans[filters], plans[direct], timer);
    best = times[taken ? filters : direct];
    return plans[taken ? filters : direct];
  }

  // The number of the fastest plan that filters, or that does not; negative if none runs.
  static int first(const std::vector<Plan>& plans, const std::vector<float>& times, bool filters) {
    int out = -1;
    for (size_t k = 0; k < plans.size(); ++k)
      if (plans[k].filters == filters && times[k] >= 0 && (out < 0 || times[k] < times[out]))
        out = static_cast<int>(k);
    return out;
  }

  // Milliseconds of each plan; negative for those that do not run.
  std::vector<float> timed(const Context& c, cudnnHandle_t h, const Graph& graph,
                           const std::vector<Plan>& plans, GraphTimer& timer) const {
    constexpr int kRounds = 5, kCalls = 20;
    int64_t bytes = 0;
    for (const Plan& p : plans) bytes = std::max(bytes, p.bytes);
    char* room = static_cast<char*>(timer.room(scratch_bytes() + bytes));
    std::vector<GraphTimer::Launch> launches;
    for (const Plan& p : plans)
      launches.push_back([=, &graph, &p] {
        return room != nullptr && p.run(h, graph, c.data, room, room + scratch_bytes()) ==
                                      CUDNN_STATUS_SUCCESS;
      });
    const std::vector<float> times = timer.race(launches, kRounds, kCalls);
    static const bool told = from_environment("OPINFO_CUDNN_VERBOSE", 0.0) != 0.0;
    for (size_t k = 0; told && k < plans.size(); ++k)
      std::fprintf(stderr, "opinfo: %s: engine %lld%s: %.1f us\n", name_,
                   static_cast<long long>(plans[k].choice.engine),
                   plans[k].filters ? ", filters" : "", times[k] * 1e3);
    return times;
  }

  // Whether a plan that filters computes almost the same as one that adds products.
  bool is_accurate(const Context& c, cudnnHandle_t h, const Graph& graph, const Plan& plan,
                   const Plan& direct, GraphTimer& timer) const {
    const int64_t terms = v_.w.count() / kernel().extents[0];
    const std::vector<Spread> spreads{{v_.x, 1.0f},
                                      {v_.w, 1.0f / std::sqrt(static_cast<float>(terms))},
                                      {v_.residual, 1.0f},
                                      {v_.bias, 1.0f},
                                      {v_.added, 1.0f}};
    const RandomCall call(spreads, v_.y, timer.stream());
    void* room = timer.room(std::max(plan.bytes, direct.bytes));
    const auto expected = call(h, direct, graph, c.data, room);
    return is_close(call(h, plan, graph, c.data, room), expected);
  }

  cudnnStatus_t in_steps(cudnnHandle_t h, void* const* data) const {
    const float one = 1.0f, zero = 0.0f;
    void* out = v_.y.in(data);
    Legacy y(y_), other;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    for (const Step& s : steps_) {
      if (status != CUDNN_STATUS_SUCCESS) break;
      if (s.other) {
        other.set(s.view);
        status = cudnnAddTensor(h, &one, other.tensor, s.other.in(data), &one, y.tensor, out);
      } else {
        y.set(s);
        status = cudnnActivationForward(h, y.activation, &one, y.tensor, out, &zero, y.tensor, out);
      }
    }
    return status;
  }

  // Descriptors of the older API, which has a kernel for each step whatever the layout.
  struct Legacy {
    Legacy() {
      check(cudnnCreateTensorDescriptor(&tensor), "tensor");
      check(cudnnCreateActivationDescriptor(&activation), "activation");
    }
    explicit Legacy(const View& v) : Legacy() { set(v); }
    Legacy(const Legacy&) = delete;
    ~Legacy() {
      cudnnDestroyTensorDescriptor(tensor);
      cudnnDestroyActivationDescriptor(activation);
    }
    void set(const View& v) {
      const std::vector<int> extents(v.extents.begin(), v.extents.end()),
          steps(v.steps.begin(), v.steps.end());
      check(cudnnSetTensorNdDescriptor(tensor, v.type, static_cast<int>(extents.size()),
                                       extents.data(), steps.data()),
            "tensor");
    }
    void set(const Step& s) {
      const auto mode = s.mode == CUDNN_POINTWISE_SIGMOID_FWD ? CUDNN_ACTIVATION_SIGMOID
                        : s.mode == CUDNN_POINTWISE_TANH_FWD  ? CUDNN_ACTIVATION_TANH
                        : s.mode == CUDNN_POINTWISE_SWISH_FWD ? CUDNN_ACTIVATION_SWISH
                        : s.limit > 0                         ? CUDNN_ACTIVATION_CLIPPED_RELU
                                                              : CUDNN_ACTIVATION_RELU;
      check(cudnnSetActivationDescriptor(activation, mode, CUDNN_PROPAGATE_NAN, s.limit),
            "activation");
      if (mode == CUDNN_ACTIVATION_SWISH)
        check(cudnnSetActivationDescriptorSwishBeta(activation, 1.0), "activation");
    }
    cudnnTensorDescriptor_t tensor = nullptr;
    cudnnActivationDescriptor_t activation = nullptr;
  };

  Conv v_;
  const char* name_;
  int device_;
  int64_t alignment_;
  View y_;
  std::vector<Step> steps_;
  size_t gate_ = SIZE_MAX;  // the first step of a hard swish
  std::string key_, why_;
  std::shared_ptr<Ways> ways_;
  mutable std::shared_ptr<const Way> way_;
};

// Without the data of a call, it is only prepared.
OPINFO_UNUSED std::unique_ptr<Kernel> convolution(const Context& c, const Conv& v) {
  return std::make_unique<Convolution>(c, v);
}

}  // namespace
}  // namespace opinfo_nvidia

using namespace opinfo_nvidia;
