// Attention by a kernel of cuDNN or by our own, whichever is faster. It follows sdpa.hpp and
// attention_plan.hpp.
#include <array>
#include <optional>

namespace opinfo_nvidia {
namespace {

class FusedAttention : public Kernel {
 public:
  FusedAttention(const Context& c, const Sdpa& s)
      : tensors_{s.q, s.k, s.v, s.o, s.mask}, name_(c.name), device_(c.device) {
    if (c.alignment % kAligned != 0)
      OPINFO_THROW(ValueError) << c.name << ": a tensor is aligned to " << c.alignment
                               << " bytes, expected " << kAligned;
    for (const Heads& t : tensors_) inside(c, t);
    OpinfoAttention a;
    std::memset(&a, 0, sizeof(a));  // it is compared as bytes
    a.bfloat16 = s.bfloat16;
    a.causal = s.causal;
    a.masked = static_cast<bool>(s.mask);
    a.scale = s.scale;
    for (int k = 0; k < kTensors; ++k) {
      std::copy_n(tensors_[k].extents.begin(), 4, a.tensors[k].extents);
      std::copy_n(tensors_[k].steps.begin(), 4, a.tensors[k].steps);
    }
    if (c.waits && limits(s, a, c.data != nullptr)) return;
    if (c.waits || s.kernel < 0)
      plan_ = AttentionPlan::shared(device_, name_, a);
    else
      choose(c, s, a);
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    if (plan_ == nullptr) return launch(*own_, addresses(data), splits_, stream);
    void* room = workspace(device_, stream, static_cast<size_t>(plan_->bytes), true);
    char why[kReason] = "";
    if (!run(*plan_, addresses(data), room, stream, why))
      OPINFO_THROW(RuntimeError) << name_ << ": " << why;
  }

 private:
  static constexpr int kAligned = 16, kReason = AttentionPlan::kReason;
  static constexpr int64_t kFewest = 128, kMembers = 32, kPositions = 512;

  using Called = std::array<void*, kCalled>;

  Called addresses(void* const* data) const {
    Called out{};
    for (int k = 0; k < kTensors; ++k) out[k] = tensors_[k].in(data);
    for (int k = kTensors; k < kCalled && places_ != nullptr; ++k)
      out[k] = places_->of(k - kTensors);
    return out;
  }

  // Whether cuDNN's kernel was launched; otherwise the reason is in `why`.
  bool run(const AttentionPlan& plan, const Called& at, void* room, cudaStream_t stream,
           char (&why)[kReason]) const {
    cudnnHandle_t h = handle_on(device_);
    check(cudnnSetStream(h, stream), "cudnnSetStream");
    std::lock_guard<std::mutex> lock(plan.mutex);  // threads must not run a plan at once
    return OPINFO_PLANS(run)(plan.plan.get(), h, at.data(), room, why, sizeof(why));
  }

  static void launch(const HalvesAttention& own, const Called& at, int splits,
                     cudaStream_t stream) {
    own.launch(at[kQueries], at[kKeys], at[kValues], at[kMask], at[kResult], splits, stream);
  }

  // cuDNN's kernel or our own, whichever is faster. The choice is remembered as that of a convolution, by
  // the number of warps that divide keys, 0 for cuDNN's.
  void choose(const Context& c, const Sdpa& s, const OpinfoAttention& a) {
    const std::string key = words(a);
    const Record known = Records::all().find(key);
    const auto* end = std::end(HalvesAttention::kSplits);
    if (std::find(std::begin(HalvesAttention::kSplits), end, known.form) != end)
      splits_ = known.form;
    if ((known.form < 0 || splits_ > 0) && c.data != nullptr && !loaded(s)) splits_ = 0;
    if (splits_ == 0) plan_ = AttentionPlan::shared(device_, name_, a);
    if (known.form >= 0 || !own_ || Capture(stream_of(device_)).id() != 0 || !Patience::is_left())
      return;
    splits_ = fastest(key, *plan_, *own_, addresses(c.data), false);
    if (splits_ > 0) plan_ = nullptr;
  }

  // Whether the driver has our own kernel. cuDNN's is taken otherwise.
  bool loaded(const Sdpa& s) {
    try {
      own_.emplace(device_, s.kernel, s.q.extents[3], s.o.extents[0], own_arguments(s));
    } catch (const opinfo::Error& e) {
      std::fprintf(stderr, "opinfo: %s: %s; cuDNN's kernel is taken\n", name_, e.what());
    }
    return own_.has_value();
  }

  // The splits of our own kernel if it is faster, else 0.
  int fastest(const std::string& key, const AttentionPlan& plan, const HalvesAttention& own,
              const Called& at, bool ragged) const {
    constexpr int kRounds = 5, kCalls = 20;
    constexpr size_t kOwn = std::size(HalvesAttention::kSplits), kCleared = 32;
    const Alone alone(kept_plans());
    const Patience patience;
    check(cudaStreamSynchronize(stream_of(device_)), "stream");
    GraphTimer timer;
    void* room = timer.room(std::max<int64_t>(plan.bytes, kCleared));
    const cudaStream_t stream = timer.stream();
    std::vector<GraphTimer::Launch> launches;
    for (int splits : HalvesAttention::kSplits)
      launches.push_back([&, splits] { return launch(own, at, splits, stream), true; });
    launches.push_back([&] {
      if (room == nullptr || cudaMemsetAsync(room, 0, kCleared, stream) != cudaSuccess) return false;
      return launch(own, at, HalvesAttention::kSplits[0], stream), true;
    });
    launches.push_back([&] {
      char why[kReason] = "";
      return room != nullptr && run(plan, at, room, stream, why);
    });
    const std::vector<float> times = timer.race(launches, kRounds, kCalls);
    // cuDNN's kernel clears its memory first, which a graph of a whole call does once for all. Before a
    // plan for many shapes, a kernel reads the lengths, so its clears stay.
    const float clear = plan.bytes > 0 && !ragged ? std::max(times[kOwn] - times[0], 0.0f) : 0.0f;
    const size_t best = std::min_element(times.begin(), times.begin() + kOwn) - times.begin();
    const float theirs = times[kOwn + 1];
    static const bool told = from_environment("OPINFO_CUDNN_VERBOSE", 0.0) != 0.0;
    for (size_t k = 0; told && k < times.size(); ++k)
      std::fprintf(stderr, "opinfo: %s: attention %zu: %.2f us\n", name_, k, times[k] * 1e3);
    const bool faster = times[best] >= 0 && (theirs < 0 || times[best] < theirs - clear);
    const int out = faster ? HalvesAttention::kSplits[best] : 0;
    Records::all().put(key, Record{out, {}});
    return out;
  }

  // As above for requests that share a plan, before they come: for as many members, and three quarters of
  // the positions that it has at most, as requests have half of them or more.
  int fastest_for(const Sdpa& s, const OpinfoAttention& most, const AttentionPlan& plan) const {
    const auto& sizes = most.tensors[kResult].extents;
    const int64_t heads = sizes[0] * sizes[1], positions = sizes[2];
    if (s.kernel < 0 || !HalvesAttention::is_tried(heads, positions, positions)) return 0;
    const std::string key = words(most);
    const Record known = Records::all().find(key);
    if (known.form >= 0) return known.form;
    if (Capture(stream_of(device_)).id() != 0 || !Patience::is_left()) return 0;
    try {
      return time_for(key, s, most, plan);
    } catch (const std::exception&) {  // too little memory, or no kernel
      cudaGetLastError();
      return 0;
    }
  }

  int time_for(const std::string& key, const Sdpa& s, const OpinfoAttention& most,
               const AttentionPlan& plan) const {
    const int64_t members = most.tensors[kResult].extents[0];
    Sdpa whole = s;
    Heads* views[] = {&whole.q, &whole.k, &whole.v, &whole.o};
    std::vector<std::unique_ptr<opinfo_graphs::Memory>> memory;
    Called at{};
    for (int t = kQueries; t <= kResult; ++t) {
      std::copy_n(most.tensors[t].extents, 4, views[t]->extents.begin());
      std::copy_n(most.tensors[t].steps, 4, views[t]->steps.begin());
      const size_t bytes = members * most.tensors[t].steps[0] * sizeof(uint16_t);
      memory.push_back(std::make_unique<opinfo_graphs::Memory>(bytes));
      at[t] = memory.back()->data();
      check(cudaMemset(at[t], 0, bytes), "memset");
    }
    OpinfoAttention usual = most;
    for (int t = kQueries; t <= kResult; ++t) {
      usual.tensors[t].extents[2] = std::max<int64_t>(1, most.tensors[t].extents[2] * 3 / 4);
      views[t]->extents[2] = usual.tensors[t].extents[2];
    }
    const AttentionPlaces places(usual, members);
    for (int k = kTensors; k < kCalled; ++k) at[k] = places.of(k - kTensors);
    const HalvesAttention own(device_, s.kernel, s.q.extents[3], members, own_arguments(whole));
    return fastest(key, plan, own, at, true);
  }

  // All that the fastest kernel depends on.
  std::string words(const OpinfoAttention& a) const {
    std::ostringstream out;
    out << told_of(device_) << " attention " << a.bfloat16 << a.causal << a.masked << " " << a.scale;
    for (int t = kQueries; t < kTensors; ++t) {
      out << " t";
      for (int64_t e : a.tensors[t].extents) out << "," << e;
      for (int64_t e : a.tensors[t].steps) out << "," << e;
    }
    return out.str();
  }

  static int64_t up(int64_t n, int64_t least) {
    while (least < n) least *= 2;
    return least;
  }

  // A plan takes cuDNN 50 ms to build, which compiles a kernel. So requests of many shapes share
  // one for at most as many members and positions as the next powers of two, which runs a few
  // microseconds longer. Those up to kMembers and kPositions are made at the first call, so that
  // no later one waits for them. False if it needs a plan of its own, as one with heads before
  // positions does: steps of its heads differ with the positions. Our own kernel is timed beside each.
  bool limits(const Sdpa& s, const OpinfoAttention& a, bool times) {
    const OpinfoHeads &q = a.tensors[kQueries], &k = a.tensors[kKeys], &o = a.tensors[kResult];
    if (a.masked || a.causal || q.extents[2] != k.extents[2] || q.extents[0] != k.extents[0])
      return false;
    for (int t = kQueries; t <= kResult; ++t)
      if (a.tensors[t].extents[0] != q.extents[0] ||
          (a.tensors[t].extents[0] + 1) * a.tensors[t].steps[0] > INT32_MAX ||
          (a.tensors[t].extents[1] > 1 && a.tensors[t].steps[1] > a.tensors[t].steps[2]))
        return false;
    const int64_t members = up(q.extents[0], 1), positions = up(q.extents[2], kFewest);
    try {
      const OpinfoAttention most = AttentionPlan::limit(a, members, positions);
      plan_ = AttentionPlan::shared(device_, name_, most);
      if (times) splits_ = fastest_for(s, most, *plan_);
      for (int64_t n = 1; n <= kMembers; n *= 2)
        for (int64_t m = kFewest; m <= kPositions; m *= 2) {
          const OpinfoAttention other = AttentionPlan::limit(a, n, m);
          const auto plan = AttentionPlan::shared(device_, name_, other);
          if (times) fastest_for(s, other, *plan);
        }
    } catch (const opinfo::Error& e) {
      static std::once_flag once;
      std::call_once(once, [&] {
        std::fprintf(stderr, "opinfo: %s; each shape waits for a plan of its own\n", e.what());
      });
      return false;
    }
    if (splits_ > 0 && loaded(s)) {
      plan_ = nullptr;
      return true;
    }
    static auto& all = *new opinfo_regions::Kernels<std::vector<char>, AttentionPlaces>;
    const Capture capture(stream_of(device_));  // memory is allocated
    places_ = all.find(AttentionPlan::key_of(device_, a),
                       [&] { return std::make_shared<AttentionPlaces>(a, members); });
    return true;
  }

  // The tensors of a call have all elements of the view: extents known at run time may not fit.
  static void inside(const Context& c, const Heads& t) {
    if (!t) return;
    int64_t last = t.offset;
    for (int k = 0; k < 4; ++k) last += (t.extents[k] - 1) * t.steps[k];
    if (last >= t.tensor.count())
      OPINFO_THROW(ValueError) << c.name << ": the extents of the operands do not fit each other";
  }

  std::array<Heads, kTensors> tensors_;
  const char* name_;
  int device_;
  std::shared_ptr<const AttentionPlan> plan_;  // null where our own kernel is taken
  std::shared_ptr<const AttentionPlaces> places_;
  std::optional<HalvesAttention> own_;
  int splits_ = 0;
};

}  // namespace
}  // namespace opinfo_nvidia
