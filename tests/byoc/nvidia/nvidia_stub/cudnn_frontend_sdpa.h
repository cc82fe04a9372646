// Attention of cuDNN's frontend: what its support surface says, and what the operation computes, which
// are in cudnn_attention.cpp.
#pragma once
#include <optional>

namespace cudnn_frontend::graph {

struct SDPA_attributes {
  float scale = 1.0f;
  Tensor bias;
  std::optional<int> right;
  DiagonalAlignment_t corner = DiagonalAlignment_t::TOP_LEFT;
  Tensor lengths_q, lengths_kv;
  bool padded = false;
  SDPA_attributes& set_padding_mask(bool value) { return padded = value, *this; }
  SDPA_attributes& set_seq_len_q(Tensor value) { return lengths_q = value, *this; }
  SDPA_attributes& set_seq_len_kv(Tensor value) { return lengths_kv = value, *this; }
  SDPA_attributes& set_name(const std::string&) { return *this; }
  SDPA_attributes& set_generate_stats(bool) { return *this; }
  SDPA_attributes& set_attn_scale(float value) { return scale = value, *this; }
  SDPA_attributes& set_bias(Tensor value) { return bias = value, *this; }
  SDPA_attributes& set_diagonal_alignment(DiagonalAlignment_t value) {
    return corner = value, *this;
  }
  SDPA_attributes& set_diagonal_band_right_bound(int value) { return right = value, *this; }
};

std::string attention_support(const Tensor_attributes& q, const Tensor_attributes& k,
                              const Tensor_attributes& v, const Tensor_attributes& o,
                              const SDPA_attributes& how);
void attention(Pack& pack, const Tensor_attributes& q, const Tensor_attributes& k,
               const Tensor_attributes& v, const Tensor_attributes& o, const SDPA_attributes& how);

}  // namespace cudnn_frontend::graph
