// Candidate algorithms of cuBLASLt for a product: what the library names, and their times. It follows
// cublaslt_weights.hpp and cublaslt_ladder.hpp.
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
// order. `pieces`: the product may be one of pieces.
inline ProductChoice kept_choice(const std::string& key, bool free, bool pieces = false) {
  ProductChoice out;
  const KeptTexts::Entry entry = kept_algorithms().read(key);
  if (!entry.exists) return out;
  const bool whole = read_choice(entry.text, out);
  if (!whole) kept_algorithms().say_damaged(key);
  return whole && entry.known && (free || !out.turned) && (pieces || !out.has_pieces()) ? out : ProductChoice{};
}

// A way to compute a product.
struct Candidate {
  const Product* product;
  Algorithm algorithm;
  bool turned = false;
  float time = -1.0f;  // milliseconds, negative if it does not run
  const PieceProduct* pieces = nullptr;  // that `product` is a part of

  size_t bytes() const { return pieces != nullptr ? pieces->bytes(algorithm) : algorithm.bytes; }
  bool run(const Addresses& at, cudaStream_t stream, void* room) const {
    return (pieces != nullptr ? pieces->run(at, stream, algorithm, room)
                              : product->run(at, stream, algorithm, room)) == CUBLAS_STATUS_SUCCESS;
  }
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
                     int calls, int finals = 0) {
  size_t bytes = 1;
  for (const Candidate& c : all) bytes = std::max(bytes, c.bytes());
  void* room = timer.room(static_cast<int64_t>(bytes));
  std::vector<GraphTimer::Launch> launches;
  for (const Candidate& c : all)
    launches.push_back([&c, &at, &timer, room] {
      return (room != nullptr || c.bytes() == 0) && c.run(at, timer.stream(), room);
    });
  const std::vector<float> times = timer.race(launches, rounds, calls, finals);
  for (size_t k = 0; k < times.size(); ++k) all[k].time = times[k];
}

// Adds the algorithms of a product of pieces. `alignment`: of the bias and the result.
inline void add_pieces(const PieceProduct& p, const char* name, int alignment,
                       std::vector<Candidate>& to) {
  constexpr int kMany = 12;
  const size_t before = to.size();
  add_named(p.product(), false, name, alignment, kMany, to);
  for (size_t k = before; k < to.size(); ++k) to[k].pieces = &p, to[k].algorithm.pieces = true;
}

// The fastest one; null if none runs. Pieces must be clearly faster, as their sums are less exact.
inline const Candidate* fastest(const std::vector<Candidate>& all) {
  constexpr float kClearly = 0.9f;
  const Candidate *best = nullptr, *pieces = nullptr;
  for (const Candidate& c : all) {
    const Candidate*& one = c.pieces != nullptr ? pieces : best;
    if (c.time >= 0 && (one == nullptr || c.time < one->time)) one = &c;
  }
  return pieces != nullptr && best != nullptr && pieces->time <= kClearly * best->time ? pieces : best;
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

}  // namespace
}  // namespace opinfo_nvidia
