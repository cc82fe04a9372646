// Regions of the onednn backend: tensors as strided views, and constants that are reordered once. It
// follows common/regions.hpp.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_debug.h>
#include <string>
#include <vector>

#define OPINFO_CALLED __attribute__((noinline, unused))

namespace opinfo_onednn {
namespace {  // two models in one process share nothing

using dnnl::algorithm;
using dnnl::memory;
using Dims = memory::dims;
using Type = memory::data_type;

inline dnnl::engine& cpu() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

inline dnnl::stream& here() {
  static thread_local dnnl::stream stream(cpu());
  return stream;
}

// A tensor as oneDNN sees it. `from` counts the function's tensors, or is ~k for constant k.
struct View {
  int rank, from;
  Type type;
  int64_t dims[DNNL_MAX_NDIMS], strides[DNNL_MAX_NDIMS];

  OPINFO_CALLED static View plain(const int64_t* dims, int rank, Type type, int from) {
    if (rank > DNNL_MAX_NDIMS - 1) OPINFO_THROW(ValueError) << "a tensor of rank " << rank;
    View v{rank, from, type, {}, {}};
    int64_t step = 1;
    for (int k = rank; k-- > 0; step *= dims[k]) {
      v.dims[k] = dims[k];
      v.strides[k] = step;
    }
    return v;
  }

  // Axes in another order, a digit for each.
  OPINFO_CALLED View permuted(const char* axes) const {
    View v = *this;
    for (int k = 0; k < rank; ++k) {
      v.dims[k] = dims[axes[k] - '0'];
      v.strides[k] = strides[axes[k] - '0'];
    }
    return v;
  }

  // Leading axes of one element.
  OPINFO_CALLED View expanded(int to) const {
    View v = *this;
    v.rank = to;
    const int more = to - rank;
    for (int k = 0; k < to; ++k) {
      v.dims[k] = k < more ? 1 : dims[k - more];
      v.strides[k] = k < more ? (rank > 0 ? dims[0] * strides[0] : 1) : strides[k - more];
    }
    return v;
  }

  // Trailing axes of one element.
  OPINFO_CALLED View trailing(int to) const {
    View v = *this;
    for (v.rank = to; to-- > rank;) v.dims[to] = v.strides[to] = 1;
    return v;
  }

  // The axes before the last one as one; those of a plain tensor.
  OPINFO_CALLED View merged() const {
    int64_t rows[2] = {1, dims[rank - 1]};
    for (int k = 0; k + 1 < rank; ++k) rows[0] *= dims[k];
    return plain(rows, 2, type, from);
  }

  // Strides of axes of one element, which may be any number, as a tensor has them whose channels,
  // the second axis, are innermost, or whose axes lie in order.
  View tidied() const {
    for (bool last : {true, false}) {
      View v = *this;
      int64_t step = 1;
      bool same = true;
      for (int k = rank; k-- > 0;) {
        const int axis = !last ? k : k + 1 == rank ? 1 : k > 0 ? k + 1 : 0;
        v.strides[axis] = step;
        same = same && (dims[axis] == 1 || strides[axis] == step);
        step *= dims[axis];
      }
      if (same) return v;
    }
    return *this;
  }

  // The pixels as rows, the channels as columns; only where these are innermost.
  bool to_rows(View* rows) const {
    View v = permuted(rank == 5 ? "02341" : rank == 4 ? "0231" : "021");
    int64_t step = 1;
    for (int k = rank; k-- > 0; step *= v.dims[k])
      if (v.dims[k] != 1 && v.strides[k] != step) return false;
    *rows = v.merged();
    return true;
  }

  // All axes as one; those of a plain tensor.
  OPINFO_CALLED View flat() const {
    int64_t count[1] = {1};
    for (int k = 0; k < rank; ++k) count[0] *= dims[k];
    return plain(count, 1, type, from);
  }

  // The first axis split in `groups` groups, which come first.
  OPINFO_CALLED View grouped(int64_t groups) const {
    if (groups == 1) return *this;
    View v = expanded(rank + 1);
    v.dims[1] /= groups;
    v.dims[0] = groups;
    v.strides[0] = v.dims[1] * strides[0];
    return v;
  }

  Dims extents() const { return Dims(dims, dims + rank); }
  memory::desc desc() const {
    return memory::desc(extents(), type, Dims(strides, strides + rank));
  }
  memory::desc any() const { return memory::desc(extents(), type, memory::format_tag::any); }
};

inline Type type_of(DLDataType t) {
  if (t.lanes == 1) {
    if (t.code == kDLFloat && t.bits == 32) return Type::f32;
    if (t.code == kDLBfloat && t.bits == 16) return Type::bf16;
    if (t.code == kDLInt && t.bits == 32) return Type::s32;
    if (t.code == kDLInt && t.bits == 8) return Type::s8;
    if (t.code == kDLUInt && t.bits == 8) return Type::u8;
  }
  return Type::undef;
}

// A constant of the model, in each layout that a primitive took it in.
class Constant {
 public:
  explicit Constant(const DLTensor* data) : data_(data) {}

  View view(int k) const {
    return View::plain(data_->shape, data_->ndim, type_of(data_->dtype), ~k);
  }

  memory as(const memory::desc& plain, const memory::desc& wanted) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [read, m] : made_)
      if (read == plain && m.get_desc() == wanted) return m;
    if (data_->data == nullptr) return memory(wanted, cpu(), nullptr);  // nothing will run
    memory from(plain, cpu(), opinfo::data(data_));
    memory to = plain == wanted ? from : memory(wanted, cpu());
    if (plain != wanted) {
      dnnl::reorder(from, to).execute(here(), from, to);
      here().wait();
    }
    made_.emplace_back(plain, to);
    return to;
  }

  // Numbers of another shape that `compute` writes from these, in a layout of theirs.
  template <typename Compute>
  memory derived(const std::string& name, const memory::desc& plain, const memory::desc& wanted,
                 Compute compute) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (data_->data == nullptr) return memory(wanted, cpu(), nullptr);  // nothing will run
    for (const auto& [known, m] : derived_)
      if (known == name && m.get_desc() == wanted) return m;
    memory from(plain, cpu()), to = plain == wanted ? from : memory(wanted, cpu());
    compute(reinterpret_cast<const float*>(opinfo::data(data_)),
            static_cast<float*>(from.get_data_handle()));
    if (plain != wanted) {
      dnnl::reorder(from, to).execute(here(), from, to);
      here().wait();
    }
    derived_.emplace_back(name, to);
    return to;
  }

  // The layout that later primitives should ask for, so that few copies are made.
  memory::desc preferred(const View& v) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [read, m] : made_)
      if (read == v.desc()) return m.get_desc();
    return v.any();
  }

 private:
  const DLTensor* data_;
  std::mutex mutex_;
  // Each with the view of the constant that it was copied from: transposed views of square
  // constants have equal extents.
  std::vector<std::pair<memory::desc, memory>> made_;
  std::vector<std::pair<std::string, memory>> derived_;
};

inline std::vector<std::unique_ptr<Constant>>& constants() {
  static std::vector<std::unique_ptr<Constant>> all;
  return all;
}

OPINFO_CALLED View constant(int k) { return constants()[k]->view(k); }

// The tensors of a call, each as its data type and its extents.
using Shapes = std::vector<Dims>;

OPINFO_CALLED View tensor(const Shapes& in, int k) {
  return View::plain(in[k].data() + 1, static_cast<int>(in[k].size()) - 1,
                     static_cast<Type>(in[k][0]), k);
}

}  // namespace
}  // namespace opinfo_onednn
