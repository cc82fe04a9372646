// cuDNN: attention as a kernel of a region. It follows cudnn.hpp and attention_plans.h.
#include <array>

namespace opinfo_nvidia {
namespace {

// A tensor of halves by batch, heads, rows and columns; steps and the offset count elements.
struct Heads {
  Operand tensor;
  std::array<int64_t, 4> extents{}, steps{};
  int64_t offset = 0;

  explicit operator bool() const { return static_cast<bool>(tensor); }
  void* in(void* const* data) const {
    return tensor ? static_cast<uint16_t*>(tensor.in(data)) + offset : nullptr;
  }
};

// o = softmax(scale q kᵀ + mask) v. `causal`: keys after the diagonal from a corner are hidden.
struct Sdpa {
  bool bfloat16 = false;
  float scale = 1.0f;
  int causal = kNotCausal;
  Heads q, k, v, o, mask;
};

class FusedAttention : public Kernel {
 public:
  FusedAttention(const Context& c, const Sdpa& s)
      : tensors_{s.q, s.k, s.v, s.o, s.mask}, name_(c.name), device_(c.device) {
    if (c.alignment % kAligned != 0)
      OPINFO_THROW(ValueError) << c.name << ": a tensor is aligned to " << c.alignment
                               << " bytes, expected " << kAligned;
    for (const Heads& t : tensors_) inside(c, t);
    OpinfoAttention a;
    std::memset(&a, 0, sizeof(a));  // it is compared as bytes
    a.bfloat16 = s.bfloat16;
    a.causal = s.causal;
    a.masked = static_cast<bool>(s.mask);
    a.scale = s.scale;
    for (int k = 0; k < kTensors; ++k) {
      std::copy_n(tensors_[k].extents.begin(), 4, a.tensors[k].extents);
      std::copy_n(tensors_[k].steps.begin(), 4, a.tensors[k].steps);
    }
    plan_ = shared(c, a);
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    cudnnHandle_t h = handle_on(device_);
    check(cudnnSetStream(h, stream), "cudnnSetStream");
    void* addresses[kTensors];
    for (int k = 0; k < kTensors; ++k) addresses[k] = tensors_[k].in(data);
    void* room = workspace(device_, stream, static_cast<size_t>(plan_->bytes));
    char why[kReason] = "";
    std::lock_guard<std::mutex> lock(plan_->mutex);  // threads must not run a plan at once
    if (!OPINFO_PLANS(run)(plan_->plan.get(), h, addresses, room, why, sizeof(why)))
      OPINFO_THROW(RuntimeError) << name_ << ": " << why;
  }

 private:
  static constexpr int kAligned = 16, kReason = 512;

  struct Planned {
    mutable std::mutex mutex;
    mutable std::shared_ptr<void> plan;
    mutable int64_t bytes = 0;
  };

  // The tensors of a call have all elements of the view: extents known at run time may not fit.
  static void inside(const Context& c, const Heads& t) {
    if (!t) return;
    int64_t last = t.offset;
    for (int k = 0; k < 4; ++k) last += (t.extents[k] - 1) * t.steps[k];
    if (last >= t.tensor.count())
      OPINFO_THROW(ValueError) << c.name << ": the extents of the operands do not fit each other";
  }

  // One plan for all regions with the same attention; the least recently used go first.
  static std::shared_ptr<const Planned> shared(const Context& c, const OpinfoAttention& a) {
    static auto& all = *new opinfo_regions::Kernels<std::vector<char>, Planned>;  // see Ways
    std::vector<char> key(sizeof(a) + sizeof(c.device));
    std::memcpy(key.data(), &a, sizeof(a));
    std::memcpy(key.data() + sizeof(a), &c.device, sizeof(c.device));
    const auto out = all.find(key, [] { return std::make_shared<Planned>(); });
    std::lock_guard<std::mutex> alone(out->mutex);
    if (out->plan != nullptr) return out;
    cudnnHandle_t h = handle_on(c.device);
    check(cudnnSetStream(h, stream_of(c.device)), "cudnnSetStream");
    char why[kReason] = "";
    out->plan.reset(OPINFO_PLANS(make)(h, &a, &out->bytes, why, sizeof(why)), OPINFO_PLANS(drop));
    if (out->plan == nullptr) OPINFO_THROW(RuntimeError) << c.name << ": " << why << told(a);
    return out;
  }

  static std::string told(const OpinfoAttention& a) {
    const auto& q = a.tensors[kQueries].extents;
    const auto& k = a.tensors[kKeys].extents;
    std::ostringstream out;
    out << ": attention of " << q[0] << " x " << q[1] << " heads, " << q[2] << " queries, " << k[2]
        << " keys, " << q[3] << " elements";
    return out.str();
  }

  std::array<Heads, kTensors> tensors_;
  const char* name_;
  int device_;
  std::shared_ptr<const Planned> plan_;
};

// Attention to one key, which gets all the weight: each query has its values. cuDNN's kernel does
// not take it.
class OneKey : public Kernel {
 public:
  explicit OneKey(const Sdpa& s) : v_(s.v), o_(s.o) {}

  void operator()(void* const* data, cudaStream_t stream) const override {
    const auto& n = o_.extents;
    const int64_t shared = n[1] / v_.extents[1];
    for (int64_t b = 0; b < n[0]; ++b)
      for (int64_t h = 0; h < n[1]; ++h) {
        const uint16_t* from = static_cast<uint16_t*>(v_.in(data)) + b * v_.steps[0] +
                               h / shared * v_.steps[1];
        uint16_t* to = static_cast<uint16_t*>(o_.in(data)) + b * o_.steps[0] + h * o_.steps[1];
        for (int64_t q = 0; q < n[2]; ++q)
          check(cudaMemcpyAsync(to + q * o_.steps[2], from, n[3] * sizeof(uint16_t),
                                cudaMemcpyDeviceToDevice, stream),
                "attention to one key");
      }
  }

 private:
  Heads v_, o_;
};

OPINFO_UNUSED std::unique_ptr<Kernel> attention(const Context& c, const Sdpa& s) {
  if (s.k.extents[2] == 1 && c.data != nullptr) return std::make_unique<OneKey>(s);
  return std::make_unique<FusedAttention>(c, s);
}

}  // namespace
}  // namespace opinfo_nvidia
