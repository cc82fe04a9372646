// What generated code uses of cuDNN's frontend, as its documentation has it: a graph is a list of
// operations, which run in order over the host's memory.
#pragma once
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cudnn.h"

namespace cudnn_frontend {
enum class DataType_t { NOT_SET, FLOAT, HALF, BFLOAT16, INT32 };
enum class HeurMode_t { A, B, FALLBACK };
enum class DiagonalAlignment_t { TOP_LEFT, BOTTOM_RIGHT };

class error_object {
 public:
  error_object() = default;
  explicit error_object(std::string message) : message_(std::move(message)) {}
  bool is_bad() const { return !message_.empty(); }
  bool is_good() const { return message_.empty(); }
  std::string get_message() const { return message_; }

 private:
  std::string message_;
};

namespace graph {

struct Tensor_attributes {
  std::vector<int64_t> dim, stride;
  int64_t uid = 0;
  DataType_t type = DataType_t::NOT_SET;
  std::shared_ptr<Tensor_attributes> ragged;
  Tensor_attributes& set_ragged_offset(std::shared_ptr<Tensor_attributes> value) {
    return ragged = std::move(value), *this;
  }
  Tensor_attributes& set_name(const std::string&) { return *this; }
  Tensor_attributes& set_output(bool) { return *this; }
  Tensor_attributes& set_uid(int64_t value) { return uid = value, *this; }
  Tensor_attributes& set_dim(const std::vector<int64_t>& value) { return dim = value, *this; }
  Tensor_attributes& set_stride(const std::vector<int64_t>& value) { return stride = value, *this; }
  Tensor_attributes& set_data_type(DataType_t value) { return type = value, *this; }
};

using Tensor = std::shared_ptr<Tensor_attributes>;
using Pack = std::unordered_map<int64_t, void*>;

// The elements of a tensor of the call, by coordinates.
struct Elements {
  void* data;
  const Tensor_attributes& t;
  cudaDataType_t type() const {
    return t.type == DataType_t::FLOAT ? CUDA_R_32F
           : t.type == DataType_t::HALF ? CUDA_R_16F : CUDA_R_16BF;
  }
  // A coordinate of an axis of one element is 0.
  int64_t at(const std::vector<int64_t>& index) const {
    int64_t place = 0;
    for (size_t k = 0; k < index.size(); ++k)
      place += (t.dim[k] == 1 ? 0 : index[k]) * t.stride[k];
    return place;
  }
  float operator()(const std::vector<int64_t>& index) const {
    return stub::read(data, at(index), type());
  }
  void put(const std::vector<int64_t>& index, float x) const {
    stub::write(data, at(index), type(), x);
  }
};

}  // namespace graph
}  // namespace cudnn_frontend

namespace stub {
extern bool attention_skips;  // a test says that nothing is computed
extern float attention_time;   // milliseconds of a kernel, 0 for those of what ran before
}
#include "cudnn_frontend_sdpa.h"

namespace cudnn_frontend::graph {

class Graph {
 public:
  Graph& set_io_data_type(DataType_t value) { return io_ = value, *this; }
  Graph& set_intermediate_data_type(DataType_t) { return *this; }
  Graph& set_compute_data_type(DataType_t) { return *this; }

  Tensor tensor(const Tensor_attributes& t) {
    tensors_.push_back(std::make_shared<Tensor_attributes>(t));
    return tensors_.back();
  }

  std::array<Tensor, 2> sdpa(Tensor q, Tensor k, Tensor v, SDPA_attributes options) {
    Tensor out = tensor({});
    supports_.push_back([=] { return attention_support(*q, *k, *v, *out, options); });
    runs_.push_back([=](Pack& pack) { attention(pack, *q, *k, *v, *out, options); });
    return {out, nullptr};
  }

  error_object build(const cudnnHandle_t&, const std::vector<HeurMode_t>&) {
    for (auto& t : tensors_)
      if (t->type == DataType_t::NOT_SET) t->type = io_;
    for (auto& supported : supports_)
      if (auto why = supported(); !why.empty()) return error_object(why);
    if (std::getenv("OPINFO_STUB_TELLS_PLANS")) std::fprintf(stderr, "stub: a plan of attention\n");
    return {};
  }
  error_object get_workspace_size(int64_t& bytes) const { return bytes = 64, error_object(); }
  error_object execute(cudnnHandle_t, Pack& pack, void* room) const {
    if (room == nullptr) return error_object("no workspace");
    if (stub::attention_time > 0) stub::elapsed = stub::attention_time;
    if (stub::attention_skips) return {};
    for (auto& run : runs_) run(pack);
    return {};
  }

 private:
  DataType_t io_ = DataType_t::NOT_SET;
  std::vector<Tensor> tensors_;
  std::vector<std::function<std::string()>> supports_;
  std::vector<std::function<void(Pack&)>> runs_;
};

}  // namespace cudnn_frontend::graph
