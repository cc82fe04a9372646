
// Regions as functions of TVM. It follows recipe.hpp.
#include <atomic>

namespace opinfo_onednn {
namespace {

// One region: its kernel, or one for each shape.
class Function {
 public:
  // `spec` has the rank, the type and the extents of each tensor, -1 where one is symbolic.
  Function(const char* name, const char* recipe, int count, const int64_t* spec)
      : name_(name), recipe_(recipe), fixed_(true) {
    for (; count > 0; --count, spec += spec[0] + 2) {
      shapes_.emplace_back(spec + 1, spec + spec[0] + 2);
      for (int64_t e : shapes_.back()) fixed_ = fixed_ && e >= 0;
    }
  }

  void prepare() {
    if (fixed_) find(shapes_);
  }

  // The calling convention of TVM's packed functions.
  int safe_call(const TVMFFIAny* args, int32_t count, TVMFFIAny*) {
    return opinfo::guarded([&] { call(args, count); });
  }

 private:
  void call(const TVMFFIAny* args, int32_t count) {
    if (count != static_cast<int32_t>(shapes_.size()) || count > kOwn)
      OPINFO_THROW(TypeError) << name_ << ": " << count << " arguments, expected "
                               << shapes_.size();
    void* data[kOwn + kMostOwn];
    const DLTensor* tensors[kOwn];
    for (int k = 0; k < count; ++k) {
      const DLTensor* t = opinfo::tensor(args[k]);
      if (t == nullptr || !fits(*t, shapes_[k]))
        OPINFO_THROW(TypeError) << name_ << ": argument " << k << " is not a plain CPU tensor of "
                                 << told(shapes_[k]);
      tensors[k] = t;
      data[k] = opinfo::data(t);
    }
    const Kernel* only = only_.load(std::memory_order_acquire);
    if (only != nullptr)
      (*only)(data);
    else
      (*find(fixed_ ? shapes_ : known(tensors)))(data);
  }

  static bool fits(const DLTensor& t, const Dims& spec) {
    return t.device.device_type == kDLCPU && t.ndim + 1 == static_cast<int>(spec.size()) &&
           static_cast<int64_t>(type_of(t.dtype)) == spec[0] &&
           opinfo_regions::is_plain(t, spec.data() + 1);
  }

  static std::string told(const Dims& spec) {
    return opinfo_regions::spelled(dnnl_dt2str(static_cast<dnnl_data_type_t>(spec[0])),
                                   spec.data() + 1, static_cast<int64_t>(spec.size()) - 1);
  }

  Shapes known(const DLTensor* const* tensors) const {
    Shapes out = shapes_;
    for (size_t k = 0; k < out.size(); ++k)
      std::copy(tensors[k]->shape, tensors[k]->shape + tensors[k]->ndim, out[k].begin() + 1);
    return out;
  }

  std::shared_ptr<const Kernel> find(const Shapes& shapes) {
    auto kernel = kernels_.find(
        shapes, [&] { return std::make_shared<const Kernel>(kernel_of(recipe_, shapes)); });
    if (fixed_) only_.store(kernel.get(), std::memory_order_release);
    return kernel;
  }

  const char* name_;
  const char* recipe_;
  bool fixed_;
  Shapes shapes_;
  opinfo_regions::Kernels<Shapes, Kernel> kernels_;
  std::atomic<const Kernel*> only_{nullptr};
};

OPINFO_CALLED int begin(const TVMFFIAny* args, TVMFFIAny* result, Function* const* functions,
                        int number) {
  return opinfo_regions::take_constants(args, result, constants(), [&] {
    for (int k = 0; k < number; ++k) functions[k]->prepare();
  });
}

}  // namespace
}  // namespace opinfo_onednn

using namespace opinfo_onednn;
