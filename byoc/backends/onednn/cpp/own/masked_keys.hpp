
// Which keys of attention a constant mask hides from each row. It follows threads.hpp.
#include <cmath>
#include <limits>

namespace opinfo_onednn {
namespace {

// Row i sees the first `seen[i]` keys. The terms of the others are less by `gap` or more than the
// largest of the row's; this is infinite for masks of -inf. A row without a finite term sees all keys.
struct MaskedKeys {
  std::vector<int64_t> seen;
  float gap = std::numeric_limits<float>::infinity();

  // Adds a row of terms that lie `step` apart. A NaN is seen.
  void add(const float* terms, int64_t step, int64_t keys) {
    float most = -std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < keys; ++j) most = std::max(most, terms[j * step]);
    int64_t end = keys;
    while (end > 0 && terms[(end - 1) * step] <= most - kGap) --end;
    if (!std::isfinite(most)) end = keys;
    for (int64_t j = end; j < keys; ++j) gap = std::min(gap, most - terms[j * step]);
    seen.push_back(end);
  }

  // Whether rows see at most three quarters of the keys on average; to find out takes time.
  bool worthwhile(int64_t keys) const {
    int64_t sum = 0;
    for (int64_t end : seen) sum += end;
    return 4 * sum <= 3 * keys * static_cast<int64_t>(seen.size());
  }

 private:
  static constexpr float kGap = 1e4f;
};

}  // namespace
}  // namespace opinfo_onednn
