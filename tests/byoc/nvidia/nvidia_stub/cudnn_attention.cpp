// Attention of cuDNN's frontend on the host, with the softmax in float32 and its weights rounded before
// the second product.
#include <algorithm>
#include <cmath>

#include "cudnn_frontend.h"

bool stub::attention_skips = false;
float stub::attention_time = 0.0f;

namespace cudnn_frontend::graph {

std::string attention_support(const Tensor_attributes& q, const Tensor_attributes& k,
                                     const Tensor_attributes& v, const Tensor_attributes& o,
                                     const SDPA_attributes& how) {
  const bool last = how.corner == DiagonalAlignment_t::BOTTOM_RIGHT && how.right;
  for (const auto* t : {&q, &k, &v, &o}) {
    if (t->dim.size() != 4 || t->stride.size() != 4) return "a tensor has no four axes";
    if (t->stride[3] != 1) return "the elements of a head are not side by side";
    for (int j = 0; j < 3; ++j)
      if (t->stride[j] % 8 != 0) return "a stride is not a multiple of 16 bytes";
  }
  if (q.dim[1] % k.dim[1] || q.dim[1] % v.dim[1]) return "the heads do not divide";
  if (q.dim[3] % 8 || v.dim[3] % 8 || q.dim[3] > 128) return "the size of a head";
  if (q.dim[3] != k.dim[3] || k.dim[2] != v.dim[2] || q.dim[0] != k.dim[0] ||
      q.dim[0] != v.dim[0] ||
      o.dim != std::vector<int64_t>{q.dim[0], q.dim[1], q.dim[2], v.dim[3]})
    return "the extents do not fit each other";
  for (const auto* t : {&q, &k, &v, &o}) {
    if ((t->ragged != nullptr) != how.padded) return "ragged tensors need lengths";
    if (t->ragged && (t->ragged->type != DataType_t::INT32 || t->ragged->dim[0] != t->dim[0] + 1))
      return "the offsets";
  }
  if (how.padded && (!how.lengths_q || !how.lengths_kv || how.lengths_q->dim[0] != q.dim[0]))
    return "the lengths";
  if (last && (q.dim[2] > k.dim[2] || how.bias)) return "bottom right";
  if (how.bias && (how.bias->stride[3] != 1 || how.bias->dim[2] != q.dim[2] ||
                   how.bias->dim[3] != k.dim[2]))
    return "the mask";
  return "";
}

void attention(Pack& pack, const Tensor_attributes& q, const Tensor_attributes& k,
                      const Tensor_attributes& v, const Tensor_attributes& o,
                      const SDPA_attributes& how) {
  const Elements Q{pack.at(q.uid), q}, K{pack.at(k.uid), k}, V{pack.at(v.uid), v},
      O{pack.at(o.uid), o};
  if (how.padded) {  // each member by itself, from where it begins
    const auto ints = [&](const Tensor& t) { return static_cast<const int32_t*>(pack.at(t->uid)); };
    for (int64_t b = 0; b < q.dim[0]; ++b) {
      SDPA_attributes plain = how;
      plain.padded = false;
      Pack one = pack;
      Tensor_attributes own[] = {q, k, v, o};
      for (auto& t : own) {
        one[t.uid] = static_cast<uint16_t*>(pack.at(t.uid)) + ints(t.ragged)[b];
        t.dim[0] = 1;
        t.dim[2] = ints(&t == own || &t == own + 3 ? how.lengths_q : how.lengths_kv)[b];
      }
      if (own[0].dim[2] > 0) attention(one, own[0], own[1], own[2], own[3], plain);
    }
    return;
  }
  const int64_t keys = k.dim[2], shift =
      how.corner == DiagonalAlignment_t::BOTTOM_RIGHT ? keys - q.dim[2] : 0;
  std::vector<float> s(keys);
  for (int64_t b = 0; b < q.dim[0]; ++b)
    for (int64_t h = 0; h < q.dim[1]; ++h)
      for (int64_t i = 0; i < q.dim[2]; ++i) {
        const int64_t hk = h / (q.dim[1] / k.dim[1]), hv = h / (q.dim[1] / v.dim[1]);
        float most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < keys; ++j) {
          float x = 0;
          for (int64_t d = 0; d < q.dim[3]; ++d) x += Q({b, h, i, d}) * K({b, hk, j, d});
          x *= how.scale;
          if (how.bias) x += Elements{pack.at(how.bias->uid), *how.bias}({b, h, i, j});
          if (how.right && j > i + shift + *how.right) x = -INFINITY;
          s[j] = x;
          most = std::max(most, x);
        }
        for (float& x : s) sum += x = std::exp(x - most);
        for (int64_t d = 0; d < v.dim[3]; ++d) {
          float x = 0;
          for (int64_t j = 0; j < keys; ++j) {
            uint16_t half;
            stub::write(&half, 0, V.type(), s[j] / sum);
            x += stub::read(&half, 0, V.type()) * V({b, hv, j, d});
          }
          O.put({b, h, i, d}, x);
        }
      }
}

}  // namespace cudnn_frontend::graph
