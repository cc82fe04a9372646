// Attention as plans of cuDNN, in plain C: what a model's functions know of attention_plans.cpp.
// OPINFO_LINKAGE and OPINFO_PLANS say where the functions are and what they are called.
#include <cudnn.h>
#include <stddef.h>
#include <stdint.h>

enum { kQueries, kKeys, kValues, kResult, kMask, kTensors };
enum { kNotCausal, kFromTopLeft, kFromBottomRight };

// A tensor of halves by batch, heads, rows and columns; steps count elements.
struct OpinfoHeads {
  int64_t extents[4], steps[4];
};

// o = softmax(scale q kᵀ + mask) v. `causal`: keys after the diagonal from a corner are hidden.
struct OpinfoAttention {
  int bfloat16, causal, masked;
  float scale;
  OpinfoHeads tensors[kTensors];
};

// A plan and the bytes of its workspace; null with a reason in `why` if cuDNN has none.
OPINFO_LINKAGE void* OPINFO_PLANS(make)(cudnnHandle_t h, const OpinfoAttention* a, int64_t* bytes,
                                        char* why, size_t size);
// Whether it was launched; otherwise the reason is in `why`.
OPINFO_LINKAGE int OPINFO_PLANS(run)(const void* plan, cudnnHandle_t h, void* const* addresses,
                                     void* room, char* why, size_t size);
OPINFO_LINKAGE void OPINFO_PLANS(drop)(void* plan);
