// cuDNN: attention as a kernel of a region. It follows fused_attention.hpp.
namespace opinfo_nvidia {
namespace {

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
