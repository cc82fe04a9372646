// Times algorithms on a ladder of rows, for products whose rows are known at run time. It follows
// cublaslt_candidates.hpp.
namespace opinfo_nvidia {
namespace {

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

}  // namespace
}  // namespace opinfo_nvidia
