// Whether a plan that computes by Winograd's minimal filtering is accurate: its result on random
// numbers is compared with that of a plan that adds products. It follows cudnn_plans.hpp.
#include <random>

namespace opinfo_nvidia {
namespace {

// The largest difference to accept, relative to the largest result: the same as on CPUs.
constexpr double kLargestError = 2e-5;
// A plan that filters is taken if it takes at most this part of the time of the best other one.
constexpr float kWorthwhile = 0.95f;

// A tensor of a call, and the standard deviation of the numbers that replace it.
struct Spread {
  Operand operand;
  float deviation;
};

// Copies of tensors of a call that hold normally distributed numbers: uniform ones would hide most
// of the error.
class RandomCall {
 public:
  // All tensors are float32. `result` may be bound as scratch.
  RandomCall(const std::vector<Spread>& spreads, const Operand& result, cudaStream_t stream)
      : stream_(stream) {
    for (const Spread& s : spreads)
      if (s.operand) add(s.operand, s.deviation);
    add(result, 1.0f);  // a graph may read it, times 0
    result_ = copies_.back();
  }
  RandomCall(const RandomCall&) = delete;
  ~RandomCall() {
    for (const Copy& c : copies_) cudaFree(c.memory);
  }

  // The result of a plan with the tensors replaced; empty if it does not run.
  std::vector<float> operator()(cudnnHandle_t h, const Plan& plan, const Graph& graph,
                                void* const* data, void* room) const {
    std::vector<float> out(result_.operand.count());
    const size_t bytes = out.size() * sizeof(float);
    std::vector<void*> addresses;
    for (const Bound& b : graph.bound()) addresses.push_back(address(b, data));
    const bool good = good_ && plan.run(h, graph, addresses, room) == CUDNN_STATUS_SUCCESS &&
                      cudaMemcpyAsync(out.data(), result_.memory, bytes, cudaMemcpyDefault,
                                      stream_) == cudaSuccess &&
                      cudaStreamSynchronize(stream_) == cudaSuccess;
    return good ? out : std::vector<float>{};
  }

 private:
  struct Copy {
    Operand operand;
    float* memory;
  };

  static const std::vector<float>& normal() {
    constexpr int kPeriod = 65521;  // a prime, so that no two windows of an image are the same
    static const std::vector<float> numbers = [] {
      std::mt19937 bits(0);
      std::normal_distribution<float> next;
      std::vector<float> out(kPeriod);
      for (float& x : out) x = next(bits);
      return out;
    }();
    return numbers;
  }

  // Later tensors continue where the period of the ones before it ends.
  void add(const Operand& operand, float deviation) {
    std::vector<float> numbers = normal();
    std::rotate(numbers.begin(), numbers.begin() + 977 * copies_.size(), numbers.end());
    for (float& x : numbers) x *= deviation;
    const size_t all = operand.count() * sizeof(float);
    void* memory = nullptr;
    good_ = cudaMalloc(&memory, all) == cudaSuccess && good_;
    copies_.push_back({operand, static_cast<float*>(memory)});
    if (!good_) return;
    size_t filled = std::min(all, numbers.size() * sizeof(float));
    copy(memory, numbers.data(), filled);
    good_ = cudaStreamSynchronize(stream_) == cudaSuccess && good_;  // `numbers` ends here
    for (; filled < all; filled *= 2)
      copy(static_cast<char*>(memory) + filled, memory, std::min(filled, all - filled));
  }

  void copy(void* to, const void* from, size_t bytes) {
    good_ = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_) == cudaSuccess && good_;
  }

  void* address(const Bound& bound, void* const* data) const {
    if (!bound.operand) return result_.memory;
    for (const Copy& c : copies_)
      if (c.operand.from == bound.operand.from && c.operand.fixed == bound.operand.fixed)
        return c.memory;
    return bound.operand.in(data);
  }

  cudaStream_t stream_;
  std::vector<Copy> copies_;
  Copy result_;
  bool good_ = true;
};

// Whether results are as close as they have to be. NaN is not.
inline bool is_close(const std::vector<float>& result, const std::vector<float>& expected) {
  if (result.size() != expected.size() || result.empty()) return false;
  double largest = 0.0, apart = 0.0;
  for (size_t k = 0; k < result.size(); ++k) {
    const double difference = std::abs(static_cast<double>(result[k]) - expected[k]);
    if (!std::isfinite(difference)) return false;
    largest = std::max(largest, std::abs(static_cast<double>(expected[k])));
    apart = std::max(apart, difference);
  }
  return apart <= kLargestError * largest;
}

}  // namespace
}  // namespace opinfo_nvidia
