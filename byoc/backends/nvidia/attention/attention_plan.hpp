// Plans of cuDNN's attention, which regions of a library share, and where a plan for many shapes finds
// the members of a batch. It follows sdpa.hpp and attention_plans.h.

namespace opinfo_nvidia {
namespace {

// A plan, and the bytes of workspace that it needs.
struct AttentionPlan {
  static constexpr int kReason = 512;
  mutable std::mutex mutex;
  mutable std::shared_ptr<void> plan;
  mutable int64_t bytes = 0;

  // One plan for all regions with the same attention; the least recently used go first.
  static std::shared_ptr<const AttentionPlan> shared(int device, const char* name,
                                                     const OpinfoAttention& a) {
    static auto& all = *new opinfo_regions::Kernels<std::vector<char>, AttentionPlan>;  // see Ways
    const auto out = all.find(key_of(device, a), [] { return std::make_shared<AttentionPlan>(); });
    std::lock_guard<std::mutex> alone(out->mutex);
    if (out->plan != nullptr) return out;
    cudnnHandle_t h = handle_on(device);
    check(cudnnSetStream(h, stream_of(device)), "cudnnSetStream");
    char why[kReason] = "";
    out->plan.reset(OPINFO_PLANS(make)(h, &a, &out->bytes, why, sizeof(why)), OPINFO_PLANS(drop));
    if (out->plan == nullptr) OPINFO_THROW(RuntimeError) << name << ": " << why << told(a);
    return out;
  }

  // An attention of which others with fewer members and positions are parts.
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

  static std::string told(const OpinfoAttention& a) {
    const auto& q = a.tensors[kQueries].extents;
    const auto& k = a.tensors[kKeys].extents;
    std::ostringstream out;
    out << ": attention of " << q[0] << " x " << q[1] << " heads, " << q[2] << " queries, " << k[2]
        << " keys, " << q[3] << " elements";
    return out.str();
  }
};

// Where the members of a batch lie, in the device's memory: see kLengths and kOffsets. Rows are
// for as many members as a plan has at most, and the end.
class AttentionPlaces {
 public:
  AttentionPlaces(const OpinfoAttention& a, int64_t most) : row_(most + 1) {
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
  AttentionPlaces(const AttentionPlaces&) = delete;
  // Not freed: a graph may have its address.
  void* of(int k) const { return static_cast<int32_t*>(data_) + k * row_; }

 private:
  int64_t row_;
  void* data_ = nullptr;
};

}  // namespace
}  // namespace opinfo_nvidia
