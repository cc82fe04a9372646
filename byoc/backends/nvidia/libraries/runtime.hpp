// What the generated functions of NVIDIA's backends share: checked arguments, constants that are
// copied to a device once, kernels that are made once for each shape. It follows device.hpp.

// Makes a region's kernel for the extents that were known when it was compiled, or raises why not.
#define OPINFO_CHECK(symbol)                                                        \
  OPINFO_FUNCTION(opinfo_check_##symbol) {                                          \
    *result = TVMFFIAny{};                                                          \
    return opinfo::guarded([&] { symbol##_.check(static_cast<int>(args->v_int64)); }); \
  }

namespace opinfo_nvidia {
namespace {

using Extents = std::vector<int64_t>;

// A constant of the model: in the memory of each device that it was asked for on.
class Constant {
 public:
  explicit Constant(const DLTensor* data) : data_(data) {}

  Extents extents() const {
    return Extents(data_->shape, data_->shape + data_->ndim);
  }

  OPINFO_UNUSED const void* host() const {
    return opinfo::data(data_);
  }

  void* on(int device) {
    std::lock_guard<std::mutex> lock(mutex_);
    void*& copy = copies_[device];
    if (copy == nullptr) {
      size_t bytes = (data_->dtype.bits * data_->dtype.lanes + 7) / 8;
      for (int k = 0; k < data_->ndim; ++k) bytes *= data_->shape[k];
      check(cudaMalloc(&copy, std::max<size_t>(bytes, 1)), "memory of a constant");
      check(cudaMemcpy(copy, host(), bytes, cudaMemcpyDefault), "copy of a constant");
    }
    return copy;
  }

 private:
  const DLTensor* data_;
  std::mutex mutex_;
  std::map<int, void*> copies_;
};

inline std::vector<std::unique_ptr<Constant>>& constants() {
  static std::vector<std::unique_ptr<Constant>> all;
  return all;
}

// A tensor of the call (`from` >= 0), or a constant, where it is on the device.
struct Operand {
  int from = -1;
  const void* fixed = nullptr;
  Extents extents;

  explicit operator bool() const { return from >= 0 || fixed != nullptr; }
  void* in(void* const* data) const { return from >= 0 ? data[from] : const_cast<void*>(fixed); }
  int64_t last(int k) const { return extents[extents.size() - k]; }
  int64_t count() const {
    int64_t n = 1;
    for (int64_t e : extents) n *= e;
    return n;
  }
};

// What a kernel is made for. `alignment`: bytes that all addresses are multiples of. `data` is null
// if no kernel is asked for yet: what takes long may be prepared. `waits`: a request with extents
// that were unknown when the region was compiled waits for the kernel, so making it must be fast.
// `known`: nothing is made; it gets whether a kernel is known to exist, from what is kept on disk.
struct Context {
  const char* name;
  int device;
  int alignment;
  std::vector<Extents> extents;
  void* const* data;
  bool waits = false;
  bool* known = nullptr;
  const int64_t* const* specs = nullptr;  // of the tensors: see Function

  Operand tensor(int k) const { return {k, nullptr, extents[k]}; }
  OPINFO_UNUSED Operand constant(int k) const {
    Constant& all = *constants()[k];
    return {-1, known != nullptr ? all.host() : all.on(device), all.extents()};
  }
  // Whether its extents were known when the region was compiled.
  OPINFO_UNUSED bool is_sized(const Operand& t) const {
    if (t.from < 0) return true;
    const int64_t* spec = specs == nullptr ? nullptr : specs[t.from];
    for (int64_t k = 0; spec != nullptr && k < spec[0]; ++k)
      if (spec[3 + k] < 0) return false;
    return spec != nullptr;
  }
};

struct Kernel {
  virtual ~Kernel() = default;
  // Threads may call it at once.
  virtual void operator()(void* const* data, cudaStream_t stream) const = 0;
};

// What has no element to write.
struct Nothing : Kernel {
  void operator()(void* const*, cudaStream_t) const override {}
};

// Called before a kernel is made for a device, if a library sets it. `checks`: what is known to exist
// is not called now. `batch`: of the call, 0 if not only that was unknown when the region was compiled.
inline void (*&before_kernels())(int device, bool checks, int64_t batch) {
  static void (*all)(int, bool, int64_t) = nullptr;
  return all;
}

// One region: a kernel for each device, shape and alignment that it was called with.
class Function {
 public:
  using Make = std::unique_ptr<Kernel> (*)(const Context&);

  // `spec` has the rank, the type's code and bits, and the extents of each tensor, -1 for unknown.
  Function(const char* name, Make make, int count, const int64_t* spec)
      : name_(name), make_(make) {
    for (; count > 0; --count, spec += spec[0] + 3) specs_.push_back(spec);
    all().push_back(this);
  }

  // The regions of the model.
  static std::vector<Function*>& all() {
    static std::vector<Function*> functions;
    return functions;
  }

  // Whether its extents are known, and there is something to compute.
  bool is_static() const {
    for (const int64_t* spec : specs_)
      for (int64_t k = 0; k < spec[0]; ++k)
        if (spec[3 + k] <= 0) return false;
    return true;
  }

  // Whether only first extents are unknown, and some are: those of a batch.
  bool is_batched() const {
    bool out = false;
    for (const int64_t* spec : specs_)
      for (int64_t k = 0; k < spec[0]; ++k) {
        if (spec[3 + k] == 0 || (spec[3 + k] < 0 && k > 0)) return false;
        out = out || spec[3 + k] < 0;
      }
    return out;
  }

  // What takes long is done before it is called. `batch`: the extents that are unknown.
  void prepare(int device, bool* known = nullptr, int64_t batch = 0) const {
    Context c{name_, device, kAligned, {}, nullptr, batch > 0, known, specs_.data()};
    for (const int64_t* spec : specs_) {
      c.extents.emplace_back(spec + 3, spec + 3 + spec[0]);
      for (int64_t& extent : c.extents.back())
        if (extent < 0) extent = batch;
    }
    make_(c);
  }

  // Whether an earlier process kept on disk what it chose on this device, so that nothing is made.
  bool is_known(int device) const {
    bool known = false;
    if (before_kernels() != nullptr) try {
        prepare(device, &known);
      } catch (const std::exception&) {  // making its kernel raises it again
      }
    return known;
  }

  void check(int device) {
    if (!is_static()) return;
    const Current current(device);
    if (is_known(device)) return;
    const Trial trial(specs_);
    if (trial)
      find(device, kAligned, trial.tensors().data(), static_cast<int>(specs_.size()), trial.data(),
           true);
    check_synchronized();
  }

  // The calling convention of TVM's packed functions.
  int safe_call(const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
    *result = TVMFFIAny{};
    return opinfo::guarded([&] { call(args, count); });
  }

 private:
  static constexpr int kMost = 64, kAligned = 256;

  void call(const TVMFFIAny* args, int32_t count) {
    if (count != static_cast<int32_t>(specs_.size()) || count > kMost)
      OPINFO_THROW(TypeError) << name_ << ": " << count << " arguments, expected "
                               << specs_.size();
    void* data[kMost];
    const DLTensor* tensors[kMost];
    uintptr_t addresses = kAligned;
    for (int k = 0; k < count; ++k) {
      const DLTensor* t = opinfo::tensor(args[k]);
      if (t == nullptr || !fits(*t, specs_[k]) ||
          t->device.device_id != (k == 0 ? t : tensors[0])->device.device_id)
        OPINFO_THROW(TypeError) << name_ << ": argument " << k << " is not a plain tensor of "
                                 << told(specs_[k]) << " on the GPU of the first one";
      tensors[k] = t;
      data[k] = opinfo::data(t);
      addresses |= reinterpret_cast<uintptr_t>(data[k]);
    }
    const int device = tensors[0]->device.device_id;
    const int alignment = static_cast<int>(addresses & -addresses);
    const Current current(device);
    const auto kernel = find(device, alignment, tensors, count, data);
    if (opinfo_graphs::recording() != nullptr) opinfo_graphs::recording()->keep(kernel);
    (*kernel)(data, stream_of(device));
  }

  // What is unknown of a batch; 0 if other extents are unknown, too.
  int64_t batch(const DLTensor* const* tensors) const {
    for (size_t k = 0; is_batched() && k < specs_.size(); ++k)
      if (specs_[k][0] > 0 && specs_[k][3] < 0) return tensors[k]->shape[0];
    return 0;
  }

  // The memory is freed next.
  static void check_synchronized() { opinfo_nvidia::check(cudaDeviceSynchronize(), "synchronize"); }

  static bool fits(const DLTensor& t, const int64_t* spec) {
    return t.device.device_type == OPINFO_DEVICE && t.ndim == spec[0] && t.dtype.lanes == 1 &&
           t.dtype.code == spec[1] && t.dtype.bits == spec[2] &&
           opinfo_regions::is_plain(t, spec + 3);
  }

  static std::string told(const int64_t* spec) {
    if (spec[1] == kDLFloat8_e4m3fn)
      return opinfo_regions::spelled("float8_e4m3fn", spec + 3, spec[0]);
    const char* type = spec[1] == kDLBfloat ? "bfloat" : spec[1] == kDLInt ? "int" : "float";
    return opinfo_regions::spelled(type + std::to_string(spec[2]), spec + 3, spec[0]);
  }

  std::shared_ptr<const Kernel> find(int device, int alignment, const DLTensor* const* tensors,
                                     int count, void* const* data, bool checks = false) {
    static thread_local Extents key;
    key.assign({device, alignment});
    for (int k = 0; k < count; ++k)
      key.insert(key.end(), tensors[k]->shape, tensors[k]->shape + tensors[k]->ndim);
    return kernels_.find(key, [&]() -> std::shared_ptr<const Kernel> {
      if (before_kernels() != nullptr) before_kernels()(device, checks, batch(tensors));
      Context c{name_, device, alignment, {}, data, !is_static(), nullptr, specs_.data()};
      for (int k = 0; k < count; ++k)
        c.extents.emplace_back(tensors[k]->shape, tensors[k]->shape + tensors[k]->ndim);
      bool empty = false;
      for (int64_t e : c.extents.back()) empty = empty || e == 0;
      return empty ? std::make_unique<Nothing>() : make_(c);
    });
  }

  const char* name_;
  Make make_;
  std::vector<const int64_t*> specs_;
  // Not freed at exit, when the driver may be gone.
  opinfo_regions::Kernels<Extents, Kernel>& kernels_ =
      *new opinfo_regions::Kernels<Extents, Kernel>;
};

OPINFO_UNUSED int begin(const TVMFFIAny* args, TVMFFIAny* result) {
  return opinfo_regions::take_constants(args, result, constants(), [] {});
}

}  // namespace
}  // namespace opinfo_nvidia

