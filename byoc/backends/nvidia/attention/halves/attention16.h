// What a kernel of attention in half precision is given: see attention16.cu.
// Steps count elements: of the batch, of heads, of rows. A part of a block's warps, of which there are
// 1, 2 or 4, shares queries and divides keys.
struct Attention16 {
  const void* q;
  const void* k;
  const void* v;
  const void* mask;  // if the kernel is compiled for one
  void* o;
  long long q_steps[3], k_steps[3], v_steps[3], o_steps[3];
  long long mask_steps[4];  // also of keys; 0 along axes that the mask is the same for
  int heads, keys_shared, values_shared;  // heads of queries; how many have the same keys, values
  int queries, keys, causal, shift, splits;
  float scale;
};
