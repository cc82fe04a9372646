
// Regions as functions of TVM. It follows recipe.hpp.
#include <atomic>
#include <mutex>

namespace opinfo_onednn {
namespace {

using Make = Called<std::shared_ptr<const Kernel>()>;

// The constants of the functions of one source; a library may have several.
class GroupConstants {
 public:
  void load(const TVMFFIAny* args, TVMFFIAny* result) {
    kept_.load(args, result);
    all_.clear();
    for (size_t k = 0; k < kept_.size(); ++k) all_.push_back(std::make_unique<Constant>(kept_[k]));
  }

  // Makes a kernel, which reads `constants()`, while these are the ones of this group.
  std::shared_ptr<const Kernel> make(Make kernel) {
    static std::mutex mutex;
    std::lock_guard<std::mutex> lock(mutex);
    const Exchanged exchanged(all_);
    return kernel();
  }

 private:
  struct Exchanged {
    std::vector<std::unique_ptr<Constant>>& all;
    explicit Exchanged(std::vector<std::unique_ptr<Constant>>& own) : all(own) {
      all.swap(constants());
    }
    ~Exchanged() { all.swap(constants()); }
  };

  opinfo::Constants kept_;
  std::vector<std::unique_ptr<Constant>> all_;
};

// One region: its kernel, or one for each shape.
class Function {
 public:
  // `spec` has the rank, the type and the extents of each tensor, -1 where one is symbolic.
  Function(GroupConstants& group, const char* name, const char* recipe, int count,
           const int64_t* spec)
      : group_(group), name_(name), recipe_(recipe), fixed_(true) {
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
    const Dims* shape = shapes_.data();
    for (int k = 0; k < count; ++k, ++shape) {
      const DLTensor* t = opinfo::tensor(args[k]);
      if (t == nullptr || !fits(*t, *shape))
        OPINFO_THROW(TypeError) << name_ << ": argument " << k << " is not a plain CPU tensor of "
                                 << told(*shape);
      tensors[k] = t;
      data[k] = opinfo::data(t);
    }
    const Kernel* only = only_.load(std::memory_order_acquire);
    if (only != nullptr) {
      if ((*only)(data)) return;
    } else if ((*find(fixed_ ? shapes_ : known(tensors)))(data)) {
      return;
    }
    (*usual(fixed_ ? shapes_ : known(tensors)))(data);
  }

  static bool fits(const DLTensor& t, const Dims& shape) {
    const int64_t* spec = shape.data();
    return t.device.device_type == kDLCPU && t.ndim + 1 == static_cast<int>(shape.size()) &&
           static_cast<int64_t>(type_of(t.dtype)) == spec[0] &&
           opinfo_regions::is_plain(t, spec + 1);
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
    auto kernel = kernels_.find(shapes, [&] {
      return group_.make([&] { return std::make_shared<const Kernel>(kernel_of(recipe_, shapes)); });
    });
    if (fixed_) only_.store(kernel.get(), std::memory_order_release);
    return kernel;
  }

  // For sums that are not finite; made when the first of them comes.
  std::shared_ptr<const Kernel> usual(const Shapes& shapes) {
    return usual_.find(shapes, [&] {
      return group_.make([&] {
        return std::make_shared<const Kernel>(kernel_of(recipe_, shapes, true));
      });
    });
  }

  GroupConstants& group_;
  const char* name_;
  const char* recipe_;
  bool fixed_;
  Shapes shapes_;
  opinfo_regions::Kernels<Shapes, Kernel> kernels_, usual_;
  std::atomic<const Kernel*> only_{nullptr};
};

// The functions of one source, which get their constants when the library is loaded.
class Group {
 public:
  Function* add(const char* name, const char* recipe, int count, const int64_t* spec) {
    functions_.push_back(std::make_unique<Function>(constants_, name, recipe, count, spec));
    return functions_.back().get();
  }

  int begin(const TVMFFIAny* args, TVMFFIAny* result) {
    return opinfo::guarded([&] {
      std::call_once(once_, [&] {  // whoever else loads the library
        constants_.load(args, result);
        for (auto& f : functions_) f->prepare();
      });
      *result = opinfo::integer(0);
    });
  }

 private:
  GroupConstants constants_;
  std::once_flag once_;
  std::vector<std::unique_ptr<Function>> functions_;
};

}  // namespace
}  // namespace opinfo_onednn

// What `model.hpp` declares. As an object of its own, it is hidden in the library that it is linked
// into: two models in one process share nothing.
OPINFO_LINKAGE void* OPINFO_RUNTIME(group)() {
  static std::vector<std::unique_ptr<opinfo_onednn::Group>> all;
  all.push_back(std::make_unique<opinfo_onednn::Group>());
  return all.back().get();
}

OPINFO_LINKAGE void* OPINFO_RUNTIME(function)(void* group, const char* name, const char* recipe,
                                              int count, const int64_t* spec) {
  return static_cast<opinfo_onednn::Group*>(group)->add(name, recipe, count, spec);
}

OPINFO_LINKAGE int OPINFO_RUNTIME(call)(void* function, const TVMFFIAny* args, int32_t count,
                                        TVMFFIAny* result) {
  return static_cast<opinfo_onednn::Function*>(function)->safe_call(args, count, result);
}

OPINFO_LINKAGE int OPINFO_RUNTIME(begin)(void* group, const TVMFFIAny* args, TVMFFIAny* result) {
  return static_cast<opinfo_onednn::Group*>(group)->begin(args, result);
}
