// Which algorithms of cuBLASLt products take: measured for each product of static sizes, and on a
// ladder of rows for those whose rows are known at run time, and in which order constant weights are
// read. It follows cublaslt_weights.hpp and cublaslt_ladder.hpp.
#include <chrono>
#include <optional>

namespace opinfo_nvidia {
namespace {

// The alignment of what cudaMalloc returns, in bytes, for which a ladder is.
constexpr int kAllocated = 256;

inline const KeptTexts& kept_algorithms() {
  static const KeptTexts texts("cublaslt", "cuBLASLt's algorithms are timed again");
  return texts;
}

// What an earlier process chose. Empty if it is not known, or damaged. `free`: weights may have either
// order.
inline ProductChoice kept_choice(const std::string& key, bool free) {
  ProductChoice out;
  const KeptTexts::Entry entry = kept_algorithms().read(key);
  if (!entry.exists) return out;
  const bool whole = read_choice(entry.text, out);
  if (!whole) kept_algorithms().say_damaged(key);
  return whole && entry.known && (free || !out.turned) ? out : ProductChoice{};
}

// A way to compute a product.
struct Candidate {
  const Product* product;
  Algorithm algorithm;
  bool turned = false;
  float time = -1.0f;  // milliseconds, negative if it does not run
};

// Adds what the library names for a product, if it names any.
inline void add_named(const Product& p, bool turned, const char* name, int alignment, int most,
                      std::vector<Candidate>& to) {
  try {
    for (const Algorithm& by : p.named(name, alignment, most)) to.push_back({&p, by, turned});
  } catch (const opinfo::Error&) {  // nothing is named for this order
  }
}

// Times them as parts of CUDA graphs, as models run them.
inline void time_all(const Addresses& at, std::vector<Candidate>& all, GraphTimer& timer, int rounds,
                     int calls) {
  size_t bytes = 1;
  for (const Candidate& c : all) bytes = std::max(bytes, c.algorithm.bytes);
  void* room = timer.room(static_cast<int64_t>(bytes));
  std::vector<GraphTimer::Launch> launches;
  for (const Candidate& c : all)
    launches.push_back([&c, &at, &timer, room] {
      return (room != nullptr || c.algorithm.bytes == 0) &&
             c.product->run(at, timer.stream(), c.algorithm, room) == CUBLAS_STATUS_SUCCESS;
    });
  const std::vector<float> times = timer.race(launches, rounds, calls);
  for (size_t k = 0; k < times.size(); ++k) all[k].time = times[k];
}

// The fastest one; null if none runs.
inline const Candidate* fastest(const std::vector<Candidate>& all) {
  const Candidate* best = nullptr;
  for (const Candidate& c : all)
    if (c.time >= 0 && (best == nullptr || c.time < best->time)) best = &c;
  return best;
}

// Those of an order of the weights, the fastest first: what is slower by a wave for these rows may be the fastest
// for some more or less, and what is as fast for less must be known to be slow here.
inline std::vector<TimedAlgorithm> fastest_few(const std::vector<Candidate>& all, bool turned) {
  constexpr float kSlowest = 3.0f;
  constexpr size_t kFew = 16;
  std::vector<TimedAlgorithm> out;
  for (const Candidate& c : all)
    if (c.time >= 0 && c.turned == turned) out.push_back({c.algorithm, c.time});
  std::stable_sort(out.begin(), out.end(), [](const auto& x, const auto& y) { return x.time < y.time; });
  size_t count = 0;
  while (count < std::min(kFew, out.size()) && out[count].time <= kSlowest * out[0].time) ++count;
  out.resize(count);
  return out;
}

// Times algorithms for numbers of rows, before a request comes that has them: 1, 2, 4, ..., from 16 on
// half-way between, from 64 on four for each power of two, and from 512 on eight. Operands with rows are
// memory of its own, so the call's are not written. If weights may have either order, all rungs get that
// with which requests lose less time.
class Climb {
 public:
  // `c` has a call of the product; `s.rows` does not matter. `free`: weights may have either order.
  Climb(const Context& c, const Gemm& g, const Sizes& s, bool free)
      : c_(c), g_(g), s_(s), free_(free), at_(addresses(g, c.data)),
        input_(opinfo_graphs::aligned(s.sum * (g.type == CUDA_R_32F ? 4 : 2))),
        output_(opinfo_graphs::aligned(
            s.cols * (g.result == CUDA_R_32F || g.result == CUDA_R_32I ? 4 : 2))),
        row_(input_ + output_ * (g.residual ? 2 : 1)) {}

  // `kept`: what is known of an earlier process. It is run once, so that the driver loads it.
  ProductChoice climbed(const ProductChoice& kept) {
    std::vector<int64_t> either, others;  // rows for which both orders are timed, and one
    const auto most = std::min<int64_t>(
        static_cast<int64_t>(from_environment("OPINFO_CUBLASLT_ROWS", kRows)),
        static_cast<int64_t>(kRoom / row_));
    for (int64_t n = 1; n <= most; n *= 2) {
      const int64_t parts = n >= kFinest ? 8 : n >= kFiner ? 4 : n >= kFine ? 2 : 1;
      either.push_back(n);
      for (int64_t k = 1; k < parts && n + k * n / parts <= most; ++k)
        (n >= kFinest && 2 * k == parts ? either : others).push_back(n + k * n / parts);
    }
    if (either.empty()) return {};
    const int64_t largest = std::max(either.back(), others.empty() ? 0 : others.back());
    const opinfo_graphs::Memory room(largest * row_);
    fill(room.data(), largest * row_);
    at_.a = room.data();
    at_.d = room.data() + largest * input_;
    at_.residual = g_.residual ? room.data() + largest * (input_ + output_) : nullptr;
    opinfo_nvidia::check(cudaStreamSynchronize(stream_of(c_.device)), "stream");
    GraphTimer timer;
    timer.room(Product::kWorkspace);
    ProductChoice ways[] = {{false, {}}, {true, {}}};
    double gain = 0.0;  // of the turned ones
    const bool known = !kept.ladder.empty();
    for (int64_t rows : either)
      step(rows, kept, timer, known && kept.turned, known ? kept.turned : free_, ways, gain);
    const bool turned = known ? kept.turned : free_ && !ways[1].ladder.empty() && gain > 0;
    for (int64_t rows : others) step(rows, kept, timer, turned, turned, ways, gain);
    return ways[turned];
  }

 private:
  // The largest number of rows, and bytes of operands with rows.
  static constexpr double kRows = 16384;
  static constexpr size_t kRoom = size_t{256} << 20;
  // Rungs are closer from these numbers of rows on.
  static constexpr int64_t kFine = 16, kFiner = 64, kFinest = 512;
  // More algorithms are named where waves count.
  static constexpr int kAlgorithms = 12, kMore = 20, kRounds = 3, kCalls = 4;
  // Milliseconds of what a model runs beside a product: less time lost does not matter.
  static constexpr float kBeside = 0.01f;

  // Random numbers: zeros need less power, so clocks would be higher than a model's. As halves they are small.
  static void fill(char* to, size_t size) {
    std::vector<uint16_t> numbers(size_t{1} << 20);
    uint32_t state = 1;
    for (uint16_t& n : numbers) {
      state = state * 1664525u + 1013904223u;
      n = static_cast<uint16_t>((state >> 16 & 0x83ff) | 0x2c00);
    }
    const size_t part = std::min(size, numbers.size() * sizeof(uint16_t));
    for (size_t at = 0; at < size; at += part)
      opinfo_nvidia::check(cudaMemcpy(to + at, at == 0 ? static_cast<void*>(numbers.data()) : to,
                                      std::min(part, size - at), cudaMemcpyDefault),
                           "memory of a ladder");
  }

  // `first` and `last`: the orders that are timed.
  void step(int64_t rows, const ProductChoice& kept, GraphTimer& timer, bool first, bool last,
            ProductChoice* ways, double& gain) {
    Sizes s = s_;
    s.rows = rows;
    const Product products[] = {{g_, s, c_.device, at_},
                                {with_turned_weights(g_), s, c_.device, at_}};
    const auto known = kept.ladder.find(rows);
    if (known != kept.ladder.end()) {
      const auto usable = that_run(products[kept.turned], known->second, timer);
      if (!usable.empty()) {
        ways[kept.turned].ladder[rows] = usable;
        return;
      }
    }
    std::vector<Candidate> all;
    for (bool turned : {false, true})
      if (turned >= first && turned <= last)
        add_named(products[turned], turned, c_.name, kAllocated, rows < kFinest ? kAlgorithms : kMore,
                  all);
    if (all.empty()) return;  // a call with as many rows raises it again
    time_all(at_, all, timer, kRounds, kCalls);
    float best[] = {-1.0f, -1.0f};
    for (bool turned : {false, true}) {
      const auto few = fastest_few(all, turned);
      if (few.empty()) continue;
      best[turned] = few[0].time;
      ways[turned].ladder[rows] = few;
    }
    if (best[0] >= 0 && best[1] >= 0)
      gain += (best[0] - best[1]) / (std::min(best[0], best[1]) + kBeside);
  }

  // Those of another process that run. Each is run once, for some rows.
  std::vector<TimedAlgorithm> that_run(const Product& p, const std::vector<TimedAlgorithm>& kept,
                                       GraphTimer& timer) {
    std::vector<TimedAlgorithm> out;
    for (TimedAlgorithm t : kept) {
      const Algorithm& by = t.algorithm;
      if (!p.takes(t.algorithm)) continue;
      const auto ran = std::any_of(loaded_.begin(), loaded_.end(),
                                   [&](const Algorithm& other) { return same(other, by); });
      if (!ran && !runs(p, by, timer)) continue;
      if (!ran) loaded_.push_back(by);
      out.push_back(t);
    }
    return out;
  }

  bool runs(const Product& p, const Algorithm& by, GraphTimer& timer) const {
    void* room = timer.room(static_cast<int64_t>(std::max<size_t>(by.bytes, 1)));
    return (room != nullptr || by.bytes == 0) &&
           p.run(at_, timer.stream(), by, room) == CUBLAS_STATUS_SUCCESS &&
           cudaStreamSynchronize(timer.stream()) == cudaSuccess;
  }

  const Context& c_;
  const Gemm& g_;
  Sizes s_;
  bool free_;
  Addresses at_;
  size_t input_, output_, row_;  // bytes of a row, and of all rows together
  std::vector<Algorithm> loaded_;
};

// What was chosen for the products of this library.
class Algorithms {
 public:
  static Algorithms& all() {
    static Algorithms algorithms;
    return algorithms;
  }

  // The algorithm of a product, measured once for all regions with it. If it may not be measured, as in
  // a capture, the first one that the library names, which it estimates the fastest. `g` becomes the
  // product by the order that constant weights have on the device from then on.
  Algorithm of(const Context& c, Gemm& g, const Sizes& s) {
    const std::lock_guard<std::mutex> alone(mutex_);  // nothing else is timed meanwhile
    const bool constant = Weights::may_turn(g, s), captures = Capture(stream_of(c.device)).id() != 0;
    Weights::Order* order = constant ? &Weights::order(c.device, g) : nullptr;
    if (order != nullptr && *order == Weights::kTurned) g = with_turned_weights(g);
    const bool free = order != nullptr && *order == Weights::kUndecided && !captures;
    const std::string key = key_of(c, g, s, s.rows, free) + " a" + std::to_string(c.alignment);
    const auto known = known_.find(key);
    Chosen out;
    if (known != known_.end()) {
      out = known->second;
    } else {
      bool final = !captures;
      out = c.waits ? unmeasured(c, g, s, captures, free)
                    : measured(c, g, s, key, free, final);
      if (known_.size() > kKept) known_.clear();
      if (final) known_.emplace(key, out);
    }
    if (out.turned) {
      Weights::turn(g, s);
      g = with_turned_weights(g);
    }
    if (order != nullptr && *order == Weights::kUndecided)
      *order = out.turned ? Weights::kTurned : Weights::kGiven;
    return out.algorithm;
  }

 private:
  // `turned`: the weights are to get the other order.
  struct Chosen {
    Algorithm algorithm;
    bool turned = false;
  };

  static constexpr size_t kKept = 4096;
  static constexpr int kMany = 32, kRounds = 5, kCalls = 20;
  // Seconds that ladders of a library may take. Those that were climbed are kept for other processes.
  static constexpr double kSeconds = 10.0;

  // What the time of a product depends on beside the alignment; `rows` is 0 for any. `free`: weights
  // may have either order.
  static std::string key_of(const Context& c, const Gemm& g, const Sizes& s, int64_t rows,
                            bool free) {
    std::ostringstream out;
    out << device_words(c.device) << " cublaslt " << cublasLtGetVersion() << " timed product " << g.type
        << " " << g.result << " e" << g.epilogue << " t" << g.turned_a << g.turned_b << " r"
        << bool(g.residual) << bool(g.scales[0]) << bool(g.scales[1]) << " " << rows << " " << s.cols
        << " " << s.sum << " x" << s.batch << " s" << s.step_a << "," << s.step_b
        << (free ? " either" : "");
    return out.str();
  }

  // A request waits: of the algorithms that were timed for the rungs around its rows that with the least
  // time expected, or the first that the library names. The first request of a library waits for the
  // ladder.
  Chosen unmeasured(const Context& c, const Gemm& g, const Sizes& s, bool captures, bool free) {
    const ProductChoice none;
    const ProductChoice& choice = s.batch == 1 && c.is_sized(g.b) ? choice_of(c, g, s, captures, free) : none;
    const Product p = product(c, g, s, choice.turned);
    const Between rungs = between(choice.ladder, s.rows);
    Algorithm best{};
    float least = -1.0f;
    for (const auto* rung : {rungs.above, rungs.below})
      for (size_t k = 0; rung != nullptr && k < rung->second.size(); ++k) {
        Algorithm by = rung->second[k].algorithm;
        if ((c.alignment < kAllocated && !is_aligned(by, c.alignment)) || !p.takes(by)) continue;
        const float time = expected(by, s.rows, rungs);
        if (least < 0 || time < least) best = by, least = time;
      }
    if (least < 0) return {p.named(c.name, c.alignment, 1)[0], choice.turned};
    static const bool told = from_environment("OPINFO_CUBLASLT_VERBOSE", 0.0) != 0.0;
    if (told)
      std::fprintf(stderr, "opinfo: %s: %lld x %lld x %lld: %.2f us expected, %.2f waves\n", c.name,
                   static_cast<long long>(s.rows), static_cast<long long>(s.cols),
                   static_cast<long long>(s.sum), least * 1e3, best.waves);
    return {best, choice.turned};
  }

  static Product product(const Context& c, const Gemm& g, const Sizes& s, bool turned) {
    return Product(turned ? with_turned_weights(g) : g, s, c.device, addresses(g, c.data));
  }

  const ProductChoice& choice_of(const Context& c, const Gemm& g, const Sizes& s, bool captures, bool free) {
    static const ProductChoice none;
    const std::string key = key_of(c, g, s, 0, free);
    const auto known = ladders_.find(key);
    if (known != ladders_.end()) return known->second;
    if (captures || spent_ > kSeconds) return none;
    const auto begin = std::chrono::steady_clock::now();
    ProductChoice& out = ladders_[key];
    ProductChoice kept = kept_choice(key, free);
    std::optional<Alone> alone;
    if (kept.ladder.empty()) {
      alone.emplace(kept_algorithms());
      kept = kept_choice(key, free);  // of a process that was waited for
    }
    try {
      out = Climb(c, g, s, free).climbed(kept);
    } catch (const std::exception&) {  // too little memory: the library's estimates are taken
      cudaGetLastError();
    }
    if (!out.ladder.empty() && text_of(out) != text_of(kept))
      kept_algorithms().write(key, text_of(out));
    spent_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (free)  // later requests know the order
      ladders_.emplace(key_of(c, out.turned ? with_turned_weights(g) : g, s, 0, false),
                       ProductChoice{false, out.ladder});
    return out;
  }

  // `final`: whether later regions with this product may take it, too.
  static Chosen measured(const Context& c, const Gemm& g, const Sizes& s, const std::string& key,
                         bool free, bool& final) {
    const Product products[] = {product(c, g, s, false), product(c, g, s, true)};
    ProductChoice kept = kept_choice(key, free);
    if (!kept.ladder.empty()) {
      Algorithm by = kept.ladder.begin()->second[0].algorithm;
      if (products[kept.turned].takes(by)) return {by, kept.turned};
    }
    std::vector<Candidate> all;
    for (const Algorithm& by : products[0].named(c.name, c.alignment, kMany))
      all.push_back({&products[0], by});
    const Algorithm first = all[0].algorithm;
    const Addresses at = addresses(g, c.data);
    final = final && at.residual != at.d;  // timing it would change the result
    if (!final) return {first};
    if (free) add_named(products[1], true, c.name, c.alignment, kMany, all);
    if (all.size() == 1) return {first};
    check(cudaStreamSynchronize(stream_of(c.device)), "stream");
    const Alone alone(kept_algorithms());
    GraphTimer timer;
    time_all(at, all, timer, kRounds, kCalls);
    const Candidate* best = fastest(all);
    if (best == nullptr) return {first};
    kept_algorithms().write(key, text_of({best->turned, {{1, {{best->algorithm, best->time}}}}}));
    return {best->algorithm, best->turned};
  }

  std::mutex mutex_;
  std::map<std::string, Chosen> known_;
  std::map<std::string, ProductChoice> ladders_;
  double spent_ = 0.0;
};

}  // namespace
}  // namespace opinfo_nvidia
