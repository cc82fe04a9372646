// Which form of a convolution is taken, with which plan. It follows conv_run.hpp.
namespace opinfo_nvidia {
namespace {

class ConvChoice {
 public:
  ConvChoice(const Conv& v, const ConvGraphs& graphs, const ConvRunner& runner, const char* name,
             int device)
      : v_(v), graphs_(graphs), runner_(runner), name_(name), device_(device),
        key_(told_of(device) + " " + graphs.key()) {}

  const std::string& key() const { return key_; }

  bool is_known() const { return usable(Records::all().find(key_)); }

  // Without a call, plans are prepared; in one, the fastest way is in `ways` afterwards.
  void find(const Context& c, Ways& ways) {
    cudnnHandle_t h = handle_on(device_);
    const Record known = Records::all().find(key_);
    if (usable(known) && taken(h, known, ways)) return;
    if (c.data == nullptr && !c.waits)
      prepare(h, ways);
    else if (c.data == nullptr || Capture(stream_of(device_)).id() != 0 || c.waits ||
             !(Patience::is_left() || !ways.candidates.empty()))  // to time them takes little
      take_first(h, ways);
    else
      choose(c, h, ways);
    if (c.data == nullptr && !c.waits) return;
    ways.candidates.clear();
    if (ways.form < 0)
      OPINFO_THROW(RuntimeError) << name_ << ": no engine of cuDNN runs this convolution" << why_
                                 << ": " << key_;
  }

  // Ways of a form, in the order in which cuDNN expects them to be fast.
  std::vector<std::shared_ptr<const Way>> some(cudnnHandle_t h, int form) const {
    constexpr size_t kMost = 8;
    std::vector<std::shared_ptr<const Way>> out;
    if (!graphs_.applies(form)) return out;
    try {
      for (const Plan& p : plans(h, form, kMost))
        out.push_back(runner_.way(form, p));
    } catch (const opinfo::Error&) {  // cuDNN refuses an operation of this form
    }
    return out;
  }

 private:
  bool usable(const Record& r) const {
    return r.form >= 0 && r.form < kForms && r.choices.size() == 1 && graphs_.applies(r.form);
  }

  // Whether a remembered way can be taken again.
  bool taken(cudnnHandle_t h, const Record& record, Ways& ways) const {
    const Choice& choice = record.choices[0];
    Plan plan;
    try {
      if (record.form == kGrouped) {
        if (!runner_.is_grouped(choice)) return false;
        plan.choice = choice;
      } else if (const Descriptor made = graphs_.graph(record.form).made(h)) {
        plan = planned(h, made, choice, v_.type);
      }
    } catch (const opinfo::Error&) {
    }
    if (!plan && record.form != kGrouped) return false;
    ways.form = record.form;
    ways.plan = plan;
    return true;
  }

  // At most `most` plans of a form; those of cuDNN as `first_plans` does.
  std::vector<Plan> plans(cudnnHandle_t h, int form, size_t most, bool all = false) const {
    if (form == kGrouped) return runner_.grouped();
    return first_plans(h, graphs_.graph(form), v_.type, most, all);
  }

  void prepare(cudnnHandle_t h, Ways& ways) {
    for (int form = 0; form < kForms; ++form)
      if (graphs_.applies(form)) candidates(h, form, ways);
  }

  // The first plan of the first form that has one: nothing is timed.
  void take_first(cudnnHandle_t h, Ways& ways) {
    for (int k = graphs_.copies() ? -1 : 0; k < kForms && ways.form < 0; ++k) {
      const int form = k < 0 ? kGrouped : k;
      if (!graphs_.applies(form)) continue;
      const std::vector<Plan>& plans = candidates(h, form, ways, 1);
      if (plans.empty()) continue;
      ways.form = form;
      ways.plan = plans[0];
    }
  }

  // Plans of a form, at most as many as are timed. None if cuDNN refuses an operation.
  const std::vector<Plan>& candidates(cudnnHandle_t h, int form, Ways& ways, size_t most = 0) {
    static const size_t usual =
        std::max<size_t>(1, static_cast<size_t>(from_environment("OPINFO_CUDNN_PLANS", 4.0)));
    const auto [at, added] = ways.candidates.try_emplace(form);
    // Of gradients more are timed: those of a U-Net took twice as long as in torch, which times all.
    const bool gradient = v_.transposed && form != kPhased;
    const size_t wanted = most > 0 ? most : gradient ? 3 * usual : usual;
    if (added) try {
        at->second = plans(h, form, wanted, most == 0);
      } catch (const opinfo::Error& e) {
        why_ = " (" + std::string(e.what()) + ")";
      }
    return at->second;
  }

  // The fastest plan of each form is timed once more with all that the form needs beside it.
  void choose(const Context& c, cudnnHandle_t h, Ways& ways) {
    const Alone alone(kept_plans());
    const Patience patience;
    check(cudaStreamSynchronize(stream_of(device_)), "stream");
    GraphTimer timer;
    check(cudnnSetStream(h, timer.stream()), "cudnnSetStream");
    std::vector<Way> best;
    for (int form = 0; form < kForms; ++form)
      if (graphs_.applies(form)) add_fastest(c, h, form, timer, ways, best);
    const int taken = best.size() > 1 ? first(timed(c, h, best, timer, true))
                                      : static_cast<int>(best.size()) - 1;
    if (taken < 0) return;
    ways.form = best[taken].form;
    ways.plan = best[taken].plan;
    Records::all().put(key_, best[taken].record());
  }

  // Adds the fastest plan of a form, if it has one that runs.
  void add_fastest(const Context& c, cudnnHandle_t h, int form, GraphTimer& timer, Ways& ways,
                   std::vector<Way>& best) {
    std::vector<Way> all;
    for (const Plan& p : candidates(h, form, ways)) all.push_back({form, graphs_.graph(form), p});
    std::vector<float> times = timed(c, h, all, timer, false);
    if (is_small() && form >= kAlone && v_.type == CUDNN_DATA_FLOAT)
      add_knobs(c, h, timer, all, times);
    const int fastest = first(times);
    if (fastest >= 0) best.push_back(all[fastest]);
  }

  // Whether tiles of the usual sizes leave multiprocessors idle.
  bool is_small() const {
    constexpr int64_t kTile = 128 * 64;
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, device_), "cudaGetDeviceProperties");
    return v_.y.count() < kTile * properties.multiProcessorCount;
  }

  // Adds ways with other knobs of the fastest engines, and their times.
  void add_knobs(const Context& c, cudnnHandle_t h, GraphTimer& timer, std::vector<Way>& all,
                 std::vector<float>& times) const {
    constexpr size_t kEngines = 3, kValues = 16;
    constexpr float kClose = 2.0f;
    std::vector<std::pair<float, size_t>> order;
    for (size_t k = 0; k < times.size(); ++k)
      if (times[k] >= 0) order.emplace_back(times[k], k);
    std::sort(order.begin(), order.end());
    std::set<int64_t> engines;
    std::vector<Way> more;
    for (const auto& [time, k] : order) {
      if (engines.size() >= kEngines || time > kClose * order[0].first) break;
      if (!engines.insert(all[k].plan.choice.engine).second) continue;
      for (const Plan& p : other_knobs(h, all[k].plan, v_.type, kValues))
        more.push_back({all[k].form, all[k].graph, p});
    }
    const std::vector<float> others = timed(c, h, more, timer, false);
    all.insert(all.end(), more.begin(), more.end());
    times.insert(times.end(), others.begin(), others.end());
  }

  // The number of the least time; negative if none of them ran.
  static int first(const std::vector<float>& times) {
    int out = -1;
    for (size_t k = 0; k < times.size(); ++k)
      if (times[k] >= 0 && (out < 0 || times[k] < times[out])) out = static_cast<int>(k);
    return out;
  }

  // Milliseconds of each way, or of its plan alone; negative for those that do not run.
  std::vector<float> timed(const Context& c, cudnnHandle_t h, const std::vector<Way>& ways,
                           GraphTimer& timer, bool whole) const {
    constexpr int kRounds = 5, kCalls = 20;
    int64_t bytes = 1;
    for (const Way& w : ways) bytes = std::max(bytes, runner_.room(w));
    char* room = static_cast<char*>(timer.room(bytes));
    const cudaStream_t stream = timer.stream();
    std::vector<GraphTimer::Launch> launches;
    for (const Way& w : ways)
      launches.push_back([=, &w] {
        if (room == nullptr) return false;
        return (whole || w.form == kGrouped
                      ? runner_.run(h, w, c.data, room, stream)
                      : runner_.run_plan(h, w, c.data, room)) == CUDNN_STATUS_SUCCESS;
      });
    const std::vector<float> times = timer.race(launches, kRounds, kCalls);
    static const bool told = from_environment("OPINFO_CUDNN_VERBOSE", 0.0) != 0.0;
    for (size_t k = 0; told && k < ways.size(); ++k)
      std::fprintf(stderr, "opinfo: %s: %s%s: %.1f us\n", name_, ways[k].record().text().c_str(),
                   whole ? ", whole" : "", times[k] * 1e3);
    return times;
  }

  const Conv& v_;
  const ConvGraphs& graphs_;
  const ConvRunner& runner_;
  const char* name_;
  int device_;
  std::string key_, why_;
};

}  // namespace
}  // namespace opinfo_nvidia
