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
};

// [turned] rows bytes algorithm nanoseconds ... end. cuBLASLt's documentation permits to keep an algorithm as
// bytes, for the same version of the library.
inline std::string text_of(const ProductChoice& choice) {
  std::ostringstream out;
  if (choice.turned) out << "turned ";
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
  while (in >> word && word != "end") {
    if (word == "turned" && out.empty()) {
      choice.turned = true;
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

// A rung of a ladder, null for none, and the rung above it: `rows` are between them.
struct Between {
  const Ladder::value_type *below, *above;
};

inline Between between(const Ladder& ladder, int64_t rows) {
  const auto above = ladder.lower_bound(rows);
  return {above == ladder.begin() ? nullptr : &*std::prev(above),
          above == ladder.end() ? nullptr : &*above};
}

// Milliseconds that `by`, with its waves for `rows`, should take: as long for each wave as on the rungs around.
// An algorithm that was timed below only is expected to take longer for more rows within the same waves.
inline float expected(const Algorithm& by, int64_t rows, const Between& rungs) {
  const auto on = [&](const Ladder::value_type* rung) {
    if (rung != nullptr)
      for (const TimedAlgorithm& t : rung->second)
        if (same(t.algorithm, by)) return t.time / whole_waves(t.algorithm);
    return -1.0f;
  };
  const float below = on(rungs.below), above = on(rungs.above);
  float wave = above;
  if (below >= 0 && above >= 0) {
    const auto part = static_cast<float>(rows - rungs.below->first) /
                      static_cast<float>(rungs.above->first - rungs.below->first);
    wave = below + part * (above - below);
  } else if (below >= 0) {
    wave = below * std::sqrt(static_cast<float>(rows) / static_cast<float>(rungs.below->first));
  }
  return wave * whole_waves(by);
}

}  // namespace
}  // namespace opinfo_nvidia
