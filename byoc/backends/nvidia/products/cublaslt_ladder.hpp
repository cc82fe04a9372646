// Algorithms of cuBLASLt that were timed for some numbers of rows, and how long they should take for others.
// It follows cublaslt_product.hpp.
#include <cmath>

namespace opinfo_nvidia {
namespace {

// An algorithm that was timed; `time` is in milliseconds, the waves of `algorithm` are those it had then.
struct TimedAlgorithm {
  Algorithm algorithm;
  float time = 0.0f;
};

// Algorithms by numbers of rows, the fastest first.
using Ladder = std::map<int64_t, std::vector<TimedAlgorithm>>;

// What is chosen for a product: `turned` is the order of its weights.
struct ProductChoice {
  bool turned = false;
  Ladder ladder;

  bool has_pieces() const {
    return !ladder.empty() && !ladder.begin()->second.empty() &&
           ladder.begin()->second[0].algorithm.pieces;
  }
};

// [turned] [pieces] rows bytes algorithm nanoseconds ... end, where all algorithms are of pieces or none. cuBLASLt's documentation permits to keep an algorithm as
// bytes, for the same version of the library.
inline std::string text_of(const ProductChoice& choice) {
  std::ostringstream out;
  if (choice.turned) out << "turned ";
  if (choice.has_pieces()) out << "pieces ";
  for (const auto& [rows, rung] : choice.ladder)
    for (const TimedAlgorithm& t : rung) {
      out << rows << " " << t.algorithm.bytes << " ";
      const auto* bytes = reinterpret_cast<const unsigned char*>(&t.algorithm.algo);
      for (size_t k = 0; k < sizeof(t.algorithm.algo); ++k)
        out << "0123456789abcdef"[bytes[k] / 16] << "0123456789abcdef"[bytes[k] % 16];
      out << " " << std::llround(t.time * 1e6) << " ";
    }
  return out.str() + "end";
}

// False if the text is damaged.
inline bool read_choice(const std::string& text, ProductChoice& choice) {
  std::istringstream in(text);
  std::string word;
  Ladder& out = choice.ladder;
  bool pieces = false;
  while (in >> word && word != "end") {
    if (word == "turned" && out.empty()) {
      choice.turned = true;
      continue;
    }
    if (word == "pieces" && out.empty()) {
      pieces = true;
      continue;
    }
    int64_t rows = 0, nanoseconds = 0;
    TimedAlgorithm t;
    std::string digits;
    if (!(std::istringstream(word) >> rows) || rows < 1 || !(in >> t.algorithm.bytes >> digits) ||
        !(in >> nanoseconds) || nanoseconds < 0 || digits.size() != 2 * sizeof(t.algorithm.algo) ||
        digits.find_first_not_of("0123456789abcdef") != std::string::npos)
      return false;
    auto* bytes = reinterpret_cast<unsigned char*>(&t.algorithm.algo);
    for (size_t k = 0; k < sizeof(t.algorithm.algo); ++k)
      bytes[k] = static_cast<unsigned char>(std::stoi(digits.substr(2 * k, 2), nullptr, 16));
    t.algorithm.pieces = pieces;
    t.time = static_cast<float>(nanoseconds) * 1e-6f;
    out[rows].push_back(t);
  }
  return word == "end" && !out.empty();
}

inline bool same(const Algorithm& one, const Algorithm& two) {
  return std::memcmp(&one.algo, &two.algo, sizeof(one.algo)) == 0;
}

// How often all multiprocessors are filled: what is left for the last time takes as long as all of them.
inline float whole_waves(const Algorithm& by) { return std::max(1.0f, std::ceil(by.waves - 1e-3f)); }

// A rung of a ladder, null for none, and the rung above it: `rows` are between them, or those of the upper one alone.
struct Between {
  const Ladder::value_type *below, *above;
};

inline Between between(const Ladder& ladder, int64_t rows) {
  const auto above = ladder.lower_bound(rows);
  const bool is_rung = above != ladder.end() && above->first == rows;
  return {above == ladder.begin() || is_rung ? nullptr : &*std::prev(above),
          above == ladder.end() ? nullptr : &*above};
}

// How much longer an algorithm is expected to take that the library does not name for the rung above.
constexpr float kUnnamed = 1.15f;

// Milliseconds that `by`, with its waves for `rows`, should take: as long as on a rung where it has as many. Kernels
// that share the last wave take less than their waves say, so fewer waves than above save no more than rows do.
inline float expected(const Algorithm& by, int64_t rows, const Between& rungs) {
  const auto timed = [&](const Ladder::value_type* rung) -> const TimedAlgorithm* {
    if (rung != nullptr)
      for (const TimedAlgorithm& t : rung->second)
        if (same(t.algorithm, by)) return &t;
    return nullptr;
  };
  const auto of = [rows](const Ladder::value_type* rung) {
    return static_cast<float>(rows) / static_cast<float>(rung->first);
  };
  const TimedAlgorithm *below = timed(rungs.below), *above = timed(rungs.above);
  const float waves = whole_waves(by);
  const bool as_below = below != nullptr && whole_waves(below->algorithm) == waves,
             as_above = above != nullptr && whole_waves(above->algorithm) == waves;
  if (as_below && as_above) {
    const auto part = static_cast<float>(rows - rungs.below->first) /
                      static_cast<float>(rungs.above->first - rungs.below->first);
    return below->time + part * (above->time - below->time);
  }
  if (as_above) return above->time;
  if (below == nullptr) return above->time * of(rungs.above);
  const float slower = as_below ? std::sqrt(of(rungs.below)) : waves / whole_waves(below->algorithm);
  if (above != nullptr) return std::min(below->time * slower, above->time);
  return below->time * slower * (rungs.above == nullptr ? 1.0f : kUnnamed);
}

}  // namespace
}  // namespace opinfo_nvidia
