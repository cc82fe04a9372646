// Attention as plans of cuDNN, in plain C: what a model's functions know of attention_plans.cpp.
// OPINFO_LINKAGE and OPINFO_PLANS say where the functions are and what they are called.
#include <cudnn.h>
#include <stddef.h>
#include <stdint.h>

enum { kQueries, kKeys, kValues, kResult, kMask, kTensors };
// What a plan for other extents is called with beside the tensors: kLengths has the positions of
// each member of the batch, kOffsets + k where each member of tensor k begins, in elements, and the
// end. All are int32.
enum { kLengths = kTensors, kOffsets, kCalled = kOffsets + kMask };
enum { kNotCausal, kFromTopLeft, kFromBottomRight };

// A tensor of halves by batch, heads, rows and columns; steps count elements.
struct OpinfoHeads {
  int64_t extents[4], steps[4];
};

// o = softmax(scale q kᵀ + mask) v. `causal`: keys after the diagonal from a corner are hidden.
// `ragged`: the batch and positions are upper limits of those of a call.
struct OpinfoAttention {
  int bfloat16, causal, masked, ragged;
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
