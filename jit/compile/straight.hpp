// Calls whose arguments need no conversion: they are checked and passed on without Python.
namespace opinfo_jit {
namespace {

// Reads a plan: see `jit.arguments.fast_path`, which writes it.
class Arguments {
 public:
  explicit Arguments(const TVMFFIShapeCell* plan)
      : at_(plan->data), end_(plan->data + plan->size), params_(next()), symbols_(next()),
        ranges_(at_) {
    at_ += 3 * symbols_;
  }

  bool fit(const TVMFFIAny* args, int32_t n) {
    if (n != params_ || symbols_ > kMost) return false;
    std::fill(values_, values_ + symbols_, -1);
    for (int32_t k = 0; k < n; ++k)
      if (!fits(args[k])) return false;
    for (int64_t k = 0; k < symbols_; ++k) {
      const int64_t *r = ranges_ + 3 * k, v = values_[k];
      if (v < r[0] || (r[1] >= 0 && v > r[1]) || v % r[2]) return false;
    }
    return at_ == end_;
  }

 private:
  static constexpr int64_t kMost = 32, kAny = -1, kFirst = -2;
  enum Kind { kAnything, kTensor, kShape, kNotNone, kInteger, kReal, kBool };

  bool fits(const TVMFFIAny& arg) {
    switch (next()) {
      case kAnything:
        return anything(arg);
      case kTensor:
        return tensor(arg);
      case kShape:
        return shape(arg);
      case kInteger:
        return integer(arg);
      case kReal:
        return arg.type_index == kTVMFFIFloat;
      case kBool:
        return arg.type_index == kTVMFFIBool;
      default:
        return arg.type_index != kTVMFFINone;
    }
  }
  bool anything(const TVMFFIAny& arg) {
    if (arg.type_index == kTVMFFITensor) return readable(*TVMFFITensorGetDLTensorPtr(arg.v_obj));
    return arg.type_index != kTVMFFIArray && arg.type_index != kTVMFFIDLTensorPtr;
  }
  bool integer(const TVMFFIAny& arg) {
    int64_t least = next(), largest = next();
    return arg.type_index == kTVMFFIInt && arg.v_int64 >= least && arg.v_int64 <= largest;
  }
  bool shape(const TVMFFIAny& arg) {
    if (arg.type_index != kTVMFFIShape) return false;
    const TVMFFIShapeCell& shape = *TVMFFIShapeGetCellPtr(arg.v_obj);
    return extents(shape.data, static_cast<int64_t>(shape.size));
  }
  bool tensor(const TVMFFIAny& arg) {
    int64_t device = next(), code = next(), bits = next(), lanes = next();
    if (arg.type_index != kTVMFFITensor) return false;
    const DLTensor& t = *TVMFFITensorGetDLTensorPtr(arg.v_obj);
    if (t.device.device_type != device) return false;
    if (code != kAny && (t.dtype.code != code || t.dtype.bits != bits || t.dtype.lanes != lanes))
      return false;
    return extents(t.shape, t.ndim) && readable(t);
  }
  static bool readable(const DLTensor& t) {
    return (reinterpret_cast<uintptr_t>(t.data) + t.byte_offset) % 64 == 0 && ffi::IsContiguous(t);
  }
  bool extents(const int64_t* shape, int64_t rank) {
    int64_t ndim = next();
    if (ndim != kAny && rank != ndim) return false;
    for (int64_t axis = 0; axis < rank; ++axis) {
      int64_t got = shape[axis], extent = ndim == kAny ? kAny : next();
      if (got < 1 || (extent >= 0 && got != extent)) return false;
      if (extent > kFirst) continue;
      int64_t& value = values_[kFirst - extent];
      if (value < 0) value = got;
      if (value != got) return false;
    }
    return true;
  }
  int64_t next() { return at_ < end_ ? *at_++ : 0; }

  const int64_t *at_, *end_;
  int64_t params_, symbols_;
  const int64_t* ranges_;
  int64_t values_[kMost];
};

}  // namespace
}  // namespace opinfo_jit

// Takes (function, plan, arguments…). Returns the function's result, or its error as a value if it
// raises one, or the function itself if the arguments do not fit the plan.
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_opinfo_jit_straight(void*, const TVMFFIAny* args,
                                                                int32_t n, TVMFFIAny* result) {
  opinfo_jit::Arguments arguments(TVMFFIShapeGetCellPtr(args[1].v_obj));
  if (!arguments.fit(args + 2, n - 2)) {
    *result = args[0];
    TVMFFIObjectIncRef(args[0].v_obj);
    return 0;
  }
  auto call = TVMFFIFunctionGetCellPtr(args[0].v_obj)->safe_call;
  int failed = call(args[0].v_obj, args + 2, n - 2, result);
  if (failed != -1) return failed;
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  if (!error) return failed;
  result->type_index = kTVMFFIError;
  result->zero_padding = 0;
  result->v_obj = static_cast<TVMFFIObject*>(error);
  return 0;
}
