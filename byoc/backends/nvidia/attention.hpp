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
    if (!OPINFO_PLANS(run)(plan_->plan.get(), h, addresses, room, why, sizeof(why)))
      OPINFO_THROW(RuntimeError) << name_ << ": " << why;
  }

 private:
  static constexpr int kAligned = 16, kReason = 512;

  struct Planned {
    std::mutex mutex;
    std::shared_ptr<void> plan;
    int64_t bytes = 0;
  };

  // One plan for all regions with the same attention: building it takes a second.
  static std::shared_ptr<Planned> shared(const Context& c, const OpinfoAttention& a) {
    static std::mutex mutex;
    static std::map<std::vector<char>, std::shared_ptr<Planned>> all;
    std::vector<char> key(sizeof(a) + sizeof(c.device));
    std::memcpy(key.data(), &a, sizeof(a));
    std::memcpy(key.data() + sizeof(a), &c.device, sizeof(c.device));
    std::unique_lock<std::mutex> lock(mutex);
    std::shared_ptr<Planned> out = all.try_emplace(key, std::make_shared<Planned>()).first->second;
    lock.unlock();
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
  std::shared_ptr<Planned> plan_;
};

OPINFO_UNUSED std::unique_ptr<Kernel> attention(const Context& c, const Sdpa& s) {
  return std::make_unique<FusedAttention>(c, s);
}

}  // namespace
}  // namespace opinfo_nvidia
