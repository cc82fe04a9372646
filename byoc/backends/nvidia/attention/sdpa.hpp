// Attention with its tensors by batch, heads, rows and columns. It follows cudnn.hpp and attention16.hpp.
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
  int kernel = -1;  // the number of the constant that is compiled from attention16.cu, if it is tried
};

// What our own kernel is given, but for addresses and the warps that divide keys.
inline Attention16 own_arguments(const Sdpa& s) {
  Attention16 a{};
  const Heads* tensors[] = {&s.q, &s.k, &s.v, &s.o};
  long long* steps[] = {a.q_steps, a.k_steps, a.v_steps, a.o_steps};
  for (int t = 0; t < 4; ++t) std::copy_n(tensors[t]->steps.begin(), 3, steps[t]);
  for (int axis = 0; axis < 4 && s.mask; ++axis)
    a.mask_steps[axis] = s.mask.extents[axis] == 1 ? 0 : s.mask.steps[axis];
  a.heads = static_cast<int>(s.o.extents[1]);
  a.keys_shared = static_cast<int>(s.o.extents[1] / s.k.extents[1]);
  a.values_shared = static_cast<int>(s.o.extents[1] / s.v.extents[1]);
  a.queries = static_cast<int>(s.q.extents[2]), a.keys = static_cast<int>(s.k.extents[2]);
  a.causal = s.causal != kNotCausal;
  a.shift = s.causal == kFromBottomRight ? a.keys - a.queries : 0;
  a.scale = s.scale;
  return a;
}

}  // namespace
}  // namespace opinfo_nvidia
