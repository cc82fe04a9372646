// Attention in float32: launches the kernel of attention32.cu. It follows driver.hpp and attention32.h.
namespace opinfo_nvidia {
namespace {

// Tensors with the offsets of their first elements, and what the kernel is given besides.
struct FloatAttention {
  Operand q, k, v, o, mask;
  int64_t q_first = 0, k_first = 0, v_first = 0, o_first = 0, mask_first = 0;
  Attention32 arguments{};
  int image = 0, bytes = 0;  // the constant with the kernel; its shared memory
  int64_t blocks = 0;
};

class FloatAttentionKernel : public Kernel {
 public:
  FloatAttentionKernel(const Context& c, const FloatAttention& a) : a_(a) {
    constexpr int kVector = 16;
    if (c.alignment % kVector != 0)
      OPINFO_THROW(ValueError) << c.name << ": a tensor is aligned to " << c.alignment
                               << " bytes, expected " << kVector;
    kernel_ = Driver::get().kernel(c.device, a.image, "attention32", a.bytes);
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    Attention32 a = a_.arguments;
    a.q = at(a_.q, data, a_.q_first), a.k = at(a_.k, data, a_.k_first);
    a.v = at(a_.v, data, a_.v_first), a.o = at(a_.o, data, a_.o_first);
    a.mask = a_.mask ? at(a_.mask, data, a_.mask_first) : nullptr;
    Driver::get().launch(kernel_, a_.blocks, kThreads, a_.bytes, stream, &a);
  }

 private:
  static constexpr int kThreads = 128;

  static float* at(const Operand& t, void* const* data, int64_t first) {
    return static_cast<float*>(t.in(data)) + first;
  }

  FloatAttention a_;
  void* kernel_ = nullptr;
};

OPINFO_UNUSED std::unique_ptr<Kernel> attention32(const Context& c, const FloatAttention& a) {
  if (c.data == nullptr) return nullptr;
  return std::make_unique<FloatAttentionKernel>(c, a);
}

}  // namespace
}  // namespace opinfo_nvidia
