// Which algorithms of cuBLASLt products take: measured for each product of static sizes, and on a
// ladder of rows for those whose rows are known at run time. It follows cublaslt_product.hpp.
#include <chrono>
#include <optional>

namespace opinfo_nvidia {
namespace {

// Algorithms by numbers of rows.
using Ladder = std::map<int64_t, Algorithm>;

// The alignment of what cudaMalloc returns, in bytes, for which a ladder is.
constexpr int kAllocated = 256;

inline const KeptTexts& kept_algorithms() {
  static const KeptTexts texts("cublaslt", "cuBLASLt's algorithms are timed again");
  return texts;
}

// rows bytes algorithm ... end. cuBLASLt's documentation permits to keep an algorithm as bytes, for the
// same version of the library.
inline std::string text_of(const Ladder& ladder) {
  std::ostringstream out;
  for (const auto& [rows, by] : ladder) {
    out << rows << " " << by.bytes << " ";
    const auto* bytes = reinterpret_cast<const unsigned char*>(&by.algo);
    for (size_t k = 0; k < sizeof(by.algo); ++k)
      out << "0123456789abcdef"[bytes[k] / 16] << "0123456789abcdef"[bytes[k] % 16];
    out << " ";
  }
  return out.str() + "end";
}

// False if the text is damaged.
inline bool read_ladder(const std::string& text, Ladder& out) {
  std::istringstream in(text);
  std::string word;
  while (in >> word && word != "end") {
    int64_t rows = 0;
    Algorithm by;
    std::string digits;
    if (!(std::istringstream(word) >> rows) || rows < 1 || !(in >> by.bytes >> digits) ||
        digits.size() != 2 * sizeof(by.algo) ||
        digits.find_first_not_of("0123456789abcdef") != std::string::npos)
      return false;
    auto* bytes = reinterpret_cast<unsigned char*>(&by.algo);
    for (size_t k = 0; k < sizeof(by.algo); ++k)
      bytes[k] = static_cast<unsigned char>(std::stoi(digits.substr(2 * k, 2), nullptr, 16));
    out[rows] = by;
  }
  return word == "end" && !out.empty();
}

// What an earlier process chose. Empty if it is not known, or damaged.
inline Ladder kept_ladder(const std::string& key) {
  Ladder out;
  const KeptTexts::Entry entry = kept_algorithms().read(key);
  if (!entry.exists) return out;
  const bool whole = read_ladder(entry.text, out);
  if (!whole) kept_algorithms().say_damaged(key);
  return whole && entry.known ? out : Ladder{};
}

// The number of the fastest as parts of CUDA graphs, as models run it; negative if none runs.
inline int fastest(const Product& p, const Addresses& at, const std::vector<Algorithm>& named,
                   GraphTimer& timer, int rounds, int calls) {
  size_t bytes = 1;
  for (const Algorithm& by : named) bytes = std::max(bytes, by.bytes);
  void* room = timer.room(static_cast<int64_t>(bytes));
  std::vector<GraphTimer::Launch> launches;
  for (const Algorithm& by : named)
    launches.push_back([&by, &p, &at, &timer, room] {
      return (room != nullptr || by.bytes == 0) &&
             p.run(at, timer.stream(), by, room) == CUBLAS_STATUS_SUCCESS;
    });
  const std::vector<float> times = timer.race(launches, rounds, calls);
  int best = -1;
  for (size_t k = 0; k < times.size(); ++k)
    if (times[k] >= 0 && (best < 0 || times[k] < times[best])) best = static_cast<int>(k);
  return best;
}

// Chooses algorithms for numbers of rows, before a request comes that has them: 1, 2, 4, ..., from 16 on
// half-way between, and from 64 on four for each power of two. Operands with rows are memory of its
// own, so the call's are not written.
class Climb {
 public:
  // `c` has a call of the product; `s.rows` does not matter.
  Climb(const Context& c, const Gemm& g, const Sizes& s)
      : c_(c), g_(g), s_(s), at_(addresses(g, c.data)),
        input_(opinfo_graphs::aligned(s.sum * (g.type == CUDA_R_32F ? 4 : 2))),
        output_(opinfo_graphs::aligned(
            s.cols * (g.result == CUDA_R_32F || g.result == CUDA_R_32I ? 4 : 2))) {}

  // `kept`: what is known of an earlier process. It is run once, so that the driver loads it.
  Ladder climbed(const Ladder& kept) {
    std::vector<int64_t> rungs;
    const auto most = std::min<int64_t>(
        static_cast<int64_t>(from_environment("OPINFO_CUBLASLT_ROWS", kRows)),
        static_cast<int64_t>(kRoom / (input_ + output_)));
    for (int64_t n = 1; n <= most; n *= 2) {
      const int64_t parts = n >= kFiner ? 4 : n >= kFine ? 2 : 1;
      for (int64_t k = 0; k < parts && n + k * n / parts <= most; ++k)
        rungs.push_back(n + k * n / parts);
    }
    Ladder out;
    if (rungs.empty()) return out;
    const size_t size = rungs.back() * (input_ + output_);
    const opinfo_graphs::Memory room(size);
    opinfo_nvidia::check(cudaMemset(room.data(), 0, size), "memset");
    at_.a = room.data();
    at_.d = room.data() + rungs.back() * input_;
    at_.residual = g_.residual ? at_.d : nullptr;
    opinfo_nvidia::check(cudaStreamSynchronize(stream_of(c_.device)), "stream");
    GraphTimer timer;
    timer.room(Product::kWorkspace);
    for (int64_t rows : rungs) step(rows, kept, timer, out);
    return out;
  }

 private:
  // The largest number of rows, and bytes of operands with rows.
  static constexpr double kRows = 16384;
  static constexpr size_t kRoom = size_t{256} << 20;
  // Rungs are closer from these numbers of rows on.
  static constexpr int64_t kFine = 16, kFiner = 64;
  static constexpr int kAlgorithms = 12, kRounds = 3, kCalls = 4;

  void step(int64_t rows, const Ladder& kept, GraphTimer& timer, Ladder& out) const {
    Sizes s = s_;
    s.rows = rows;
    const Product p(g_, s, c_.device, at_);
    const auto known = kept.find(rows);
    if (known != kept.end()) {
      Algorithm by = known->second;
      if (p.takes(by) && runs(p, by, timer)) {
        out[rows] = by;
        return;
      }
    }
    std::vector<Algorithm> named;
    try {
      named = p.named(c_.name, kAllocated, kAlgorithms);
    } catch (const opinfo::Error&) {  // a call with as many rows raises it again
      return;
    }
    const int best = fastest(p, at_, named, timer, kRounds, kCalls);
    if (best >= 0) out[rows] = named[best];
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
  Addresses at_;
  size_t input_, output_;  // bytes of a row
};

// What was chosen for the products of this library.
class Algorithms {
 public:
  static Algorithms& all() {
    static Algorithms algorithms;
    return algorithms;
  }

  // The algorithm of a product, measured once for all regions with it. If it may not be measured, as in
  // a capture, the first one that the library names, which it estimates the fastest.
  Algorithm of(const Context& c, const Gemm& g, const Sizes& s, const Product& p) {
    const std::lock_guard<std::mutex> alone(mutex_);  // nothing else is timed meanwhile
    const std::string key = key_of(c, g, s, s.rows) + " a" + std::to_string(c.alignment);
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    const bool captures = Capture(stream_of(c.device)).id() != 0;
    bool final = !captures;
    const Algorithm out = c.waits ? unmeasured(c, g, s, p, captures)
                                  : measured(c, g, p, key, captures, final);
    if (known_.size() > kKept) known_.clear();
    if (final) known_.emplace(key, out);
    return out;
  }

 private:
  static constexpr size_t kKept = 4096;
  static constexpr int kMany = 32, kRounds = 5, kCalls = 20;
  // Seconds that ladders of a library may take. Those that were climbed are kept for other processes.
  static constexpr double kSeconds = 10.0;

  // What the time of a product depends on beside the alignment; `rows` is 0 for any.
  static std::string key_of(const Context& c, const Gemm& g, const Sizes& s, int64_t rows) {
    std::ostringstream out;
    out << device_words(c.device) << " cublaslt " << cublasLtGetVersion() << " product " << g.type
        << " " << g.result << " e" << g.epilogue << " t" << g.turned_a << g.turned_b << " r"
        << bool(g.residual) << bool(g.scales[0]) << bool(g.scales[1]) << " " << rows << " " << s.cols << " " << s.sum << " x" << s.batch << " s"
        << s.step_a << "," << s.step_b;
    return out.str();
  }

  // A request waits: the algorithm of the next rung of rows that has one for it, or the first that
  // the library names. The first request of a library waits for the ladder.
  Algorithm unmeasured(const Context& c, const Gemm& g, const Sizes& s, const Product& p,
                       bool captures) {
    if (s.batch == 1 && c.is_sized(g.b)) {
      const Ladder& ladder = ladder_of(c, g, s, captures);
      auto at = ladder.lower_bound(s.rows);
      for (int tries = 0; tries < 2 && !ladder.empty(); ++tries) {
        if (at == ladder.end()) --at;
        Algorithm by = at->second;
        if ((c.alignment >= kAllocated || is_aligned(by, c.alignment)) && p.takes(by)) return by;
        if (at == ladder.begin()) break;
        --at;
      }
    }
    return p.named(c.name, c.alignment, 1)[0];
  }

  const Ladder& ladder_of(const Context& c, const Gemm& g, const Sizes& s, bool captures) {
    static const Ladder none;
    const std::string key = key_of(c, g, s, 0);
    const auto known = ladders_.find(key);
    if (known != ladders_.end()) return known->second;
    if (captures || spent_ > kSeconds) return none;
    const auto begin = std::chrono::steady_clock::now();
    Ladder& out = ladders_[key];
    Ladder kept = kept_ladder(key);
    std::optional<Alone> alone;
    if (kept.empty()) {
      alone.emplace(kept_algorithms());
      kept = kept_ladder(key);  // of a process that was waited for
    }
    try {
      out = Climb(c, g, s).climbed(kept);
    } catch (const std::exception&) {  // too little memory: the library's estimates are taken
      cudaGetLastError();
    }
    if (!out.empty() && text_of(out) != text_of(kept)) kept_algorithms().write(key, text_of(out));
    spent_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return out;
  }

  // `final`: whether later regions with this product may take it, too.
  static Algorithm measured(const Context& c, const Gemm& g, const Product& p,
                            const std::string& key, bool captures, bool& final) {
    Ladder kept = kept_ladder(key);
    if (!kept.empty() && p.takes(kept.begin()->second)) return kept.begin()->second;
    const std::vector<Algorithm> named = p.named(c.name, c.alignment, kMany);
    const Addresses at = addresses(g, c.data);
    final = final && at.residual != at.d;  // timing it would change the result
    if (named.size() == 1 || !final) return named[0];
    check(cudaStreamSynchronize(stream_of(c.device)), "stream");
    const Alone alone(kept_algorithms());
    GraphTimer timer;
    const int best = fastest(p, at, named, timer, kRounds, kCalls);
    if (best >= 0) kept_algorithms().write(key, text_of({{1, named[best]}}));
    return named[std::max(best, 0)];
  }

  std::mutex mutex_;
  std::map<std::string, Algorithm> known_;
  std::map<std::string, Ladder> ladders_;
  double spent_ = 0.0;
};

}  // namespace
}  // namespace opinfo_nvidia
