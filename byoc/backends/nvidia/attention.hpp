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
    OpinfoAttention a{s.bfloat16, s.causal, static_cast<bool>(s.mask), s.scale, {}};
    for (int k = 0; k < kTensors; ++k) {
      std::copy_n(tensors_[k].extents.begin(), 4, a.tensors[k].extents);
      std::copy_n(tensors_[k].steps.begin(), 4, a.tensors[k].steps);
    }
    cudnnHandle_t h = handle_on(device_);
    check(cudnnSetStream(h, stream_of(device_)), "cudnnSetStream");
    char why[kReason] = "";
    plan_.reset(OPINFO_PLANS(make)(h, &a, &bytes_, why, sizeof(why)), OPINFO_PLANS(drop));
    if (plan_ == nullptr) OPINFO_THROW(RuntimeError) << c.name << ": " << why;
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    cudnnHandle_t h = handle_on(device_);
    check(cudnnSetStream(h, stream), "cudnnSetStream");
    void* addresses[kTensors];
    for (int k = 0; k < kTensors; ++k) addresses[k] = tensors_[k].in(data);
    void* room = workspace(device_, stream, static_cast<size_t>(bytes_));
    char why[kReason] = "";
    if (!OPINFO_PLANS(run)(plan_.get(), h, addresses, room, why, sizeof(why)))
      OPINFO_THROW(RuntimeError) << name_ << ": " << why;
  }

 private:
  static constexpr int kAligned = 16, kReason = 512;

  std::array<Heads, kTensors> tensors_;
  const char* name_;
  int device_;
  std::shared_ptr<void> plan_;
  int64_t bytes_ = 0;
};

OPINFO_UNUSED std::unique_ptr<Kernel> attention(const Context& c, const Sdpa& s) {
  return std::make_unique<FusedAttention>(c, s);
}

}  // namespace
}  // namespace opinfo_nvidia
