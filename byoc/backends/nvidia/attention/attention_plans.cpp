// cuDNN: attention as one kernel, by the graph API of cuDNN's frontend, behind functions of C. The
// frontend takes half a minute to compile, so this is compiled once, without TVM and any model, to
// an object file. It follows attention_plans.h and frontend_loader.h.
#include <cstdio>
#include <exception>
#include <memory>
#include <unordered_map>
#include <vector>

namespace opinfo_attention {
namespace {

namespace fe = cudnn_frontend;

struct Plan {
  fe::graph::Graph graph;
};

std::vector<int64_t> list(const int64_t* values) { return {values, values + 4}; }

std::shared_ptr<fe::graph::Tensor_attributes> tensor(fe::graph::Graph& graph,
                                                     const OpinfoHeads& t, int64_t uid,
                                                     const char* name) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name(name)
                          .set_uid(uid)
                          .set_dim(list(t.extents))
                          .set_stride(list(t.steps)));
}

std::shared_ptr<fe::graph::Tensor_attributes> integers(fe::graph::Graph& graph, int64_t count,
                                                       int64_t uid, const char* name) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name(name)
                          .set_uid(uid)
                          .set_dim({count, 1, 1, 1})
                          .set_stride({1, 1, 1, 1})
                          .set_data_type(fe::DataType_t::INT32));
}

fe::error_object build(Plan& plan, cudnnHandle_t h, const OpinfoAttention& a) {
  fe::graph::Graph& graph = plan.graph;
  graph.set_io_data_type(a.bfloat16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  auto options = fe::graph::SDPA_attributes()
                     .set_name("attention")
                     .set_generate_stats(false)
                     .set_attn_scale(a.scale);
  if (a.causal)
    options
        .set_diagonal_alignment(a.causal == kFromTopLeft
                                    ? fe::DiagonalAlignment_t::TOP_LEFT
                                    : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(0);
  if (a.masked) options.set_bias(tensor(graph, a.tensors[kMask], kMask + 1, "mask"));
  auto queries = tensor(graph, a.tensors[kQueries], kQueries + 1, "queries");
  auto keys = tensor(graph, a.tensors[kKeys], kKeys + 1, "keys");
  auto values = tensor(graph, a.tensors[kValues], kValues + 1, "values");
  const OpinfoHeads& o = a.tensors[kResult];
  if (a.ragged) {
    auto lengths = integers(graph, o.extents[0], kLengths + 1, "lengths");
    options.set_padding_mask(true).set_seq_len_q(lengths).set_seq_len_kv(lengths);
    queries->set_ragged_offset(integers(graph, o.extents[0] + 1, kOffsets + kQueries + 1, "of q"));
    keys->set_ragged_offset(integers(graph, o.extents[0] + 1, kOffsets + kKeys + 1, "of k"));
    values->set_ragged_offset(integers(graph, o.extents[0] + 1, kOffsets + kValues + 1, "of v"));
  }
  auto out = graph.sdpa(queries, keys, values, options)[0];
  if (a.ragged)
    out->set_ragged_offset(integers(graph, o.extents[0] + 1, kOffsets + kResult + 1, "of o"));
  out->set_output(true).set_uid(kResult + 1).set_dim(list(o.extents)).set_stride(list(o.steps));
  return graph.build(h, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
}

// Whether what a function does succeeds; otherwise the reason is in `why`.
template <typename Work>
int told(char* why, size_t size, Work work) {
  try {
    fe::error_object status = work();  // its message is not a const function
    if (status.is_good()) return 1;
    std::snprintf(why, size, "%s", status.get_message().c_str());
  } catch (const std::exception& e) {
    std::snprintf(why, size, "%s", e.what());
  }
  return 0;
}

}  // namespace
}  // namespace opinfo_attention

OPINFO_LINKAGE void* OPINFO_PLANS(make)(cudnnHandle_t h, const OpinfoAttention* a, int64_t* bytes,
                                        char* why, size_t size) {
  auto plan = std::make_unique<opinfo_attention::Plan>();
  const int good = opinfo_attention::told(why, size, [&] {
    auto status = opinfo_attention::build(*plan, h, *a);
    return status.is_bad() ? status : plan->graph.get_workspace_size(*bytes);
  });
  return good ? plan.release() : nullptr;
}

OPINFO_LINKAGE int OPINFO_PLANS(run)(const void* plan, cudnnHandle_t h, void* const* addresses,
                                     void* room, char* why, size_t size) {
  return opinfo_attention::told(why, size, [&] {
    std::unordered_map<int64_t, void*> pack;
    for (int k = 0; k < kCalled; ++k)
      if (addresses[k] != nullptr) pack[k + 1] = addresses[k];
    return static_cast<const opinfo_attention::Plan*>(plan)->graph.execute(h, pack, room);
  });
}

OPINFO_LINKAGE void OPINFO_PLANS(drop)(void* plan) {
  delete static_cast<opinfo_attention::Plan*>(plan);
}
