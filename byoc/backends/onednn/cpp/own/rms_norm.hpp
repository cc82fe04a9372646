
// Rows divided by the root of the mean of their squares, times a factor of each column. It follows
// kinds.hpp, threads.hpp and interface.hpp.
#define OPINFO_RMS_NORM

namespace opinfo_onednn {
namespace {

class RmsNorm : public Work {
 public:
  RmsNorm(const View& src, const View& factor, const View& dst, float epsilon)
      : src_(src.from), factor_(factor.from), dst_(dst.from), rows_(dst.dims[0]),
        columns_(dst.dims[1]), epsilon_(epsilon) {
    if (factor_ < 0)
      constant_ = constants()[~factor_]->elements(factor);
  }

  bool run(void* const* data) const override {
    const auto* factor = constant_ ? constant_ : static_cast<const float*>(data[factor_]);
    const int64_t some = std::max<int64_t>(1, kElements / columns_);
    in_parallel((rows_ + some - 1) / some, [&](int64_t part) {
      for (int64_t i = part * some; i < std::min(rows_, (part + 1) * some); ++i)
        OPINFO_RUNTIME(normalise)(static_cast<const float*>(data[src_]) + i * columns_, factor,
                                  static_cast<float*>(data[dst_]) + i * columns_, columns_, epsilon_);
    });
    return true;
  }

 private:
  static constexpr int64_t kElements = 1 << 14;  // of a thread at a time
  int src_, factor_, dst_;
  int64_t rows_, columns_;
  float epsilon_;
  const float* constant_ = nullptr;
};

// `with`: alpha is epsilon.
OPINFO_CALLED Kernel rms_norm(const Recipe& r) {
  const View& dst = r["dst"];
  auto norm = std::make_shared<RmsNorm>(r["src"].merged(), r["factor"].flat(), dst.merged(), r.alpha);
  Kernel out;
  out.push_back(Step("rms_norm:own", std::move(norm)));
  append_rest(out, r.post, 0, dst);
  return out;
}

}  // namespace
}  // namespace opinfo_onednn
