
// Hyperbolic tangents of a whole tensor, and GELUs by them. It follows steps.hpp, threads.hpp and
// interface.hpp.
#define OPINFO_TANGENTS

namespace opinfo_onednn {
namespace {

// Without AVX-512, the library takes 3 ns for such an element, five times as long as for an exponential.
inline bool has_own_tangent(Algorithm how, const View& dst) {
  return opinfo_loops::kLanes < 16 && dst.type == dnnl_f32 &&
         (how == dnnl_eltwise_tanh || how == dnnl_eltwise_gelu_tanh);
}

// Of each element in memory, whatever the order of axes.
class Tangents : public Work {
 public:
  Tangents(Algorithm how, const View& src, const View& dst)
      : gelu_(how == dnnl_eltwise_gelu_tanh), src_(src.from), dst_(dst.from),
        count_(static_cast<int64_t>(dst.desc().bytes() / sizeof(float))) {}

  bool run(void* const* data) const override {
    const auto* from = static_cast<const float*>(data[src_]);
    auto* to = static_cast<float*>(data[dst_]);
    in_parallel((count_ + kElements - 1) / kElements, [&](int64_t part) {
      const int64_t begin = part * kElements;
      OPINFO_RUNTIME(tangents)(from + begin, to + begin, std::min(kElements, count_ - begin), gelu_);
    });
    return true;
  }

 private:
  static constexpr int64_t kElements = 1 << 14;  // of a thread at a time
  bool gelu_;
  int src_, dst_;
  int64_t count_;
};

inline Step tangents(Algorithm how, const View& src, const View& dst) {
  return Step("tangents:own", std::make_shared<Tangents>(how, src, dst));
}

}  // namespace
}  // namespace opinfo_onednn
