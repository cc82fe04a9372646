// What a kernel of attention in float32 is given: see attention32.cu.
// Steps count elements. Batches have up to three axes.
struct Attention32 {
  const float* q;
  const float* k;
  const float* v;
  const float* mask;
  float* o;
  long long q_row, k_row, v_row, o_row, mask_row, mask_key;
  long long q_batch[3], k_batch[3], v_batch[3], o_batch[3], mask_batch[3];
  int second, third, queries, keys, shift;
  float scale;
};
