// cuDNN: attention as one kernel, by the graph API of cuDNN's frontend. It follows cudnn.hpp.
#include <dlfcn.h>

#include <array>
#include <unordered_map>

// Otherwise the frontend also calls NVRTC, which its kernels for other operators need.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>

namespace cudnn_frontend {
// The cuDNN that this library is linked with, where the frontend looks functions up.
void* cudnn_dlhandle = [] {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&cudnnCreate), &info);
  return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}();
}  // namespace cudnn_frontend

namespace opinfo_nvidia {
namespace {

namespace fe = cudnn_frontend;

// A tensor of halves by batch, heads, rows and columns; steps and the offset count elements.
struct Heads {
  Operand tensor;
  std::array<int64_t, 4> extents{}, steps{};
  int64_t offset = 0;

  explicit operator bool() const { return static_cast<bool>(tensor); }
  void* in(void* const* data) const {
    return static_cast<uint16_t*>(tensor.in(data)) + offset;
  }
};

// o = softmax(scale q kᵀ + mask) v. `causal`: keys after the diagonal from `corner` are hidden.
struct Sdpa {
  fe::DataType_t type = fe::DataType_t::HALF;
  float scale = 1.0f;
  bool causal = false;
  fe::DiagonalAlignment_t corner = fe::DiagonalAlignment_t::TOP_LEFT;
  Heads q, k, v, o, mask;
};

class FusedAttention : public Kernel {
 public:
  FusedAttention(const Context& c, const Sdpa& s) : s_(s), device_(c.device) {
    if (c.alignment % kAligned != 0)
      OPINFO_THROW(ValueError) << c.name << ": a tensor is aligned to " << c.alignment
                               << " bytes, expected " << kAligned;
    graph_.set_io_data_type(s.type)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    auto options = fe::graph::SDPA_attributes()
                       .set_name("attention")
                       .set_generate_stats(false)
                       .set_attn_scale(s.scale);
    if (s.causal) options.set_diagonal_alignment(s.corner).set_diagonal_band_right_bound(0);
    if (s.mask) options.set_bias(tensor(s.mask, kMask, "mask"));
    auto out = graph_.sdpa(tensor(s.q, kQueries, "queries"), tensor(s.k, kKeys, "keys"),
                           tensor(s.v, kValues, "values"), options)[0];
    out->set_output(true).set_uid(kResult).set_dim(list(s.o.extents)).set_stride(list(s.o.steps));
    cudnnHandle_t h = handle_on(device_);
    check(cudnnSetStream(h, stream_of(device_)), "cudnnSetStream");
    good(graph_.build(h, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}), c.name);
    good(graph_.get_workspace_size(bytes_), c.name);
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    cudnnHandle_t h = handle_on(device_);
    check(cudnnSetStream(h, stream), "cudnnSetStream");
    std::unordered_map<int64_t, void*> pack{{kQueries, s_.q.in(data)},
                                            {kKeys, s_.k.in(data)},
                                            {kValues, s_.v.in(data)},
                                            {kResult, s_.o.in(data)}};
    if (s_.mask) pack[kMask] = s_.mask.in(data);
    good(graph_.execute(h, pack, workspace(device_, stream, static_cast<size_t>(bytes_))),
         "attention");
  }

 private:
  enum : int64_t { kQueries = 1, kKeys, kValues, kResult, kMask };
  static constexpr int kAligned = 16;

  static std::vector<int64_t> list(const std::array<int64_t, 4>& values) {
    return {values.begin(), values.end()};
  }

  static void good(fe::error_object status, const char* what) {
    if (status.is_bad()) OPINFO_THROW(RuntimeError) << what << ": " << status.get_message();
  }

  std::shared_ptr<fe::graph::Tensor_attributes> tensor(const Heads& t, int64_t uid,
                                                       const char* name) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(name)
                             .set_uid(uid)
                             .set_dim(list(t.extents))
                             .set_stride(list(t.steps)));
  }

  Sdpa s_;
  int device_;
  fe::graph::Graph graph_;
  int64_t bytes_ = 0;
};

OPINFO_UNUSED std::unique_ptr<Kernel> attention(const Context& c, const Sdpa& s) {
  return std::make_unique<FusedAttention>(c, s);
}

}  // namespace
}  // namespace opinfo_nvidia
