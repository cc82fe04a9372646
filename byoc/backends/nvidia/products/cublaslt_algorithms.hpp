// Which algorithms of cuBLASLt products take: measured for each product of static sizes, and on a
// ladder of rows for those whose rows are known at run time, and in which order constant weights are
// read. It follows cublaslt_climb.hpp.
namespace opinfo_nvidia {
namespace {

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
    const std::string key = key_of(c, g, s, s.rows, free) + " a" + std::to_string(c.alignment) +
                            (PieceProduct::applies(c, g, s) ? " pieces" : "");
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
  static constexpr int kMany = 32, kRounds = 5, kCalls = 20, kFinals = 30;
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

  // Null if there are none, or too little memory.
  static std::unique_ptr<const PieceProduct> product_of_pieces(const Context& c, const Gemm& g,
                                                               const Sizes& s) {
    if (!PieceProduct::applies(c, g, s)) return nullptr;
    try {
      return std::make_unique<PieceProduct>(c, g, s);
    } catch (const std::exception&) {
      cudaGetLastError();
      return nullptr;
    }
  }

  // `final`: whether later regions with this product may take it, too.
  static Chosen measured(const Context& c, const Gemm& g, const Sizes& s, const std::string& key,
                         bool free, bool& final) {
    const Product products[] = {product(c, g, s, false), product(c, g, s, true)};
    const std::unique_ptr<const PieceProduct> pieces = product_of_pieces(c, g, s);
    ProductChoice kept = kept_choice(key, free, pieces != nullptr);
    if (!kept.ladder.empty()) {
      Algorithm by = kept.ladder.begin()->second[0].algorithm;
      if ((by.pieces ? pieces->product() : products[kept.turned]).takes(by)) return {by, kept.turned};
    }
    std::vector<Candidate> all;
    for (const Algorithm& by : products[0].named(c.name, c.alignment, kMany))
      all.push_back({&products[0], by});
    const Algorithm first = all[0].algorithm;
    const Addresses at = addresses(g, c.data);
    final = final && at.residual != at.d;  // timing it would change the result
    if (!final) return {first};
    if (free) add_named(products[1], true, c.name, c.alignment, kMany, all);
    if (pieces != nullptr) add_pieces(*pieces, c.name, c.alignment, all);
    if (all.size() == 1) return {first};
    check(cudaStreamSynchronize(stream_of(c.device)), "stream");
    const Alone alone(kept_algorithms());
    GraphTimer timer;
    time_all(at, all, timer, kRounds, kCalls, kFinals);
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
