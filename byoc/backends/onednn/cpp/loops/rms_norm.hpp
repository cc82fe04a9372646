
// Rows divided by the root of the mean of their squares, times a factor of each column. It follows
// kinds.hpp, threads.hpp and vectors.hpp.
#define OPINFO_RMS_NORM

namespace opinfo_onednn {
namespace {

class RmsNorm {
 public:
  RmsNorm(const View& src, const View& factor, const View& dst, float epsilon)
      : src_(src.from), factor_(factor.from), dst_(dst.from), rows_(dst.dims[0]),
        columns_(dst.dims[1]), epsilon_(epsilon) {
    if (factor_ < 0)
      constant_ = static_cast<const float*>(
          constants()[~factor_]->as(factor.desc(), factor.desc()).get_data_handle());
  }

  bool operator()(void* const* data) const {
    const auto* factor = constant_ ? constant_ : static_cast<const float*>(data[factor_]);
    const int64_t some = std::max<int64_t>(1, kElements / columns_);
    in_parallel((rows_ + some - 1) / some, [&](int64_t part) {
      for (int64_t i = part * some; i < std::min(rows_, (part + 1) * some); ++i)
        row(static_cast<const float*>(data[src_]) + i * columns_, factor,
            static_cast<float*>(data[dst_]) + i * columns_);
    });
    return true;
  }

 private:
  void row(const float* from, const float* factor, float* to) const {
    constexpr int kSums = 4;  // that do not wait for each other
    Lanes sums[kSums] = {};
    int64_t k = 0;
    for (; k + kSums * kLanes <= columns_; k += kSums * kLanes)
      times<kSums>([&](auto j) OPINFO_ALWAYS {
        const Lanes x = load(from + k + j * kLanes);
        sums[j] += x * x;
      });
    float parts[kLanes], sum = 0;
    store(parts, (sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (float part : parts) sum += part;
    for (; k < columns_; ++k) sum += from[k] * from[k];
    const float inverse = 1 / std::sqrt(sum / static_cast<float>(columns_) + epsilon_);
    for (k = 0; k + kLanes <= columns_; k += kLanes)
      store(to + k, load(from + k) * inverse * load(factor + k));
    for (; k < columns_; ++k) to[k] = from[k] * inverse * factor[k];
  }

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
  out.push_back(Step("rms_norm:own", [norm](void* const* data) { return (*norm)(data); }));
  append_rest(out, r.post, 0, dst);
  return out;
}

}  // namespace
}  // namespace opinfo_onednn
