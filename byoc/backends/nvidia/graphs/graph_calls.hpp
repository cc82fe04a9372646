// The calls that graphs are for: their arguments, which of those move, and copies of them. It follows
// runtime.hpp.

namespace opinfo_graphs __attribute__((visibility("hidden"))) {

using Key = std::vector<int64_t>;

// TVM has the error.
struct Raised {};

inline size_t bytes_of(const DLTensor* t) {
  int64_t count = 1;
  for (int k = 0; k < t->ndim; ++k) count *= t->shape[k];
  return (static_cast<size_t>(count) * t->dtype.bits * t->dtype.lanes + 7) / 8;
}

// The arguments of __tvm_ffi_opinfo_graph_run.
struct Call {
  enum { kMachine, kState, kNumber, kClosure, kWritten, kInputs, kResults, kFirst };
  // Larger tensors are not copied.
  static constexpr size_t kCopied = size_t{64} << 20;

  Call(const TVMFFIAny* args, int32_t count)
      : machine(args[kMachine]), closure(args[kClosure]), rest(args + kFirst, args + count),
        inputs(args[kInputs].v_int64), results(args[kResults].v_int64) {
    const TVMFFIShapeCell* indices = TVMFFIShapeGetCellPtr(args[kWritten].v_obj);
    fixed.assign(inputs + results, false);
    for (size_t k = 0; k < indices->size; ++k) fixed[indices->data[k]] = true;
    written = fixed;
    shapes = {args[kNumber].v_int64};
    for (int64_t k = 0; k < inputs + results; ++k) tensors.push_back(opinfo::tensor(rest[k]));
    for (int64_t k = 0; k < inputs + results && plain; ++k) describe(k);
  }

  void describe(int64_t k) {
    const DLTensor* t = tensors[k];
    if (t != nullptr && device < 0) device = t->device.device_id;
    if (t == nullptr || !opinfo::is_compact(t) || bytes_of(t) == 0 ||
        t->device.device_id != device) {
      plain = false;
      return;
    }
    fixed[k] = fixed[k] || bytes_of(t) > kCopied || shares_memory(k);
    shapes.insert(shapes.end(), t->shape, t->shape + t->ndim);
    const int64_t address = reinterpret_cast<intptr_t>(opinfo::data(t));
    (fixed[k] ? shapes : addresses).push_back(address);
    if (!fixed[k]) moving.push_back(k);
  }

  // Whether a tensor overlaps one that is written in place: its copy would not see that.
  bool shares_memory(int64_t k) const {
    for (int64_t other = 0; other < inputs; ++other) {
      const DLTensor *a = tensors[k], *b = tensors[other];
      if (other == k || !written[other] || b == nullptr) continue;
      if (opinfo::data(a) < opinfo::data(b) + bytes_of(b) &&
          opinfo::data(b) < opinfo::data(a) + bytes_of(a))
        return true;
    }
    return false;
  }

  void run(const std::vector<TVMFFIAny>& given) const {
    static TVMFFIObjectHandle invoke = [] {
      const char name[] = "vm.builtin.invoke_closure";
      const TVMFFIByteArray text{name, sizeof(name) - 1};
      TVMFFIObjectHandle out = nullptr;
      return TVMFFIFunctionGetGlobal(&text, &out) == 0 ? out : nullptr;
    }();
    if (invoke == nullptr) throw std::runtime_error("TVM's runtime has no virtual machine");
    std::vector<TVMFFIAny> all{machine, closure};
    all.insert(all.end(), given.begin(), given.end());
    TVMFFIAny result{};
    if (TVMFFIFunctionCall(invoke, all.data(), static_cast<int32_t>(all.size()), &result) != 0)
      throw Raised{};
    if (result.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(result.v_obj);
  }

  TVMFFIAny machine, closure;
  std::vector<TVMFFIAny> rest;  // inputs, results, and where intermediates are
  int64_t inputs, results;
  std::vector<bool> written, fixed;  // in place; not to be copied
  std::vector<const DLTensor*> tensors;
  int device = -1;
  bool plain = true;  // whether a graph may do it
  Key shapes, addresses;  // of what a graph may do for this call, and of what only one may
  std::vector<int64_t> moving;  // the tensors that `addresses` has
};

// Which tensors of calls with the same shapes have moved: those are copied, and weights are not.
struct Moved {
  Key last;
  std::vector<bool> flags;

  // Notes a call, and returns whether it is the first one.
  bool note(const Call& c) {
    const bool first = flags.empty();
    if (first) flags.assign(c.tensors.size(), false);
    for (size_t n = 0; n < c.moving.size(); ++n)
      if (c.moving[n] >= c.inputs || (!first && last[n] != c.addresses[n]))
        flags[c.moving[n]] = true;
    last = c.addresses;
    return first;
  }

  size_t bytes(const Call& c) const {
    size_t out = 0;
    for (int64_t k : c.moving) out += flags[k] ? bytes_of(c.tensors[k]) : 0;
    return out;
  }

  // The key of a graph for which the others are where they are in a call.
  Key key(const Call& c) const {
    Key out = c.shapes;
    for (size_t n = 0; n < c.moving.size(); ++n)
      out.push_back(flags[c.moving[n]] ? -1 : c.addresses[n]);
    return out;
  }
};

// A tensor as another one, elsewhere.
class Copy {
 public:
  Copy(const DLTensor* like, Shared memory) : memory_(std::move(memory)) {
    auto* owner = new Owner{{like->shape, like->shape + like->ndim}, {}};
    owner->managed.dl_tensor = *like;
    owner->managed.dl_tensor.data = memory_->data();
    owner->managed.dl_tensor.byte_offset = 0;
    owner->managed.dl_tensor.shape = owner->shape.data();
    owner->managed.dl_tensor.strides = nullptr;
    owner->managed.manager_ctx = owner;
    owner->managed.deleter = [](DLManagedTensor* t) { delete static_cast<Owner*>(t->manager_ctx); };
    if (TVMFFITensorFromDLPack(&owner->managed, 0, 0, &tensor_) != 0) throw Raised{};
  }
  Copy(const Copy&) = delete;
  ~Copy() { TVMFFIObjectDecRef(tensor_); }
  char* data() const { return memory_->data(); }
  TVMFFIAny any() const {
    TVMFFIAny out{};
    out.type_index = kTVMFFITensor;
    out.v_obj = static_cast<TVMFFIObject*>(tensor_);
    return out;
  }

 private:
  struct Owner {
    Key shape;
    DLManagedTensor managed;
  };
  Shared memory_;
  TVMFFIObjectHandle tensor_ = nullptr;
};

}  // namespace opinfo_graphs
