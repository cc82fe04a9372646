// How a convolution is run in one of its forms. It follows conv.hpp.
namespace opinfo_nvidia {
namespace {

// A form with the plan of its graph.
struct Way {
  int form = kWhole;
  Graph graph;
  Plan plan;
  void* weights = nullptr;  // constant ones as the form has them

  Record record() const { return {form, {plan.choice}}; }
};

class ConvRunner {
 public:
  ConvRunner(const Conv& v, const ConvGraphs& graphs, int device, int64_t alignment)
      : v_(v), graphs_(graphs), kernels_(device, v.kernels), grouped_(groups(v, graphs, device)),
        device_(device) {
    epilogue_.activation = v_.activation;
    epilogue_.limit = static_cast<float>(v_.limit);
    epilogue_.slope = static_cast<float>(v_.slope);
    epilogue_.count = static_cast<unsigned>(v_.y.count());
    epilogue_.inside = EpilogueKernels::divisor(v_.last ? 1 : inside(v_.y));
    epilogue_.channels = EpilogueKernels::divisor(channels(v_.y));
    epilogue_.channel_is_row = v_.last;
    if (alignment >= kWide) wide_ = v_.type == CUDNN_DATA_FLOAT ? kWide / 4 : kWide / 2;
    if (graphs_.applies(kPhased)) {
      const int axis = v_.order[3];
      epilogue_.phases = graphs_.phases().kernel(v_.y.extents[axis], inside(v_.y));
    }
  }

  // A form with its plan, and what it needs that no call changes.
  std::shared_ptr<const Way> way(int form, const Plan& plan) const {
    auto out = std::make_shared<Way>(Way{form, graphs_.graph(form), plan});
    if (has_own(form) && has_constant_weights()) out->weights = constant_weights(form);
    return out;
  }

  // Our own kernels for groups, which are plans without cuDNN's: an engine is the number of a kernel.
  std::vector<Plan> grouped() const {
    std::vector<Plan> out;
    for (int k = 0; k < GroupedKernels::kCount; ++k)
      if (is_grouped({k, {}})) out.push_back(Plan{{}, {}, {k, {}}});
    return out;
  }
  bool is_grouped(const Choice& choice) const {
    return graphs_.applies(kGrouped) && choice.knobs.empty() &&
           grouped_.applies(static_cast<int>(choice.engine));
  }

  // The bytes of memory that `run` uses.
  int64_t room(const Way& way) const {
    return way.plan.bytes + (has_own(way.form) ? graphs_.own_bytes(way.form) : 0);
  }

  // The plan alone; the tensors of a form's own are whatever `room` holds.
  cudnnStatus_t run_plan(cudnnHandle_t h, const Way& way, void* const* data, char* room) const {
    void* own[kOwned];
    char* rest = place(way, room, own);
    return way.plan.run(h, way.graph, data, own, rest);
  }

  // The first status other than success.
  cudnnStatus_t run(cudnnHandle_t h, const Way& way, void* const* data, char* room,
                    cudaStream_t stream) const {
    if (way.form == kGrouped) {
      grouped_.launch(static_cast<int>(way.plan.choice.engine), epilogue(data, v_.x.in(data)),
                      v_.w.in(data), stream);
      return CUDNN_STATUS_SUCCESS;
    }
    void* own[kOwned];
    char* rest = place(way, room, own);
    if (way.form == kConverted || (way.form == kPhased && !v_.last))
      kernels_.convert(v_.x.in(data), own[kOwnImage], matrices(v_.x), stream);
    if (has_own(way.form) && !has_constant_weights())
      arrange(way.form, v_.w.in(data), own[kOwnWeights], stream);
    const cudnnStatus_t status = way.plan.run(h, way.graph, data, own, rest);
    if (status != CUDNN_STATUS_SUCCESS || way.form < kAlone) return status;
    if (way.form == kAlone)
      kernels_.finish(epilogue(data, v_.y.in(data)), wide_, stream);
    else if (way.form == kPhased && v_.last)
      kernels_.finish_phases(epilogue(data, own[kOwnResult]), wide_, stream);
    else
      kernels_.convert(epilogue(data, own[kOwnResult]), swapped(matrices(v_.y)), stream,
                       way.form == kPhased);
    return status;
  }

 private:
  static constexpr int kWide = 16;

  static GroupedKernels groups(const Conv& v, const ConvGraphs& graphs, int device) {
    if (!graphs.applies(kGrouped)) return {device, -1, 0, 0, nullptr, 0, {}};
    return {device, v.grouped, v.w.last(1), v.y.last(1) / v.groups, graphs.window(),
            v.x.extents[0], graphs.grouped()};
  }

  // Whether a form has tensors of its own.
  static bool has_own(int form) { return form == kConverted || form == kPhased; }

  // The weights as a form has them.
  void arrange(int form, const void* from, void* to, cudaStream_t stream) const {
    if (form == kConverted)
      kernels_.convert(from, to, matrices(v_.w), stream);
    else
      kernels_.arrange(graphs_.phases().arrangement(from, to, graphs_.window(), v_.last), stream);
  }

  // Where tensors of a form's own are; returns the memory behind them.
  char* place(const Way& way, char* room, void** own) const {
    std::fill_n(own, kOwned, nullptr);
    if (!has_own(way.form)) return room;
    for (int k = 0; k < kOwned; ++k) {
      own[k] = room;
      room += graphs_.own_bytes(way.form, k);
    }
    if (way.weights != nullptr) own[kOwnWeights] = way.weights;
    return room;
  }

  Epilogue epilogue(void* const* data, const void* from) const {
    const auto at = [&](const Operand& o) { return o ? o.in(data) : nullptr; };
    Epilogue out = epilogue_;
    out.x = from, out.y = v_.y.in(data);
    out.residual = at(v_.residual), out.bias = at(v_.bias), out.added = at(v_.added);
    out.offset = static_cast<const float*>(at(v_.offset));
    out.factor = static_cast<const float*>(at(v_.factor));
    return out;
  }

  int64_t channels(const Operand& o) const { return v_.last ? o.last(1) : o.extents[1]; }
  int64_t inside(const Operand& o) const { return o.count() / o.extents[0] / channels(o); }

  // The matrices of pixels and channels that a tensor of the call is.
  Matrices matrices(const Operand& o) const {
    const Matrices first{o.extents[0], channels(o), inside(o)};
    return v_.last ? swapped(first) : first;
  }
  static Matrices swapped(const Matrices& m) { return {m.count, m.columns, m.rows}; }

  bool has_constant_weights() const { return v_.w.from < 0; }

  // Arranged once for each device, form and strides. Not freed: see constants.
  void* constant_weights(int form) const {
    static std::mutex mutex;
    static auto& all = *new std::map<std::tuple<int, const void*, int, Extents>, void*>;
    const Capture capture(stream_of(device_));
    std::lock_guard<std::mutex> lock(mutex);
    void*& out = all[{device_, v_.w.fixed, form, v_.strides}];
    if (out != nullptr) return out;
    void* made = nullptr;
    cudaStream_t stream = nullptr;
    check(cudaMalloc(&made, graphs_.own_bytes(form, kOwnWeights)), "memory of weights");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    arrange(form, v_.w.fixed, made, stream);
    check(cudaStreamSynchronize(stream), "stream");
    cudaStreamDestroy(stream);
    return out = made;
  }

  const Conv& v_;
  const ConvGraphs& graphs_;
  EpilogueKernels kernels_;
  GroupedKernels grouped_;
  int device_;
  int64_t wide_ = 1;
  Epilogue epilogue_{};
};

}  // namespace
}  // namespace opinfo_nvidia
