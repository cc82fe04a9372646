
// Regions of the onednn backend: tensors as strided views, and constants that are reordered once. It
// follows primitives.hpp.
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace opinfo_onednn {
namespace {

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

  MemoryDesc desc() const { return with_strides(strides); }

  OPINFO_CALLED MemoryDesc with_strides(const int64_t* steps) const {
    dnnl_memory_desc_t made = nullptr;
    check(dnnl_memory_desc_create_with_strides(&made, rank, dims, type, steps), kUnknown);
    return MemoryDesc(made);
  }

  // In the layout that a primitive prefers.
  OPINFO_CALLED MemoryDesc any() const {
    dnnl_memory_desc_t made = nullptr;
    check(dnnl_memory_desc_create_with_tag(&made, rank, dims, type, dnnl_format_tag_any), kUnknown);
    return MemoryDesc(made);
  }

  static constexpr const char* kUnknown = "could not construct a memory descriptor";
};

inline Type type_of(DLDataType t) {
  if (t.lanes == 1) {
    if (t.code == kDLFloat && t.bits == 32) return dnnl_f32;
    if (t.code == kDLBfloat && t.bits == 16) return dnnl_bf16;
    if (t.code == kDLInt && t.bits == 32) return dnnl_s32;
    if (t.code == kDLInt && t.bits == 8) return dnnl_s8;
    if (t.code == kDLUInt && t.bits == 8) return dnnl_u8;
  }
  return dnnl_data_type_undef;
}

// A constant of the model, in each layout that a primitive took it in.
class Constant {
 public:
  explicit Constant(const DLTensor* data) : data_(data) {}

  View view(int k) const {
    return View::plain(data_->shape, data_->ndim, type_of(data_->dtype), ~k);
  }

  Memory as(const MemoryDesc& plain, const MemoryDesc& wanted) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Copy& c : made_)
      if (c.read == plain && c.memory.desc() == wanted) return c.memory;
    if (data_->data == nullptr) return Memory(wanted, nullptr);  // nothing will run
    const Memory from(plain, opinfo::data(data_));
    const Memory to = plain == wanted ? from : Memory(wanted);
    if (plain != wanted) reorder(from, to);
    made_.push_back({"", plain, to});
    return to;
  }

  // The numbers of a view as they lie in memory.
  const float* elements(const View& v) {
    return static_cast<const float*>(as(v.desc(), v.desc()).data());
  }

  // Numbers of another shape that `compute` writes from these, in a layout of theirs.
  OPINFO_CALLED Memory derived(const std::string& name, const MemoryDesc& plain,
                               const MemoryDesc& wanted,
                               Called<void(const float*, float*)> compute) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (data_->data == nullptr) return Memory(wanted, nullptr);  // nothing will run
    for (const Copy& c : derived_)
      if (c.name == name && c.memory.desc() == wanted) return c.memory;
    const Memory from(plain), to = plain == wanted ? from : Memory(wanted);
    compute(reinterpret_cast<const float*>(opinfo::data(data_)), static_cast<float*>(from.data()));
    if (plain != wanted) reorder(from, to);
    derived_.push_back({name, plain, to});
    return to;
  }

  // The layout that later primitives should ask for, so that few copies are made.
  MemoryDesc preferred(const View& v) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Copy& c : made_)
      if (c.read == v.desc()) return c.memory.desc();
    return v.any();
  }

 private:
  // With the view of the constant that it was copied from, as transposed views of square constants
  // have equal extents; with the name of what was computed.
  struct Copy {
    std::string name;
    MemoryDesc read;
    Memory memory;
  };
  const DLTensor* data_;
  std::mutex mutex_;
  std::vector<Copy> made_, derived_;
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
