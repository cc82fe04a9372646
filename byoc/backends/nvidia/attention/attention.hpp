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
    if (c.waits && limits(a)) return;
    plan_ = shared(device_, name_, a);
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    cudnnHandle_t h = handle_on(device_);
    check(cudnnSetStream(h, stream), "cudnnSetStream");
    void* addresses[kCalled] = {};
    for (int k = 0; k < kTensors; ++k) addresses[k] = tensors_[k].in(data);
    for (int k = kTensors; k < kCalled && places_ != nullptr; ++k)
      addresses[k] = places_->of(k - kTensors);
    void* room = workspace(device_, stream, static_cast<size_t>(plan_->bytes), true);
    char why[kReason] = "";
    std::lock_guard<std::mutex> lock(plan_->mutex);  // threads must not run a plan at once
    if (!OPINFO_PLANS(run)(plan_->plan.get(), h, addresses, room, why, sizeof(why)))
      OPINFO_THROW(RuntimeError) << name_ << ": " << why;
  }

 private:
  static constexpr int kAligned = 16, kReason = 512;
  static constexpr int64_t kFewest = 128, kMembers = 32, kPositions = 512;

  struct Planned {
    mutable std::mutex mutex;
    mutable std::shared_ptr<void> plan;
    mutable int64_t bytes = 0;
  };

  // Where the members of a batch lie, in the device's memory: see kLengths and kOffsets. Rows are
  // for as many members as a plan has at most, and the end.
  class Places {
   public:
    Places(const OpinfoAttention& a, int64_t most) : row_(most + 1) {
      const OpinfoHeads& o = a.tensors[kResult];
      std::vector<int32_t> all;
      for (int64_t n = 0; n < row_; ++n)
        all.push_back(n < o.extents[0] ? static_cast<int32_t>(o.extents[2]) : 0);
      for (int k = kQueries; k <= kResult; ++k)
        for (int64_t n = 0; n < row_; ++n)
          all.push_back(static_cast<int32_t>(std::min(n, o.extents[0]) * a.tensors[k].steps[0]));
      const size_t bytes = all.size() * sizeof(int32_t);
      check(cudaMalloc(&data_, bytes), "places of attention");
      check(cudaMemcpy(data_, all.data(), bytes, cudaMemcpyDefault), "places of attention");
    }
    Places(const Places&) = delete;
    // Not freed: a graph may have its address.
    void* of(int k) const { return static_cast<int32_t*>(data_) + k * row_; }

   private:
    int64_t row_;
    void* data_ = nullptr;
  };

  static int64_t up(int64_t n, int64_t least) {
    while (least < n) least *= 2;
    return least;
  }

  // A plan takes cuDNN 50 ms to build, which compiles a kernel. So requests of many shapes share
  // one for at most as many members and positions as the next powers of two, which runs a few
  // microseconds longer. Those up to kMembers and kPositions are made at the first call, so that
  // no later one waits for them. False if it needs a plan of its own, as one with heads before
  // positions does: steps of its heads differ with the positions.
  bool limits(const OpinfoAttention& a) {
    const OpinfoHeads &q = a.tensors[kQueries], &k = a.tensors[kKeys], &o = a.tensors[kResult];
    if (a.masked || a.causal || q.extents[2] != k.extents[2] || q.extents[0] != k.extents[0])
      return false;
    for (int t = kQueries; t <= kResult; ++t)
      if (a.tensors[t].extents[0] != q.extents[0] ||
          (a.tensors[t].extents[0] + 1) * a.tensors[t].steps[0] > INT32_MAX ||
          (a.tensors[t].extents[1] > 1 && a.tensors[t].steps[1] > a.tensors[t].steps[2]))
        return false;
    const int64_t members = up(q.extents[0], 1), positions = up(q.extents[2], kFewest);
    try {
      plan_ = shared(device_, name_, limit(a, members, positions));
      for (int64_t n = 1; n <= kMembers; n *= 2)
        for (int64_t m = kFewest; m <= kPositions; m *= 2)
          shared(device_, name_, limit(a, n, m));
    } catch (const opinfo::Error& e) {
      static std::once_flag once;
      std::call_once(once, [&] {
        std::fprintf(stderr, "opinfo: %s; each shape waits for a plan of its own\n", e.what());
      });
      return false;
    }
    static auto& all = *new opinfo_regions::Kernels<std::vector<char>, Places>;
    const Capture capture(stream_of(device_));  // memory is allocated
    places_ = all.find(key_of(device_, a), [&] { return std::make_shared<Places>(a, members); });
    return true;
  }

  static OpinfoAttention limit(const OpinfoAttention& a, int64_t members, int64_t positions) {
    OpinfoAttention most = a;
    most.ragged = 1;
    for (int t = kQueries; t <= kResult; ++t) {
      OpinfoHeads& heads = most.tensors[t];
      heads.extents[0] = members;
      heads.extents[2] = positions;
      heads.steps[0] = positions * heads.steps[2];
    }
    return most;
  }

  static std::vector<char> key_of(int device, const OpinfoAttention& a) {
    std::vector<char> key(sizeof(a) + sizeof(device));
    std::memcpy(key.data(), &a, sizeof(a));
    std::memcpy(key.data() + sizeof(a), &device, sizeof(device));
    return key;
  }

  // The tensors of a call have all elements of the view: extents known at run time may not fit.
  static void inside(const Context& c, const Heads& t) {
    if (!t) return;
    int64_t last = t.offset;
    for (int k = 0; k < 4; ++k) last += (t.extents[k] - 1) * t.steps[k];
    if (last >= t.tensor.count())
      OPINFO_THROW(ValueError) << c.name << ": the extents of the operands do not fit each other";
  }

  // One plan for all regions with the same attention; the least recently used go first.
  static std::shared_ptr<const Planned> shared(int device, const char* name,
                                               const OpinfoAttention& a) {
    static auto& all = *new opinfo_regions::Kernels<std::vector<char>, Planned>;  // see Ways
    const auto out = all.find(key_of(device, a), [] { return std::make_shared<Planned>(); });
    std::lock_guard<std::mutex> alone(out->mutex);
    if (out->plan != nullptr) return out;
    cudnnHandle_t h = handle_on(device);
    check(cudnnSetStream(h, stream_of(device)), "cudnnSetStream");
    char why[kReason] = "";
    out->plan.reset(OPINFO_PLANS(make)(h, &a, &out->bytes, why, sizeof(why)), OPINFO_PLANS(drop));
    if (out->plan == nullptr) OPINFO_THROW(RuntimeError) << name << ": " << why << told(a);
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
  std::shared_ptr<const Places> places_;
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
  if (c.known != nullptr) return nullptr;  // a plan takes 50 ms, and is not kept
  if (s.k.extents[2] == 1 && c.data != nullptr) return std::make_unique<OneKey>(s);
  return std::make_unique<FusedAttention>(c, s);
}

}  // namespace
}  // namespace opinfo_nvidia
